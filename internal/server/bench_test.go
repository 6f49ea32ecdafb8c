package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// A discardConn is a connection whose peer reads everything and sends nothing.
type discardConn struct {
	net.Conn // nil: its other methods are not used
	closed   chan struct{}
	once     sync.Once
}

func (n *discardConn) Write(b []byte) (int, error) { return len(b), nil }

func (n *discardConn) Read([]byte) (int, error) {
	<-n.closed
	return 0, io.EOF
}

func (n *discardConn) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// A repeatedEvent is a source that has the same event, left times.
type repeatedEvent struct {
	*outputPush
	entry outlog.Entry
	left  int
	done  chan struct{} // closed when all are written
}

func (e *repeatedEvent) Next(b *rpc.Batch) bool {
	if e.left == 0 {
		return false
	}
	e.left--
	e.entry.Seq++
	e.batch = b
	e.encode(e.entry)
	return true
}

func (e *repeatedEvent) Written() {
	if e.left == 0 {
		close(e.done)
	}
}

// BenchmarkEncodeOutput encodes an event from the log into a frame, as a push and
// the writer do. Nothing is sent.
func BenchmarkEncodeOutput(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64KiB", outlog.MaxEntry}, {"100B", 100}} {
		b.Run(size.name, func(b *testing.B) {
			conn := rpc.New(b.Context(), rpc.NewWebSocket(&discardConn{closed: make(chan struct{})}, nil),
				rpc.Config{Log: slog.New(slog.DiscardHandler)})
			var serving sync.WaitGroup
			serving.Go(func() { conn.Serve() }) // ends with Close
			defer serving.Wait()
			defer conn.Close(io.EOF)
			e := &repeatedEvent{
				outputPush: &outputPush{process: &session.Process{ID: "bench"},
					prefix: []byte(`{"method":"` + wire.NoteProcessOutput + `","params":{"processId":"bench","seq":`)},
				entry: outlog.Entry{Kind: outlog.Output, Stream: outlog.Stdout, Data: make([]byte, size.bytes)},
				left:  b.N, done: make(chan struct{}),
			}
			b.SetBytes(int64(size.bytes))
			b.ReportAllocs()
			b.ResetTimer()
			conn.Feed(e).Wake()
			<-e.done
		})
	}
}

// BenchmarkPump is a whole server between a command that prints 64 KiB at a time
// and a client that only counts.
func BenchmarkPump(b *testing.B) {
	const printer, chunk = "/bin/dd", 64 << 10
	if _, err := os.Stat(printer); err != nil {
		b.Skip(err)
	}
	client := dialServer(b, startServer(b))
	stream := rpc.NewWebSocketClient(client, nil)
	send := func(message string) {
		if err := stream.WriteMessage([]byte(message)); err != nil {
			b.Fatal(err)
		}
	}
	send(`{"id":1,"method":"initialize","params":{"clientName":"bench"}}`)
	send(`{"method":"initialized","params":{}}`)
	b.SetBytes(chunk)
	b.ReportAllocs()
	b.ResetTimer()
	send(fmt.Sprintf(`{"id":2,"method":"process/start","params":{"processId":"p","cwd":"/","env":{},"tty":false,`+
		`"argv":[%q,"if=/dev/zero","bs=%d","count=%d","status=none"]}}`, printer, chunk, b.N))
	if got, want := countUntil(b, client, wire.NoteProcessClosed), base64.StdEncoding.EncodedLen(chunk)*b.N; got < want {
		b.Fatalf("%d bytes came for %d of base64", got, want)
	}
}

// startServer serves on loopback until the benchmark ends.
func startServer(b *testing.B) *listen.Listener {
	cfg := Config{StateDir: b.TempDir()}
	s, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	l, err := listen.Open(b.Context(), listen.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { // ends with ctx
		if err := s.Serve(ctx, l); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() {
		cancel()
		serving.Wait()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// dialServer returns an upgraded connection.
func dialServer(b *testing.B, l *listen.Listener) net.Conn {
	host := strings.TrimPrefix(l.URL, "ws://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGV0aGVyIGJlbmNobWFyaw==\r\n\r\n", host)
	var answer []byte
	for one := make([]byte, 1); !bytes.HasSuffix(answer, []byte("\r\n\r\n")); answer = append(answer, one...) {
		if _, err := io.ReadFull(conn, one); err != nil {
			b.Fatalf("upgrade answered with %q: %v", answer, err)
		}
	}
	return conn
}

// countUntil reads until mark arrives, and returns how many bytes it has read.
func countUntil(b *testing.B, r io.Reader, mark string) (total int) {
	buf := make([]byte, 512<<10)
	for kept := 0; ; { // kept is the end of the last read, in which the mark may begin
		n, err := r.Read(buf[kept:])
		if err != nil {
			b.Fatalf("after %d bytes: %v", total, err)
		}
		total += n
		seen := buf[:kept+n]
		if bytes.Contains(seen, []byte(mark)) {
			return total
		}
		kept = copy(buf, seen[max(0, len(seen)-len(mark)):])
	}
}
