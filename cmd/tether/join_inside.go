//go:build fleet

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
	"github.com/tetherexec/tether/internal/fleet/executor"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/server"
)

// hasFleet: this program is tether-fleet, or has all commands inside.
const hasFleet = true

// commandsPerProcessor is the default of --capacity, for each processor. Commands of agents mostly wait.
const commandsPerProcessor = 4

// prepare checks the flags, and returns how the server joins the fleet. In the first process of a server it chooses the instance
// of the host.
func (f *joinFlags) prepare(cfg server.Config, listenURL string, fs *pflag.FlagSet, stderr io.Writer) (joining, error) {
	if f.url == "" {
		return func(s *server.Server) execServer { return s }, f.check(fs)
	}
	if f.creds == "" {
		return nil, errors.New("`--join` requires `--creds`: a file that `tether hub add-host` has made")
	}
	if endpoint, err := listen.ParseURL(listenURL); err == nil && endpoint.Transport == listen.Stdio {
		return nil, errors.New("`--join` needs a `--listen` URL that is not stdio")
	}
	certified, err := readCreds(f.creds, roleHost, stderr)
	if err != nil {
		return nil, err
	}
	host, err := f.host(certified)
	if err != nil {
		return nil, err
	}
	m := member{
		host: host, stays: fs.Changed("listen"), log: cfg.Log,
		bus: bus.Config{
			URL: f.url, Credentials: f.creds, CAFile: f.ca, Name: "host " + host.Name, Inbox: fleet.HostInbox(host.Name), Log: cfg.Log,
		},
	}
	if err := m.bus.Check(); err != nil {
		return nil, fmt.Errorf("--join: %w", err)
	}
	return func(s *server.Server) execServer {
		m.Server = s
		return &m
	}, nil
}

// host describes the host that the server is. certified is the name in its credentials; "": that is not known.
func (f *joinFlags) host(certified string) (h fleet.Host, err error) {
	h = fleet.Host{
		Name: cmp.Or(f.name, certified), Instance: ownInstance(), Labels: f.labels, Version: versionText(),
		Capacity: cmp.Or(int(f.capacity), commandsPerProcessor*runtime.NumCPU()),
	}
	if h.Name == "" {
		if h.Name, err = machineName(); err != nil {
			return h, fmt.Errorf("`--name` is missing: %w", err)
		}
	} else if err := fleet.CheckHostName(h.Name); err != nil {
		return h, fmt.Errorf("--name: %w", err)
	} else if certified != "" && h.Name != certified {
		return h, fmt.Errorf("--name %s: the credentials in %s are those of the host %s", h.Name, f.creds, certified)
	}
	if err := fleet.CheckLabels(h.Labels); err != nil {
		return h, fmt.Errorf("--label: %w", err)
	}
	return h, nil
}

// machineName is the name of this machine, if that can be the name of a host.
func machineName() (string, error) {
	name, err := os.Hostname()
	if err == nil {
		err = fleet.CheckHostName(name)
	}
	return name, err
}

// ownInstance returns the instance of the host: a new one in the first process of a server, which its workers find in the environment.
func ownInstance() string {
	instance := os.Getenv(instanceVariable)
	if _, worker := reexec.WorkerArguments(os.Args); !worker || instance == "" {
		instance = fleet.NewID()
		os.Setenv(instanceVariable, instance)
	}
	return instance
}

// A member is a server that also serves clients of a fleet.
type member struct {
	*server.Server
	bus   bus.Config
	host  fleet.Host
	stays bool // it serves on if the fleet refuses it
	log   *slog.Logger
}

// Serve serves clients of the listener and of the fleet. The host leaves the fleet when its clients are gone, before the server is
// closed or another process goes on.
func (m *member) Serve(ctx context.Context, l *listen.Listener) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	joined, leave := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan error, 1)
	go func() { // Serve waits for it
		err := m.join(joined, ctx)
		if sessions, _ := m.Load(); err != nil && (m.stays || sessions > 0) {
			m.log.Error("this server is not in the fleet, and serves only clients of its own listener", "err", err)
			err = nil
		}
		if err != nil {
			stop()
		}
		left <- err
	}()
	err := m.Server.Serve(serving, l)
	leave()
	return errors.Join(err, <-left)
}

// join takes part in the fleet until ctx ends, or the fleet refuses this host. When serving ends, new sessions go to other hosts.
func (m *member) join(ctx, serving context.Context) error {
	conn, err := connect(ctx, m.bus)
	if err == nil {
		e := executor.New(executor.Config{Bus: conn, Host: m.host, Server: m.Server, Log: m.log})
		m.OnSessionEnd(e.SessionEnded)
		stop := context.AfterFunc(serving, func() { e.Drain(true) })
		err = e.Run(ctx)
		stop()
		conn.Close()
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
