package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tetherexec/tether/wire"
)

// A Remote is a process of another session, named by the session's public id. A client that
// may connect to a server may control all processes there. A Remote is safe for concurrent
// use.
type Remote struct {
	client             *Client
	sessionID, process string
}

// Remote returns a process of another session. It sends no request.
func (c *Client) Remote(sessionID, processID string) *Remote { return &Remote{c, sessionID, processID} }

func (r *Remote) check() error {
	if !r.client.Has(FeatureRemote) {
		return unsupported("control of other sessions")
	}
	return nil
}

// Observe watches the process, see [Client.Observe].
func (r *Remote) Observe(ctx context.Context, afterSeq uint64) (*Observation, error) {
	return r.client.Observe(ctx, r.sessionID, r.process, afterSeq)
}

// Write sends input to the process and returns when the server has accepted it. The input
// arrives once, even if connections are lost.
func (r *Remote) Write(ctx context.Context, data []byte) error {
	if err := r.check(); err != nil {
		return err
	}
	for {
		n := min(len(data), maxWrite)
		params := wire.WriteAnyParams{SessionID: &r.sessionID, ProcessID: r.process, Chunk: bytes.Clone(data[:n]), WriteID: r.client.NewID()}
		var result wire.WriteResult
		err := r.client.Call(ctx, Idempotent, wire.MethodProcessWriteAny, params, &result)
		if err == nil {
			err = writeError(result.Status)
		}
		if data = data[n:]; err != nil || len(data) == 0 {
			return err
		}
	}
}

// CloseStdin ends the input of the process, see [Process.CloseStdin].
func (r *Remote) CloseStdin(ctx context.Context) error {
	params := wire.CloseStdinParams{SessionID: &r.sessionID, ProcessID: r.process}
	return r.callOnce(ctx, wire.MethodProcessCloseStdin, &params, &params.OnceID)
}

// Signal sends a signal by its name, as "SIGHUP".
func (r *Remote) Signal(ctx context.Context, name string) error {
	signal, err := wire.ParseSignal(name)
	if err != nil {
		return err
	}
	params := wire.SignalAnyParams{SessionID: &r.sessionID, ProcessID: r.process, Signal: signal}
	return r.callOnce(ctx, wire.MethodProcessSignalAny, &params, &params.OnceID)
}

// callOnce sends a request that must not be carried out twice. id is its member that
// makes the server ignore a repetition.
func (r *Remote) callOnce(ctx context.Context, method string, params any, id **string) error {
	if err := r.check(); err != nil {
		return err
	}
	if !r.client.Has(FeatureOnce) {
		return r.client.Call(ctx, AtMostOnce, method, params, nil)
	}
	name := r.client.NewID()
	*id = &name
	return r.client.Call(ctx, Idempotent, method, params, nil)
}

// Resize changes the size of the process's terminal.
func (r *Remote) Resize(ctx context.Context, rows, cols int) error {
	if err := r.check(); err != nil {
		return err
	}
	return r.client.Call(ctx, Idempotent, wire.MethodProcessResize,
		wire.ResizeParams{SessionID: &r.sessionID, ProcessID: r.process, Rows: cells(rows), Cols: cells(cols)}, nil)
}

// Terminate ends the process and all it has started, see [Process.Terminate].
func (r *Remote) Terminate(ctx context.Context) (running bool, err error) {
	if err := r.check(); err != nil {
		return false, err
	}
	var result wire.TerminateResult
	err = r.client.callAs(ctx, Idempotent, cleanUp, wire.MethodProcessTerminateAny,
		wire.TerminateAnyParams{SessionID: &r.sessionID, ProcessID: r.process}, &result)
	return result.Running, err
}

// EndSession ends another session, by its public id, and all processes that it has started.
// It returns when they are gone, or with a *SurvivorsError if some of them cannot be killed.
func (c *Client) EndSession(ctx context.Context, sessionID string) error {
	if !c.Has(FeatureEndSession) {
		return unsupported("ending a session")
	}
	// Not repeated: the answer would be that the session is unknown, for one of two reasons.
	var r wire.SessionEndResult
	err := c.Call(ctx, AtMostOnce, wire.MethodSessionEnd, wire.SessionEndParams{SessionID: &sessionID}, &r)
	if err == nil {
		err = survivorsError(r.Survivors)
	}
	return err
}

// End ends the session with all its processes, and closes the client. On servers
// that cannot end a session it terminates the processes of this client, and the
// session expires. If the server cannot be reached, End returns that error and closes only
// the client. If processes cannot be killed, the error is a *SurvivorsError.
func (c *Client) End(ctx context.Context) error {
	var err error
	if c.Has(FeatureEndSession) {
		var r wire.SessionEndResult
		err = c.Call(ctx, Idempotent, wire.MethodSessionEnd, wire.SessionEndParams{}, &r)
		if errors.Is(err, ErrSessionLost) && hasCode(err, wire.CodeInvalidRequest) {
			err = nil // the answer was lost, and then the server did not know the session
		}
		if err == nil {
			err = survivorsError(r.Survivors)
		}
	} else {
		err = c.terminateAll(ctx)
	}
	c.Close()
	if err != nil {
		return fmt.Errorf("end the session: %w", err)
	}
	return nil
}

func (c *Client) terminateAll(ctx context.Context) error {
	var failures []error
	for _, p := range c.processes.all() {
		_, err := p.Terminate(ctx)
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}
