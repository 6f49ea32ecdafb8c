package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/tetherexec/tether/wire"
)

// ErrNoConsole means that a server lets no browser in.
var ErrNoConsole = errors.New("the server has no console")

// ConsoleCode asks a server or the gateway of a fleet for a code with which one browser can use its console as this client. The address is
// as for [Dial]; of the options, Token, TLS, Connect and ConnectTimeout count.
func ConsoleCode(ctx context.Context, address string, o Options) (wire.ConsoleCode, error) {
	dialer, err := dialerOf(address, o)
	if err != nil {
		return wire.ConsoleCode{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.withDefaults().ConnectTimeout)
	defer cancel()
	code, err := dialer.(*webSocket).consoleCode(ctx)
	if err != nil {
		return wire.ConsoleCode{}, &AttemptError{address, err}
	}
	return code, nil
}

func (d *webSocket) consoleCode(ctx context.Context) (code wire.ConsoleCode, err error) {
	status, text, err := d.ask(ctx, http.MethodPost, "/console/code")
	switch {
	case err != nil:
		return code, err
	case status == http.StatusServiceUnavailable:
		return code, errors.New(string(text))
	case status != http.StatusOK:
		return code, fmt.Errorf("%w (HTTP status %d)", ErrNoConsole, status)
	case json.Unmarshal(text, &code) != nil || code.Code == "":
		return code, ErrNoConsole
	}
	return code, nil
}
