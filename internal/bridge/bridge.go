// Package bridge is the engine of `tether bridge`: it connects a client that speaks in lines, on
// standard input and output, with the WebSocket of the user's server on this machine.
//
// It keeps a bounded piece of each message in memory. It does not answer pings of the server, so
// that the server notices a dead link between the bridge and its client. bridge.go finds the
// server and connects to it, pump.go passes messages on.
package bridge

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/homeserver"
	"github.com/tetherexec/tether/internal/websocket"
)

const (
	// maxAttempts is how often the bridge looks for a server, if the server ends just when it is found.
	maxAttempts = 3
	// upgradeLimit bounds the connection to a server of this machine, with its upgrade.
	upgradeLimit = 20 * time.Second
)

// errRefused means that the server has answered and refuses this client.
var errRefused = errors.New("the server refuses the connection")

// Run connects a client on standard input and output to the user's server, until one of them
// ends.
func Run(ctx context.Context, o homeserver.Options, stdin io.Reader, stdout io.Writer) error {
	conn, in, err := connectHome(ctx, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	return pump(stdin, stdout, conn, in)
}

// connectHome opens a WebSocket to the user's server. A server that was found may be about to
// end by itself; then another one is started.
func connectHome(ctx context.Context, o homeserver.Options) (net.Conn, *bufio.Reader, error) {
	for attempt := 1; ; attempt++ {
		address, err := homeserver.Ensure(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		conn, in, err := dialSocket(ctx, strings.TrimPrefix(address, "unix://"))
		if err == nil {
			return conn, in, nil
		}
		if errors.Is(err, errRefused) {
			return nil, nil, fmt.Errorf("%s: %w", address, err)
		}
		if attempt == maxAttempts {
			return nil, nil, fmt.Errorf("the server on %s does not answer: %w", address, err)
		}
	}
}

// dialSocket opens a WebSocket on a socket file. The reader has the bytes that the server sends.
func dialSocket(ctx context.Context, path string) (net.Conn, *bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, upgradeLimit)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, nil, err
	}
	early, err := websocket.Upgrade(ctx, conn, &url.URL{Scheme: "ws", Host: "localhost", Path: "/"}, nil)
	if err != nil {
		conn.Close()
		if refusal, ok := errors.AsType[*websocket.StatusError](err); ok && refusal.Text != "" {
			err = fmt.Errorf("%w: %s", errRefused, refusal.Text)
		}
		return nil, nil, err
	}
	in := io.MultiReader(bytes.NewReader(early), conn)
	return conn, bufio.NewReaderSize(in, pumpBuffer), nil
}
