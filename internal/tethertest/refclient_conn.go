package tethertest

import (
	"context"
	"encoding/json"
	"fmt"
)

// A protocolError is an error of the server that a retry cannot repair.
type protocolError struct{ text string }

func (e *protocolError) Error() string { return "exec-server protocol error: " + e.text }

// A generation is one connection of a RefClient.
type generation struct{ *Conn }

// newGeneration begins to read. An error of notified ends the connection, as in the reference client.
func newGeneration(ws *WS, notified func(method string, params json.RawMessage) error) *generation {
	return &generation{NewConn(ws, func(c *Conn, m Message) bool {
		var err error
		switch {
		case m.Method == "":
			return false
		case m.ID == nil:
			err = notified(m.Method, m.Params)
		default:
			err = c.SendJSON(map[string]any{"id": m.ID, "error": RPCError{-32601,
				fmt.Sprintf("exec-server client does not implement `%s` yet", m.Method)}})
		}
		if err != nil {
			c.Drop(err)
		}
		return true
	})}
}

// call sends one request on this connection and waits for its answer.
func (g *generation) call(ctx context.Context, method string, params, result any) error {
	id, err := g.Ask(method, params)
	if err != nil {
		g.Close() // a caller that tries again gets the next connection
		return fmt.Errorf("%w: %v", ErrDisconnected, err)
	}
	m, err := g.Answer(ctx, id)
	switch {
	case err != nil && g.Err() != nil:
		return fmt.Errorf("%w: %v", ErrDisconnected, err)
	case err != nil:
		return err
	case m.Error != nil:
		return m.Error
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return &protocolError{fmt.Sprintf("result of %s: %v", method, err)}
	}
	return nil
}
