package appserver

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/environ"
	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/wire"
)

// Defaults for members that a spawn leaves out.
const (
	defaultOutputCap = 1 << 20
	defaultTimeout   = 10 * time.Second
)

// maxOutputCap limits the output of one stream that a client can get in one piece.
// Streamed output has no such limit.
const maxOutputCap = 64 << 20

// methods is the whole protocol after the handshake.
var methods = map[string]method{
	wire.MethodSpawn:      {spawns, true},
	wire.MethodWriteStdin: {writes, true},
	wire.MethodResizePty:  {quick((*conn).resize, func(p *wire.ProcessResizePtyParams) string { return p.ProcessHandle }), false},
	wire.MethodKill:       {quick((*conn).killProcess, func(p *wire.ProcessKillParams) string { return p.ProcessHandle }), false},
}

// methodNames are all methods, in the order of the error about unknown methods.
var methodNames = []string{wire.MethodInitialize, wire.MethodSpawn, wire.MethodWriteStdin, wire.MethodResizePty, wire.MethodKill}

// A method decodes a request and returns the job that runs it. Requests for one
// handle begin in order of arrival.
type method struct {
	prepare func(c *conn, r *rpc.Request) (schedule.Job, error)
	waits   bool // its answer may take time: its job must call leave
}

// quick adapts a function that does not wait.
func quick[P any](f func(*conn, *P) error, handle func(*P) string) func(*conn, *rpc.Request) (schedule.Job, error) {
	return func(c *conn, r *rpc.Request) (schedule.Job, error) {
		p := new(P)
		if err := wire.DecodeAppParams(r.Params, p); err != nil {
			return schedule.Job{}, err
		}
		return schedule.Job{Key: handleKey(handle(p)), Run: func() { answer(r, f(c, p)) }}, nil
	}
}

func handleKey(handle string) schedule.Key { return schedule.Key{Kind: schedule.Process, ID: handle} }

func answer(r *rpc.Request, err error) {
	if err == nil {
		r.Reply(wire.Empty{})
		return
	}
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		e = wire.Errorf(wire.CodeInternal, "%v", err)
	}
	r.Fail(e)
}

// spawns prepares process/spawn: later requests for the handle wait for it.
func spawns(c *conn, r *rpc.Request) (schedule.Job, error) {
	p := new(wire.ProcessSpawnParams)
	if err := wire.DecodeAppParams(r.Params, p); err != nil {
		return schedule.Job{}, err
	}
	client := c.client
	return schedule.Job{Key: handleKey(p.ProcessHandle), Exclusive: true, Slow: true, Run: func() {
		defer c.leave(len(r.Params))
		if err := c.spawn(r, p, client); err != nil {
			answer(r, err)
		}
	}}, nil
}

func (c *conn) spawn(r *rpc.Request, params *wire.ProcessSpawnParams, by *client) error {
	if err := c.checkSpawn(params); err != nil {
		return err
	}
	p := newProcess(c, params, by)
	if err := c.reserve(p); err != nil {
		return err
	}
	spec := c.spec(params)
	child, err := c.server.procs.Start(c.rpc.Context(), spec, p)
	if err != nil {
		c.release(p, nil)
		return wire.Errorf(wire.CodeInternal, "failed to spawn process: %s", spawnError(err, spec))
	}
	p.started(child)
	r.Reply(wire.Empty{})
	p.notes.begin()
	return nil
}

// checkSpawn refuses invalid parameters. The order of the checks is part of the
// protocol.
func (c *conn) checkSpawn(p *wire.ProcessSpawnParams) error {
	switch {
	case c.server.noLocal:
		return wire.Errorf(wire.CodeInternal, "local environment is not configured")
	case len(p.Command) == 0:
		return wire.Errorf(wire.CodeInvalidRequest, "command must not be empty")
	case p.ProcessHandle == "":
		return wire.Errorf(wire.CodeInvalidRequest, "processHandle must not be empty")
	case p.Size != nil && !p.TTY:
		return wire.Errorf(wire.CodeInvalidParams, "process/spawn size requires tty: true")
	case p.TimeoutMs.Wish == wire.Given && p.TimeoutMs.Ms < 0:
		return wire.Errorf(wire.CodeInvalidParams, "process/spawn timeoutMs must be non-negative, got %d", p.TimeoutMs.Ms)
	case p.Size != nil:
		return checkSize(*p.Size)
	}
	return nil
}

func checkSize(size wire.ProcessTerminalSize) error {
	if size.Rows == 0 || size.Cols == 0 {
		return wire.Errorf(wire.CodeInvalidParams, "process size rows and cols must be greater than 0")
	}
	return nil
}

func (c *conn) spec(p *wire.ProcessSpawnParams) proc.Spec {
	spec := proc.Spec{
		Argv: p.Command, Dir: string(p.Cwd), Env: environ.Overlay(c.server.env, p.Env),
		TTY: p.TTY, PipeStdin: p.StreamStdin,
	}
	if spec.TTY {
		spec.Env = environ.WithShell(spec.Env, c.server.shell)
	}
	if p.Size != nil {
		spec.Rows, spec.Cols = uint16(p.Size.Rows), uint16(p.Size.Cols)
	}
	return spec
}

// spawnError is the reason of a failed start, in the words of the reference. It
// leaves out details, except on a terminal: there the reference has another text for
// a program that is not found, and no error at all for a missing directory.
func spawnError(err error, spec proc.Spec) string {
	start, ok := errors.AsType[*proc.StartError](err)
	switch {
	case !ok:
		return err.Error()
	case !spec.TTY:
		return oserr.Text(start.Err)
	case strings.HasPrefix(start.Detail, "program ") && !strings.Contains(spec.Argv[0], "/"):
		path := ""
		for _, entry := range spec.Env {
			if value, ok := strings.CutPrefix(entry, "PATH="); ok {
				path = value
			}
		}
		return fmt.Sprintf("Unable to spawn %s because:\nNo viable candidates found in PATH %s", spec.Argv[0], wire.Quote(path))
	case strings.HasPrefix(start.Detail, "program "):
		return oserr.Text(start.Err)
	}
	return start.Error()
}

// timeout is how long a process may run; ok is false if there is no limit.
func timeout(t wire.TimeoutMs) (limit time.Duration, ok bool) {
	switch {
	case t.Wish == wire.Default:
		return defaultTimeout, true
	case t.Wish == wire.NoLimit || t.Ms > math.MaxInt64/int64(time.Millisecond):
		return 0, false
	}
	return time.Duration(t.Ms) * time.Millisecond, true
}

// writes prepares process/writeStdin. It is answered when the bytes are in the
// queue; later requests do not wait for that.
func writes(c *conn, r *rpc.Request) (schedule.Job, error) {
	p := new(wire.ProcessWriteStdinParams)
	if err := wire.DecodeAppParams(r.Params, p); err != nil {
		return schedule.Job{}, err
	}
	return schedule.Job{Key: handleKey(p.ProcessHandle), Run: func() {
		c.write(p, func(err error) {
			answer(r, err)
			c.leave(len(r.Params))
		})
	}}, nil
}

func (c *conn) write(p *wire.ProcessWriteStdinParams, done func(error)) {
	if p.DeltaBase64 == nil && !p.CloseStdin {
		done(wire.Errorf(wire.CodeInvalidParams, "process/writeStdin requires deltaBase64 or closeStdin"))
		return
	}
	var data []byte
	if p.DeltaBase64 != nil {
		var err error
		if data, err = wire.DecodeBase64(*p.DeltaBase64); err != nil {
			done(wire.Errorf(wire.CodeInvalidParams, "invalid deltaBase64: %v", err))
			return
		}
	}
	process, err := c.find(p.ProcessHandle)
	switch {
	case err != nil:
		done(err)
	case process.input == nil:
		done(wire.Errorf(wire.CodeInvalidRequest, "stdin streaming is not enabled for this process"))
	default:
		process.input.write(data, p.CloseStdin, done)
	}
}

func (c *conn) resize(p *wire.ProcessResizePtyParams) error {
	if err := checkSize(p.Size); err != nil {
		return err
	}
	process, err := c.find(p.ProcessHandle)
	if err != nil {
		return err
	}
	err = process.startedChild().Resize(uint16(p.Size.Rows), uint16(p.Size.Cols))
	switch {
	case errors.Is(err, proc.ErrNotTTY):
		return wire.Errorf(wire.CodeInvalidRequest, "failed to resize PTY: process is not attached to a PTY")
	case err != nil:
		return wire.Errorf(wire.CodeInvalidRequest, "failed to resize PTY: %s", oserr.Text(err))
	}
	return nil
}

func (c *conn) killProcess(p *wire.ProcessKillParams) error {
	process, err := c.find(p.ProcessHandle)
	if err == nil && !process.kill() {
		return notRunning(p.ProcessHandle)
	}
	return err
}
