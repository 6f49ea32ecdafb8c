package relay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/websocket"
)

// maxPages limits the pages that are connected at a time. Each has a connection of its own to the server.
const maxPages = 16

// Messages are a connection to a server that is not HTTP, such as the standard input and output of a command.
type Messages interface {
	Read() ([]byte, error)
	WriteMessage([]byte) error
	Close() error
}

// A Pages serves the console's page itself, and passes the messages of the page on to a server that speaks no HTTP.
type Pages struct {
	l       *listen.Listener
	connect func(context.Context) (Messages, error)
	log     *slog.Logger
}

// ListenPages opens a free port of loopback. files are those of the page, connect connects to the server.
func ListenPages(ctx context.Context, files func() (map[string][]byte, error), connect func(context.Context) (Messages, error), log *slog.Logger) (*Pages, error) {
	nobody := &listen.CapabilityToken{} // no program of this machine may use the port without a code: no token has this digest
	rand.Read(nobody.SHA256[:])         // never fails
	l, err := listen.Open(ctx, listen.Config{Auth: listen.AuthConfig{Token: nobody}, Console: &console.Config{Files: files}})
	if err != nil {
		return nil, err
	}
	return &Pages{l, connect, log}, nil
}

// Open returns the origin of the page and a code for it.
func (p *Pages) Open() (origin, code string, err error) {
	c, err := p.l.Console.Code(console.Grant{})
	return p.l.PageOrigin(), c.Text, err
}

// errStopping is the reason when Serve ends.
var errStopping = &rpc.CloseError{Code: rpc.CloseGoingAway, Reason: "`tether console` has ended"}

// Serve serves pages until ctx ends. Then it ends their connections and closes the port.
func (p *Pages) Serve(ctx context.Context) error {
	defer p.l.Close()
	return p.l.Serve(ctx, listen.Handler{
		Serve:    func(ctx context.Context, page *rpc.WebSocket, _ listen.Client) { p.pass(ctx, page) },
		Stopping: errStopping, Connections: listen.NewConnections(maxPages, nil, p.log), Log: p.log,
	})
}

// pass passes the messages of one page on until it, the server or ctx ends.
func (p *Pages) pass(ctx context.Context, page *rpc.WebSocket) {
	defer page.Close()
	server, err := p.connect(ctx)
	if err != nil {
		p.log.Warn("the page cannot be connected to the server", "err", err)
		sendClose(page, rpc.CloseTryAgain, err)
		return
	}
	end := sync.OnceFunc(func() { server.Close() })
	defer end()
	var back sync.WaitGroup
	back.Go(func() { // ends with the server's messages, or when it cannot send to the page
		err := copyMessages(page, server)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		sendClose(page, rpc.CloseGoingAway, err)
		page.Close()
	})
	stop := context.AfterFunc(ctx, end)
	defer stop()
	_ = copyMessages(server, page) // the page has left
	end()
	back.Wait()
}

// copyMessages copies until one side ends, and returns why.
func copyMessages(to interface{ WriteMessage([]byte) error }, from interface{ Read() ([]byte, error) }) error {
	for {
		message, err := from.Read()
		if err != nil {
			return err
		}
		if err := to.WriteMessage(message); err != nil {
			return err
		}
	}
}

// closePatience is how long a page may take to read why its connection ends.
const closePatience = 2 * time.Second

// sendClose tells a page why its connection ends.
func sendClose(page *rpc.WebSocket, code uint16, why error) {
	told, ok := errors.AsType[*rpc.CloseError](why)
	if !ok {
		told = &rpc.CloseError{Code: code, Reason: fmt.Sprint(why)}
	}
	conn := page.Conn()
	conn.SetWriteDeadline(time.Now().Add(closePatience))
	_, _ = conn.Write(websocket.AppendFrame(nil, websocket.Close, true, false, rpc.ClosePayload(told)))
}
