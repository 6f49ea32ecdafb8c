//go:build unix

package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// serveHere runs a server until the test ends, and returns it for access to its
// internals.
func serveHere(t *testing.T) (s *server.Server, url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cfg := server.Config{StateDir: t.TempDir()}
	l, err := listen.Open(ctx, listen.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-served, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, l.URL
}

// Clients that send large messages and do not finish them cost no more memory than the
// limit for all of them together, and other clients are not affected.
func TestHalfMessagesOfManyClients(t *testing.T) {
	const clients, size, limit = 8, 62 << 20, 192 << 20
	s := tethertest.StartServer(t, server.Config{})
	bystander := tethertest.Connect(t, s.URL)
	bystander.Start(tethertest.Command("p", []string{"sleep", "60"}, nil))
	before := heapInUse()
	header := binary.BigEndian.AppendUint64([]byte{0x80 | tethertest.OpText, 0x80 | 127}, size)
	half := bytes.Repeat([]byte("x"), size/2)
	copy(half, `{"id":1,"method":"fs/writeFile","params":"`)
	var halves atomic.Int64
	var senders sync.WaitGroup
	t.Cleanup(senders.Wait) // ends when all connections are closed
	for range clients {
		c := tethertest.Connect(t, s.URL)
		c.SendBytes(append(header[:len(header):len(header)], 0, 0, 0, 0))
		senders.Go(func() { // ends with its connection
			if c.WS().WriteRaw(half) == nil {
				halves.Add(1)
			}
		})
		t.Cleanup(c.Close)
	}
	tethertest.Eventually(t, func() error { // all for which there is room
		if n := halves.Load(); n < limit/size {
			return fmt.Errorf("%d halves have arrived", n)
		}
		return nil
	})
	for range 100 {
		bystander.Must("environment/status", nil, nil)
	}
	bystander.Terminate("p")
	if grown := int64(heapInUse()) - int64(before); grown > limit*5/4 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// Clients that ask for large files and do not read the answers cost the server one piece
// of each file.
func TestLargeFilesForClientsThatDoNotRead(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	bystander := tethertest.Connect(t, s.URL)
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 511<<20); err != nil { // a sparse file: it takes no space
		t.Fatal(err)
	}
	before := heapInUse()
	for range 4 {
		c, err := tethertest.DialWS(t.Context(), s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for _, message := range []string{
			`{"id":1,"method":"initialize","params":{"clientName":"deaf"}}`, `{"method":"initialized"}`,
			`{"id":2,"method":"fs/readFile","params":{"path":"` + wire.PathToURI(name) + `"}}`,
			`{"id":3,"method":"fs/readFile","params":{"path":"` + wire.PathToURI(name) + `"}}`,
		} {
			if err := c.WriteText([]byte(message)); err != nil {
				t.Fatal(err)
			}
		}
		first := make([]byte, 1<<20) // of the answers to initialize and to another request
		if err := c.ReadRaw(first); err != nil || !bytes.Contains(first, []byte(`"result":{"dataBase64":"AAAA`)) {
			t.Fatalf("%.200q, %v", first, err)
		}
	}
	for range 100 {
		bystander.Must("environment/status", nil, nil)
	}
	if grown := int64(heapInUse()) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

// A large file is read while its answer is sent, and requests that change it wait for
// that.
func TestLargeFileIsReadBeforeItChanges(t *testing.T) {
	c := newFileClient(t)
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20) // 16 MiB
	if err := os.WriteFile(c.at("f"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	uri := wire.PathToURI(c.at("f"))
	read := c.Ask(wire.MethodFsReadFile, map[string]any{"path": uri})
	c.Ask(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": uri, "mode": "replace"}) // empties the file
	write := c.Ask(wire.MethodFsWriteBlock, map[string]any{"handleId": "h", "offset": 0, "chunk": encoded([]byte("new"))})
	status := c.Ask("environment/status", nil)
	var got wire.ReadFileResult
	if m := c.Answer(read); m.Error != nil {
		t.Fatal(m.Error)
	} else if err := wire.Decode(m.Result, &got); err != nil || !bytes.Equal(got.DataBase64, data) {
		t.Errorf("read %d bytes, %v", len(got.DataBase64), err)
	}
	for _, id := range []int64{write, status} {
		if m := c.Answer(id); m.Error != nil {
			t.Error(m.Error)
		}
	}
	if text, err := os.ReadFile(c.at("f")); string(text) != "new" {
		t.Errorf("the file has %.20q, %v", text, err)
	}
}

// When other clients have taken all shared room for answers, files, lists and output can
// still be read.
func TestAnswersWhileOthersHoldTheRoom(t *testing.T) {
	s, url := serveHere(t)
	dir := t.TempDir()
	defer server.FillOutgoing(s)()
	c := tethertest.Connect(t, url)
	defer c.Close()
	const size = 5 << 20
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Start(tethertest.Shell("p", fmt.Sprintf("head -c %d /dev/zero", size), nil))
	c.Finish("p", 0)
	read, most := 0, 0
	for after := uint64(0); read < size; {
		answer := c.Read("p", after, map[string]any{"maxBytes": size})
		if answer.Bytes() == 0 {
			t.Fatalf("read %d bytes, then nothing", read)
		}
		read, most, after = read+answer.Bytes(), max(most, answer.Bytes()), answer.NextSeq-1
	}
	if read != size || most > 2<<20 {
		t.Errorf("read %d bytes, up to %d at a time", read, most)
	}
	uri := wire.PathToURI(dir)
	var file wire.ReadFileResult
	c.Must(wire.MethodFsReadFile, map[string]any{"path": uri + "/f"}, &file)
	if len(file.DataBase64) != size {
		t.Errorf("the file has %d bytes", len(file.DataBase64))
	}
	c.Must(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": uri + "/f"}, nil)
	var blocks []int64
	for i := range 5 {
		blocks = append(blocks, c.Ask(wire.MethodFsReadBlock, map[string]any{"handleId": "h", "offset": i << 20, "len": 1 << 20}))
		blocks = append(blocks, c.Ask(wire.MethodFsReadDirectory, map[string]any{"path": uri}))
	}
	for _, id := range blocks {
		if m := c.Answer(id); m.Error != nil {
			t.Error(m.Error)
		}
	}
}

// A file of unknown size is read to its end, but not beyond the limit.
func TestFilesLargerThanTheirSize(t *testing.T) {
	const left = 300 << 10
	for size, fits := range map[int]bool{0: true, left: true, left + 1: false} {
		r := server.GrowingFile(strings.NewReader(strings.Repeat("x", size)), left)
		text, more, err := server.AppendFile(nil, r)
		if fits && (err != nil || more || len(text) != base64.StdEncoding.EncodedLen(size)) || !fits && err == nil {
			t.Errorf("%d bytes: %d, %v, %v", size, len(text), more, err)
		}
	}
}

// Before its answer is written, a file takes room for the part of it that may be
// read by then.
func TestRoomForFiles(t *testing.T) {
	for size, want := range map[int64]int{0: server.MaxWhole, 1: 1, int64(server.MaxWhole): server.MaxWhole, 1 << 30: server.MaxWhole} {
		if got := server.FirstPart(size); got != want {
			t.Errorf("a file of %d bytes has room for %d, want %d", size, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for method, closes := range map[string]bool{
		wire.MethodProcessWrite: true, wire.MethodProcessWriteAny: true,
		wire.MethodFsWriteFile: false, wire.MethodProcessStart: false, "unknown": false,
	} {
		e := server.Refusal(method)
		if (e == nil) != closes || e != nil && (e.Code != wire.CodeInvalidRequest || !strings.HasPrefix(e.Message, "limit reached: ")) {
			t.Errorf("%s: %v", method, e)
		}
	}
}
