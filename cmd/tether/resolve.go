//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// resolve finds a process by its name, or by SESSION/NAME, where the beginning of the session's
// id is enough. If several processes have the name, it returns the newest that has not ended,
// or the newest of all if all have ended.
func resolve(f *serverFlags, processes []listedProcess, id string) (*listedProcess, error) {
	found := named(processes, id)
	if len(found) == 0 {
		return nil, unknown(f, processes, id)
	}
	return found[0], nil
}

// resolveOnly is resolve for commands that end a process: it refuses a name that several
// running processes have.
func resolveOnly(f *serverFlags, processes []listedProcess, id string) (*listedProcess, error) {
	found := named(processes, id)
	if len(found) < 2 || found[1].State == wire.StateClosed {
		return resolve(f, processes, id)
	}
	var ids []string
	for _, p := range found {
		if p.State != wire.StateClosed {
			ids = append(ids, shortID(p.SessionID)+"/"+p.ProcessID)
		}
	}
	return nil, fmt.Errorf("several running processes are called %q; name one of %s", id, strings.Join(ids, ", "))
}

// named returns the processes that match an id: processes that have not ended come first,
// then newer ones before older ones.
func named(processes []listedProcess, id string) []*listedProcess {
	found := match(processes, func(p *listedProcess) bool { return p.ProcessID == id })
	if session, name, whole := strings.Cut(id, "/"); len(found) == 0 && whole && session != "" {
		found = match(processes, func(p *listedProcess) bool {
			return p.ProcessID == name && strings.HasPrefix(p.SessionID, session)
		})
	}
	sort.SliceStable(found, func(i, j int) bool {
		a, b := found[i], found[j]
		if aEnded, bEnded := a.State == wire.StateClosed, b.State == wire.StateClosed; aEnded != bEnded {
			return bEnded
		}
		return a.StartedAtMs > b.StartedAtMs
	})
	return found
}

func match(processes []listedProcess, is func(*listedProcess) bool) (found []*listedProcess) {
	for i := range processes {
		if is(&processes[i]) {
			found = append(found, &processes[i])
		}
	}
	return found
}

// maxSuggestions is how many similar names an error about an unknown name lists.
const maxSuggestions = 5

func unknown(f *serverFlags, processes []listedProcess, id string) error {
	text := fmt.Sprintf("no process is called %q", id)
	var near []string
	for _, p := range processes {
		if len(near) < maxSuggestions && strings.HasPrefix(p.ProcessID, strings.TrimRight(id, "0123456789-/")) {
			near = append(near, p.ProcessID)
		}
	}
	if len(near) > 0 {
		return errors.New(text + "; there is " + strings.Join(near, ", "))
	}
	return errors.New(text + "; " + f.commandLine("ps") + " lists all processes")
}

// resolveSession finds a session by the beginning of its public id, or by its label.
func resolveSession(f *serverFlags, sessions []listedSession, id string) (*listedSession, error) {
	var found []*listedSession
	for i := range sessions {
		s := &sessions[i]
		if s.SessionID == id {
			return s, nil
		}
		if strings.HasPrefix(s.SessionID, id) && id != "" || s.Label == id && id != "" {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no session is called %q; %s lists all sessions", id, f.commandLine("sessions"))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%q matches %d sessions; give more of the id", id, len(found))
}

// find finds the process with an id. If conn leads to a gateway, its host is then the one that has the process.
func find(ctx context.Context, conn *connection, id string) (*wire.ProcessInfo, error) {
	return findBy(ctx, conn, id, resolve)
}

func findBy(ctx context.Context, conn *connection, id string, choose func(*serverFlags, []listedProcess, string) (*listedProcess, error)) (*wire.ProcessInfo, error) {
	processes, err := everywhere(ctx, conn, listProcesses)
	if err != nil {
		return nil, err
	}
	p, err := choose(conn.flags, processes, id)
	if err != nil {
		return nil, conn.notFound(err)
	}
	return &p.ProcessInfo, conn.moveTo(ctx, p.Host)
}

// refresh asks the server for a process again.
func refresh(ctx context.Context, conn *connection, p *wire.ProcessInfo) (*wire.ProcessInfo, error) {
	processes, err := listProcesses(ctx, conn)
	if err != nil {
		return nil, err
	}
	now, err := resolve(conn.flags, processes, p.SessionID+"/"+p.ProcessID)
	if err != nil {
		return nil, err
	}
	return &now.ProcessInfo, nil
}

func listProcesses(ctx context.Context, conn *connection) ([]listedProcess, error) {
	processes, err := conn.Processes(ctx, "")
	return onHost(conn.Host(), processes), err
}
