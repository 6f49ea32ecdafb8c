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
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// A nowhere is a connection whose peer takes everything and says nothing.
type nowhere struct {
	net.Conn // nil: nothing else of it is used
	closed   chan struct{}
	once     sync.Once
}

func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }

func (n *nowhere) Read([]byte) (int, error) {
	<-n.closed
	return 0, io.EOF
}

func (n *nowhere) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// An encoding is a source that always has the same event, left times.
type encoding struct {
	*follow
	entry outlog.Entry
	left  int
	done  chan struct{} // closed when all are written
}

func (e *encoding) Next(b *rpc.Batch) bool {
	if e.left == 0 {
		return false
	}
	e.left--
	e.entry.Seq++
	e.batch = b
	e.encode(e.entry)
	return true
}

func (e *encoding) Written() {
	if e.left == 0 {
		close(e.done)
	}
}

// BenchmarkEncodeOutput is an event on its way from the log into a frame: what a
// follow does, and the writer that asks it. Nothing is sent.
func BenchmarkEncodeOutput(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"64KiB", outlog.MaxEntry}, {"100B", 100}} {
		b.Run(size.name, func(b *testing.B) {
			conn := rpc.New(b.Context(), rpc.NewWebSocket(&nowhere{closed: make(chan struct{})}, nil),
				rpc.Config{Log: slog.New(slog.DiscardHandler)})
			var serving sync.WaitGroup
			serving.Go(func() { conn.Serve() }) // ends with Close
			defer serving.Wait()
			defer conn.Close(io.EOF)
			e := &encoding{
				follow: &follow{process: &session.Process{ID: "bench"},
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
	const chunk = 64 << 10
	block := filepath.Join(b.TempDir(), "block") // cat copies whole blocks of a file
	if err := os.WriteFile(block, make([]byte, 16*chunk), 0o600); err != nil {
		b.Fatal(err)
	}
	client := dialPump(b, startPump(b))
	send(b, client, `{"id":1,"method":"initialize","params":{"clientName":"bench"}}`)
	send(b, client, `{"method":"initialized","params":{}}`)
	b.SetBytes(chunk)
	b.ReportAllocs()
	b.ResetTimer()
	send(b, client, fmt.Sprintf(`{"id":2,"method":"process/start","params":{"processId":"p","cwd":"/","env":{},"tty":false,"arg0":null,`+
		`"argv":["/bin/dd","if=/dev/zero","bs=%d","count=%d","status=none"]}}`, chunk, b.N))
	if got, want := drain(b, client), base64.StdEncoding.EncodedLen(chunk)*b.N; got < want {
		b.Fatalf("%d bytes came for %d of base64", got, want)
	}
}
