//go:build fleet

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/terminal"
)

const (
	// hostsPatience is how long the hub may take to answer an operator.
	hostsPatience = 10 * time.Second

	// rewatch is how often --watch shows how busy the hosts are; a host that comes, goes or changes its state is shown at once.
	rewatch = 2 * time.Second
)

// run lists the hosts.
func (f *hostsFlags) run(ctx context.Context, stdout *os.File) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	return orSignal(ctx, f.bus.operate(ctx, func(ctx context.Context, hosts *directory.Hosts, _ *directory.Drains) error {
		if !f.watch {
			return f.print(stdout, hosts.All())
		}
		last, screen := "", !f.asJSON && terminal.Is(stdout)
		for {
			changed, now := hosts.Changed(), hosts.All()
			shown, facts, err := f.text(now)
			if err != nil {
				return err
			}
			if screen {
				shown = "\x1b[H\x1b[2J" + shown // the whole screen, from its beginning
			}
			if screen || facts != last {
				if _, err := io.WriteString(stdout, shown); err != nil {
					return err
				}
			}
			last = facts
			select {
			case <-changed:
			case <-time.After(rewatch):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}))
}

// operate connects to the hub, reads the hosts, and calls do.
func (f *busFlags) operate(ctx context.Context, do func(context.Context, *directory.Hosts, *directory.Drains) error) error {
	if _, err := readCreds(f.creds, roleOperator, io.Discard); err != nil {
		return err
	}
	connecting, cancel := context.WithTimeoutCause(ctx, hostsPatience, fmt.Errorf("the hub has not answered for %v", hostsPatience))
	defer cancel()
	why := &lastWarning{}
	log := slog.New(why)
	conn, err := connect(connecting, f.config(roleOperator, log))
	if err != nil {
		return err
	}
	defer conn.Close()
	hosts, err := directory.NewHosts(conn, false, log)
	if err != nil {
		return err
	}
	drains, err := directory.NewDrains(conn)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	failed := make(chan error, 1)
	running.Go(func() { failed <- hosts.Run(ctx) })
	select {
	case <-hosts.Loaded():
		return do(ctx, hosts, drains)
	case err := <-failed:
		return err
	case <-connecting.Done():
		return why.explain(context.Cause(connecting))
	}
}

// A hostLine is a host in JSON.
type hostLine struct {
	fleet.Host
	State directory.State `json:"state"`
	AgeMs int64           `json:"ageMs"` // since the host was last heard of
}

// text returns what print prints about hosts, and the same without the time since each was heard of.
func (f *hostsFlags) text(hosts []directory.HostState) (text, facts string, err error) {
	var b, ageless strings.Builder
	err = f.print(&b, hosts)
	for i := range hosts {
		hosts[i].Age = 0
	}
	err = errors.Join(err, f.print(&ageless, hosts))
	return b.String(), ageless.String(), err
}

func (f *hostsFlags) print(w io.Writer, hosts []directory.HostState) error {
	if f.asJSON {
		lines := make([]hostLine, 0, len(hosts))
		for _, h := range hosts {
			h.Host.Draining = h.State == directory.Draining
			lines = append(lines, hostLine{h.Host, h.State, h.Age.Milliseconds()})
		}
		if !f.watch {
			return printJSON(w, lines)
		}
		return json.NewEncoder(w).Encode(lines)
	}
	t := terminal.NewTable(w, 0, "NAME", "STATE", "RUNNING", "SESSIONS", "LOAD", "AGE", "VERSION", "SANDBOX", "LABELS")
	for _, h := range hosts {
		t.Row(h.Name, string(h.State), fmt.Sprintf("%d/%d", h.Running, h.Capacity), fmt.Sprint(h.Sessions), fmt.Sprintf("%.2f", h.Load),
			terminal.Span(h.Age), h.Version, orDash(h.Sandbox), orDash(strings.Join(h.Labels, " ")))
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// run drains a host, or lets it get new sessions again.
func (f *drainFlags) run(ctx context.Context) error {
	if err := fleet.CheckHostName(f.host); err != nil {
		return usageError{err}
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	return orSignal(ctx, f.bus.operate(ctx, func(ctx context.Context, hosts *directory.Hosts, drains *directory.Drains) error {
		if _, known := hosts.Get(f.host); !known && f.on {
			return fmt.Errorf("there is no host %s; `tether hosts` lists those that there are", f.host)
		}
		return drains.Set(ctx, f.host, f.on)
	}))
}

// A lastWarning is a log that keeps the last warning or error, to explain why a command has failed.
type lastWarning struct {
	mu   sync.Mutex
	text string
}

func (l *lastWarning) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

func (l *lastWarning) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = r.Message
	r.Attrs(func(a slog.Attr) bool {
		l.text += ": " + a.Value.String()
		return true
	})
	return nil
}

func (l *lastWarning) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *lastWarning) WithGroup(string) slog.Handler      { return l }

// explain adds the warning to an error.
func (l *lastWarning) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return err
	}
	return errors.New(err.Error() + ": " + l.text)
}
