package server

import (
	"errors"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/wire"
)

// featureConsole means that the server has a console.
const featureConsole = "console"

// console returns the console of the listener; nil: there is none. A client that has come through a gateway cannot reach it.
func (c *conn) console() *console.Console {
	if l := c.server.listener.Load(); l != nil && c.origin.Host == "" {
		return l.Console
	}
	return nil
}

// consoleCode lets a browser in, with the rights of the client.
func (r *request) consoleCode(*wire.Empty) (wire.ConsoleCode, error) {
	page := r.conn.console()
	switch {
	case page == nil && r.conn.readOnly():
		return wire.ConsoleCode{}, errReadOnly(r.Method)
	case page == nil:
		return wire.ConsoleCode{}, wire.Errorf(wire.CodeInvalidRequest, "this server has no console")
	}
	code, err := listen.ConsoleCode(page, r.conn.origin.Client)
	switch {
	case errors.Is(err, console.ErrWatcher):
		return wire.ConsoleCode{}, errReadOnly(r.Method)
	case err != nil:
		return wire.ConsoleCode{}, wire.Errorf(wire.CodeInvalidRequest, "%v", err)
	}
	r.conn.log.Info("a client lets a browser in")
	return code, nil
}
