package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// resolve finds the process that a person means: by its name, or SESSION/NAME, where
// the beginning of the session's id is enough. Among several of a name, one that has
// not ended is meant.
func resolve(processes []wire.ProcessInfo, id string) (*wire.ProcessInfo, error) {
	found := match(processes, func(p *wire.ProcessInfo) bool { return p.ProcessID == id })
	if session, name, whole := strings.Cut(id, "/"); len(found) == 0 && whole && session != "" {
		found = match(processes, func(p *wire.ProcessInfo) bool {
			return p.ProcessID == name && strings.HasPrefix(p.SessionID, session)
		})
	}
	if len(found) > 1 {
		if running := matchOf(found, func(p *wire.ProcessInfo) bool { return p.State != wire.StateClosed }); len(running) == 1 {
			found = running
		}
	}
	switch len(found) {
	case 0:
		return nil, unknown(processes, id)
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, p := range found {
		ids = append(ids, shortID(p.SessionID)+"/"+p.ProcessID)
	}
	return nil, fmt.Errorf("several processes are called %q: %s", id, strings.Join(ids, ", "))
}

func match(processes []wire.ProcessInfo, is func(*wire.ProcessInfo) bool) (found []*wire.ProcessInfo) {
	for i := range processes {
		if is(&processes[i]) {
			found = append(found, &processes[i])
		}
	}
	return found
}

func matchOf(processes []*wire.ProcessInfo, is func(*wire.ProcessInfo) bool) (found []*wire.ProcessInfo) {
	for _, p := range processes {
		if is(p) {
			found = append(found, p)
		}
	}
	return found
}

// maxSuggestions is how many names are offered to who has mistyped one.
const maxSuggestions = 5

func unknown(processes []wire.ProcessInfo, id string) error {
	text := fmt.Sprintf("no process is called %q", id)
	var near []string
	for _, p := range processes {
		if len(near) < maxSuggestions && strings.HasPrefix(p.ProcessID, strings.TrimRight(id, "0123456789-/")) {
			near = append(near, p.ProcessID)
		}
	}
	if len(near) > 0 {
		text += "; there is " + strings.Join(near, ", ")
	}
	return errors.New(text)
}

// shortID is as much of a session's id as is enough for people.
func shortID(id string) string { return id[:min(len(id), 8)] }

// resolveSession finds a session by the beginning of its public id, or by its label.
func resolveSession(sessions []wire.SessionInfo, id string) (*wire.SessionInfo, error) {
	var found []*wire.SessionInfo
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
		return nil, fmt.Errorf("no session is called %q", id)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%q stands for %d sessions; give more of the id", id, len(found))
}

// nameIsFree refuses a name that a running process has: it could not be told from it.
func nameIsFree(ctx context.Context, conn *connection, name string) error {
	processes, err := conn.Processes(ctx, "")
	if errors.Is(err, client.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range processes {
		if p.ProcessID == name && p.State == wire.StateRunning {
			return fmt.Errorf("a process called %q is running already (session %s)", name, shortID(p.SessionID))
		}
	}
	return nil
}

// find asks the server for the process that a person means.
func find(ctx context.Context, conn *connection, id string) (*wire.ProcessInfo, error) {
	processes, err := conn.Processes(ctx, "")
	if err != nil {
		return nil, err
	}
	return resolve(processes, id)
}
