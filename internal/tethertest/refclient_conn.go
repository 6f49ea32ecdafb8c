package tethertest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
)

// A protocolError is a fault of the server that no retry can heal.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return "exec-server protocol error: " + e.text }

// A generation is one connection of a RefClient with its calls in flight.
type generation struct {
	ws   *WS
	done chan struct{} // closed when the connection is lost and all calls have failed
	err  error         // why; set before done is closed

	mu      sync.Mutex
	lastID  int64
	pending map[int64]chan reply // nil after the loss
}

type reply struct {
	result json.RawMessage
	err    error
}

// message is any message from the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// read hands out what arrives until the connection ends.
func (g *generation) read(notified func(method string, params json.RawMessage) error) {
	err := g.readLoop(notified)
	g.ws.Close()
	g.mu.Lock()
	pending := g.pending
	g.pending = nil
	g.mu.Unlock()
	for _, answer := range pending {
		answer <- reply{err: fmt.Errorf("%w: %v", ErrDisconnected, err)}
	}
	g.err = err
	close(g.done)
}

func (g *generation) readLoop(notified func(method string, params json.RawMessage) error) error {
	for {
		_, data, err := g.ws.Read()
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			return fmt.Errorf("message of %d bytes: %w", len(data), err)
		}
		switch {
		case m.Method != "" && m.ID == nil:
			if err := notified(m.Method, m.Params); err != nil {
				return err
			}
		case m.Method != "":
			refusal := map[string]any{"id": m.ID, "error": RPCError{-32601,
				fmt.Sprintf("exec-server client does not implement `%s` yet", m.Method)}}
			if err := g.send(refusal); err != nil {
				return err
			}
		default:
			g.answered(m)
		}
	}
}

func (g *generation) answered(m message) {
	var id int64
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	g.mu.Lock()
	answer := g.pending[id]
	delete(g.pending, id)
	g.mu.Unlock()
	if answer == nil {
		return
	}
	if m.Error != nil {
		answer <- reply{err: m.Error}
		return
	}
	answer <- reply{result: m.Result}
}

// over reports whether the connection was lost.
func (g *generation) over() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// drop ends the connection and waits until its calls have failed.
func (g *generation) drop() {
	g.ws.Close()
	<-g.done
}

func (g *generation) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := g.ws.WriteText(data); err != nil {
		return fmt.Errorf("%w: %v", ErrDisconnected, err)
	}
	return nil
}

func (g *generation) notify(method string, params any) error {
	return g.send(map[string]any{"method": method, "params": params})
}

// call sends one request on this connection and waits for its answer.
func (g *generation) call(ctx context.Context, method string, params, result any) error {
	answer := make(chan reply, 1)
	g.mu.Lock()
	if g.pending == nil {
		g.mu.Unlock()
		<-g.done
		return ErrDisconnected
	}
	g.lastID++
	id := g.lastID
	g.pending[id] = answer
	g.mu.Unlock()
	if err := g.send(map[string]any{"id": id, "method": method, "params": params}); err != nil {
		g.drop() // a caller that tries again finds the next connection
		return err
	}
	select {
	case r := <-answer:
		if r.err != nil {
			return r.err
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(r.result, result); err != nil {
			return &protocolError{fmt.Sprintf("result of %s: %v", method, err)}
		}
		return nil
	case <-ctx.Done():
		g.mu.Lock()
		delete(g.pending, id)
		g.mu.Unlock()
		return context.Cause(ctx)
	}
}
