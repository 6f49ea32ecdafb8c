//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
	"github.com/tetherexec/tether/internal/fleet/executor"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

const (
	// servers is how many servers the executors share.
	servers = 20

	// parallel is how many sessions are opened at a time.
	parallel = 16

	// patience bounds each wait.
	patience = time.Minute
)

// A testFleet is a hub and two gateways, with the executors and clients of this process.
type testFleet struct {
	dir      string
	keys     *hub.Keys
	hub      *program
	gateways []*program

	servers []*server.Server
	buses   []*nats.Conn
	stop    context.CancelFunc // ends the executors
	serving context.Context
	running sync.WaitGroup
	clients []*session
}

// A session is that of a client.
type session struct {
	conn *tethertest.Conn
	id   string
}

// A program is bin/tether with a command that prints its URL.
type program struct {
	cmd *exec.Cmd
	url string
}

func launch(dir string, args ...string) (*program, error) {
	cmd := exec.Command("bin/tether", args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tether %s has printed no URL: %w", args[0], err), cmd.Wait())
	}
	return &program{cmd, strings.TrimSpace(line)}, nil
}

func (p *program) end() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// begin starts the hub, the gateways and the servers.
func begin(ctx context.Context) (f *testFleet, err error) {
	f = &testFleet{}
	if f.dir, err = os.MkdirTemp("", "tether-bench-"); err != nil {
		return nil, err
	}
	f.serving, f.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			err = errors.Join(err, f.end())
		}
	}()
	state := filepath.Join(f.dir, "hub")
	if f.hub, err = launch(f.dir, "hub", "--listen", "nats://127.0.0.1:0", "--state-dir", state); err != nil {
		return f, err
	}
	if f.keys, err = hub.OpenKeys(filepath.Join(state, "keys")); err != nil {
		return f, err
	}
	creds, err := f.credentials(hub.RoleGateway, "gateway")
	if err != nil {
		return f, err
	}
	for range 2 {
		g, err := launch(f.dir, "gateway", "--nats", f.hub.url, "--creds", creds)
		if err != nil {
			return f, err
		}
		f.gateways = append(f.gateways, g)
	}
	for i := range servers {
		s, err := server.New(server.Config{StateDir: filepath.Join(f.dir, fmt.Sprint("server-", i)), SessionTTL: time.Hour})
		if err != nil {
			return f, err
		}
		f.servers = append(f.servers, s)
	}
	return f, nil
}

// credentials writes a file with credentials.
func (f *testFleet) credentials(role hub.Role, name string) (path string, err error) {
	text, err := f.keys.Credentials(role, name)
	if err != nil {
		return "", err
	}
	path = filepath.Join(f.dir, name+".creds")
	return path, os.WriteFile(path, text, 0o600)
}

// end ends everything.
func (f *testFleet) end() (err error) {
	for _, c := range f.clients {
		c.conn.Close()
	}
	f.stop()
	f.running.Wait()
	for _, b := range f.buses {
		b.Close()
	}
	for _, s := range f.servers {
		err = errors.Join(err, s.Close())
	}
	for _, p := range append(f.gateways, f.hub) {
		if p != nil {
			err = errors.Join(err, p.end())
		}
	}
	return errors.Join(err, os.RemoveAll(f.dir))
}

// grow adds hosts and sessions.
func (f *testFleet) grow(ctx context.Context, hosts, sessions int) error {
	for len(f.buses) < hosts {
		if err := f.addHost(ctx, len(f.buses)); err != nil {
			return err
		}
	}
	var mu sync.Mutex
	var failures []error
	work := make(chan int)
	var opening sync.WaitGroup
	for range parallel {
		opening.Go(func() { // ends with work
			for i := range work {
				s, err := f.open(ctx, f.gateways[i%len(f.gateways)].url, "")
				mu.Lock()
				if failures = append(failures, err); err == nil {
					f.clients = append(f.clients, s)
				}
				mu.Unlock()
			}
		})
	}
	for i := len(f.clients); i < sessions && ctx.Err() == nil; i++ {
		work <- i
	}
	close(work)
	opening.Wait()
	return errors.Join(append(failures, ctx.Err())...)
}

// addHost starts an executor.
func (f *testFleet) addHost(ctx context.Context, i int) error {
	name := fmt.Sprint("host-", i)
	creds, err := f.credentials(hub.RoleHost, name)
	if err != nil {
		return err
	}
	conn, err := bus.Connect(ctx, bus.Config{URL: f.hub.url, Credentials: creds, Name: name, Inbox: fleet.HostInbox(name)})
	if err != nil {
		return err
	}
	f.buses = append(f.buses, conn)
	e := executor.New(executor.Config{
		Bus: conn, Host: fleet.Host{Name: name, Instance: fleet.NewID(), Version: "bench", Capacity: 4}, Server: f.servers[i%len(f.servers)],
	})
	f.running.Go(func() { // ends with f.serving
		if err := e.Run(f.serving); err != nil {
			fmt.Fprintln(os.Stderr, "bench/fleet:", err)
		}
	})
	return nil
}

// open opens or resumes a session. A gateway that does not know its hosts yet is asked again.
func (f *testFleet) open(ctx context.Context, url, resume string) (s *session, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if s, err = f.tryOpen(ctx, url, resume); err == nil || ctx.Err() != nil {
			return s, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (f *testFleet) tryOpen(ctx context.Context, url, resume string) (*session, error) {
	ws, err := tethertest.DialWS(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	conn := tethertest.NewConn(ws, nil)
	params := map[string]any{"clientName": "bench", "resumeSessionId": nil}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	var hello tethertest.Hello
	err = conn.Call(ctx, "initialize", params, &hello)
	if err == nil {
		err = conn.Notify("initialized", struct{}{})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &session{conn, hello.SessionID}, nil
}
