package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gobwas/ws"
	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/homeserver"
	"github.com/tetherexec/tether/internal/proc"
)

const (
	// bridgeAttempts is how often a server is looked for that ends just when it is
	// found.
	bridgeAttempts = 3
	// upgradeLimit is how long a server of this machine may take to answer.
	upgradeLimit = 20 * time.Second
	// maxRefusal is how much of the text is kept with which a server refuses us.
	maxRefusal = 1 << 10
)

// errRefused means that the server has answered and does not want this client.
var errRefused = errors.New("the server refuses the connection")

func newBridge(stdin, stdout *os.File) *cobra.Command {
	var options homeserver.Options
	idle := lifetime(homeserver.DefaultIdleExit)
	cmd := &cobra.Command{
		Use:   "bridge [flags]",
		Short: "Connect standard input and output to a server in the background",
		Long: "Connect standard input and output, one message per line, to this user's server. It is\n" +
			"started if it does not run, and stays: when the bridge ends, sessions wait for their\n" +
			"clients to come back over another one. Meant to be run by ssh.",
		Example:               "  ssh HOST tether bridge",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.IdleExit = time.Duration(idle)
			return bridge(cmd.Context(), options, stdin, stdout)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&options.Socket, "socket", "", "`PATH` of the server's socket (default $XDG_RUNTIME_DIR/tether/server.sock,\nif it survives a logout, else one below the state directory)")
	fs.BoolVar(&options.NoStart, "no-start", false, "do not start a server")
	fs.Var(&idle, "idle-exit", "how long a server that is started stays without clients and sessions")
	onlyOnce(fs)
	return cmd
}

// bridge connects a client on standard input and output to the user's server.
func bridge(ctx context.Context, o homeserver.Options, stdin io.Reader, stdout io.Writer) error {
	if err := proc.ResetInherited(); err != nil { // what a server would keep open
		return fmt.Errorf("prepare for a server: %w", err)
	}
	defer brokenPipeIsError()()

	conn, in, err := connectHome(ctx, o)
	if err != nil {
		return err
	}
	defer conn.Close()
	return pump(stdin, stdout, conn, in)
}

// connectHome opens a WebSocket to the user's server. One that was found may be
// about to end by itself: then another one is started.
func connectHome(ctx context.Context, o homeserver.Options) (net.Conn, *bufio.Reader, error) {
	for attempt := 1; ; attempt++ {
		url, err := homeserver.Ensure(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		conn, in, err := dialSocket(ctx, strings.TrimPrefix(url, "unix://"))
		if err == nil {
			return conn, in, nil
		}
		if errors.Is(err, errRefused) {
			return nil, nil, fmt.Errorf("%s: %w", url, err)
		}
		if attempt == bridgeAttempts {
			return nil, nil, fmt.Errorf("the server on %s does not answer: %w", url, err)
		}
	}
}

// dialSocket opens a WebSocket on a socket file. What the server sends is read from
// the reader.
func dialSocket(ctx context.Context, path string) (net.Conn, *bufio.Reader, error) {
	var refusal string
	dialer := ws.Dialer{
		Timeout: upgradeLimit,
		OnStatusError: func(_ int, _ []byte, r io.Reader) {
			if answer, err := http.ReadResponse(bufio.NewReader(r), nil); err == nil && answer.ContentLength > 0 {
				text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
				refusal = string(text)
			}
		},
		NetDial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}
	conn, early, _, err := dialer.Dial(ctx, "ws://localhost/")
	if err != nil && refusal != "" {
		return nil, nil, fmt.Errorf("%w: %s", errRefused, refusal)
	}
	if err != nil {
		return nil, nil, err
	}
	var in io.Reader = conn
	if early != nil { // came with the answer
		text, err := early.Peek(early.Buffered())
		if err != nil {
			return nil, nil, errors.Join(err, conn.Close())
		}
		in = io.MultiReader(bytes.NewReader(bytes.Clone(text)), conn)
		ws.PutReader(early)
	}
	return conn, bufio.NewReaderSize(in, pumpBuffer), nil
}
