package server_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A fileClient asks a server about files below a directory.
type fileClient struct {
	*tethertest.Client
	t   *testing.T
	dir string
}

func newFileClient(t *testing.T) *fileClient {
	t.Helper()
	s := tethertest.StartServer(t, server.Config{})
	return &fileClient{tethertest.Connect(t, s.URL), t, t.TempDir()}
}

func (c *fileClient) at(name string) string { return filepath.Join(c.dir, name) }

// ask calls a method about a name, with more parameters.
func (c *fileClient) ask(method, name string, more map[string]any) tethertest.Message {
	params := map[string]any{"path": wire.PathToURI(c.at(name))}
	for key, value := range more {
		params[key] = value
	}
	return c.Call(method, params)
}

// refused checks the error of an answer.
func (c *fileClient) refused(m tethertest.Message, code int, text string) {
	c.t.Helper()
	if m.Error == nil || m.Error.Code != code || m.Error.Message != text {
		c.t.Errorf("answered %s, want %d %s", m.Raw, code, text)
	}
}

func encoded(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func TestReadAndWriteFile(t *testing.T) {
	c := newFileClient(t)
	for _, size := range []int{0, 1, 2, 3, 192<<10 - 1, 192 << 10, 192<<10 + 1, 5*192<<10 - 1, 5 * 192 << 10, 5*192<<10 + 1, 6 * 192 << 10, 9<<20 + 1} {
		data := bytes.Repeat([]byte{0, 1, 254, 255, 'x'}, size/5+1)[:size]
		var read wire.ReadFileResult
		c.Must(wire.MethodFsWriteFile, map[string]any{"path": wire.PathToURI(c.at("f")), "dataBase64": encoded(data)}, &wire.Empty{})
		c.Must(wire.MethodFsReadFile, map[string]any{"path": wire.PathToURI(c.at("f"))}, &read)
		if !bytes.Equal(read.DataBase64, data) {
			t.Fatalf("%d bytes came back as %d", size, len(read.DataBase64))
		}
	}
	c.refused(c.ask(wire.MethodFsReadFile, "missing", nil), -32004, "No such file or directory (os error 2)")
	c.refused(c.ask(wire.MethodFsReadFile, "", nil), -32600, "path `"+c.dir+"` is not a file")
	c.refused(c.ask(wire.MethodFsWriteFile, "new", map[string]any{"dataBase64": "@"}), -32600,
		"fs/writeFile requires valid base64 dataBase64: Invalid symbol 64, offset 0.")
	if _, err := os.Stat(c.at("new")); !os.IsNotExist(err) {
		t.Errorf("bad data made a file: %v", err)
	}
	c.refused(c.Call(wire.MethodFsReadFile, map[string]any{"path": "file:///C:/x"}), -32600, "'file:///C:/x' is invalid on 'linux'")
}

func TestHandles(t *testing.T) {
	c := newFileClient(t)
	open := func(id, name, mode string) tethertest.Message {
		return c.ask(wire.MethodFsOpen, name, map[string]any{"handleId": id, "mode": mode})
	}
	write := func(id string, offset uint64, data string) tethertest.Message {
		return c.Call(wire.MethodFsWriteBlock, map[string]any{"handleId": id, "offset": offset, "chunk": encoded([]byte(data))})
	}
	read := func(id string, offset uint64, n int) tethertest.Message {
		return c.Call(wire.MethodFsReadBlock, map[string]any{"handleId": id, "offset": offset, "len": n})
	}
	ok := func(m tethertest.Message, want string) {
		t.Helper()
		if m.Error != nil || string(m.Result) != want {
			t.Errorf("answered %s, want %s", m.Raw, want)
		}
	}
	ok(open("w", "f", "replace"), `{"handleId":"w"}`)
	ok(write("w", 3, "def"), `{}`)
	ok(write("w", 0, "abc"), `{}`)
	c.refused(read("w", 0, 1), -32603, "Bad file descriptor (os error 9)")
	c.refused(read("w", 0, 1), -32004, "unknown file handle `w`") // a failed read closes the handle
	ok(open("r", "f", "read"), `{"handleId":"r"}`)
	ok(read("r", 0, 6), `{"chunk":"YWJjZGVm","eof":false}`)
	ok(read("r", 6, 1), `{"chunk":"","eof":true}`)
	ok(read("r", 4, 10), `{"chunk":"ZWY=","eof":true}`)
	ok(read("r", 1<<63, 10), `{"chunk":"","eof":true}`)
	c.refused(write("r", 0, "x"), -32603, "Bad file descriptor (os error 9)")
	ok(read("r", 0, 1), `{"chunk":"YQ==","eof":false}`) // a failed write does not close it

	c.refused(open("r", "f", "read"), -32600, "file handle `r` already exists")
	c.refused(open("r", "f", "replace"), -32600, "file handle `r` already exists")
	ok(read("r", 0, 1), `{"chunk":"YQ==","eof":false}`) // the file was not emptied
	c.refused(open("gone", "missing", "read"), -32004, "No such file or directory (os error 2)")
	c.refused(read("gone", 0, 1), -32004, "unknown file handle `gone`")
	c.refused(open(strings.Repeat("x", 33), "f", "read"), -32600, "file handle ID must not exceed 32 bytes")
	c.refused(read("r", 0, 0), -32600, "file read block length must be between 1 and 1048576")
	c.refused(read("missing", 0, 1<<20+1), -32600, "file read block length must be between 1 and 1048576")
	c.refused(write("r", 0, ""), -32600, "file write block length must be between 1 and 1048576")
	c.refused(write("r", 1<<63-1, "x"), -32600, "file write range exceeds the signed 64-bit file offset limit")
	for range 2 {
		ok(c.Call(wire.MethodFsClose, map[string]any{"handleId": "r"}), `{}`)
	}
	for i := range 128 {
		ok(open(fmt.Sprint(i), "f", "read"), fmt.Sprintf(`{"handleId":"%d"}`, i))
	}
	c.refused(open("one more", "f", "read"), -32600, "at most 128 file handles may be open per connection")
}

// Files that a connection has open end with it.
func TestHandlesEndWithTheirConnection(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{})
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := tethertest.Connect(t, s.URL)
	c.Must(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": wire.PathToURI(name)}, &wire.HandleResult{})
	c.Close()
	tethertest.Eventually(t, func() error {
		for _, target := range tethertest.OpenFiles() {
			if target == name {
				return fmt.Errorf("%s is open", name)
			}
		}
		return nil
	})
	s.Stop()
	check()
}

// Requests that are sent together have the results of requests that are sent one
// after the other.
func TestPipelinedFileRequests(t *testing.T) {
	c := newFileClient(t)
	uri := func(name string) string { return wire.PathToURI(c.at(name)) }
	var last int64
	for i := range 50 {
		c.Ask(wire.MethodFsCreateDirectory, map[string]any{"path": uri("d")})
		c.Ask(wire.MethodFsWriteFile, map[string]any{"path": uri("d/f"), "dataBase64": encoded(fmt.Append(nil, i))})
		c.Ask(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": uri("d/f")})
		read := c.Ask(wire.MethodFsReadBlock, map[string]any{"handleId": "h", "offset": 0, "len": 10})
		c.Ask(wire.MethodFsClose, map[string]any{"handleId": "h"})
		last = c.Ask(wire.MethodFsRemove, map[string]any{"path": uri("d")})
		m := c.Answer(read)
		if want := fmt.Sprintf(`{"chunk":"%s","eof":true}`, encoded(fmt.Append(nil, i))); string(m.Result) != want {
			t.Fatalf("round %d: %s, want %s", i, m.Raw, want)
		}
	}
	if m := c.Answer(last); m.Error != nil {
		t.Errorf("answered %s", m.Raw)
	}
	if _, err := os.Stat(c.at("d")); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// A file above the limit is refused at once, and can be read in blocks.
func TestHugeFile(t *testing.T) {
	c := newFileClient(t)
	const size = 10 << 30
	if err := errors.Join(os.WriteFile(c.at("huge"), nil, 0o600), os.Truncate(c.at("huge"), size)); err != nil {
		t.Fatal(err)
	}
	c.refused(c.ask(wire.MethodFsReadFile, "huge", nil), -32600, "file is too large to read: limit is 536870912 bytes")
	var block wire.ReadBlockResult
	c.Must(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": wire.PathToURI(c.at("huge"))}, &wire.HandleResult{})
	c.Must(wire.MethodFsReadBlock, map[string]any{"handleId": "h", "offset": size - 2, "len": 4}, &block)
	if len(block.Chunk) != 2 || !block.EOF {
		t.Errorf("the last block is %v", block)
	}
}

// A file that becomes shorter between two blocks ends there, and so does a file
// that is shorter than its size was.
func TestShrinkingFile(t *testing.T) {
	c := newFileClient(t)
	if err := os.WriteFile(c.at("f"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	var block wire.ReadBlockResult
	c.Must(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": wire.PathToURI(c.at("f"))}, &wire.HandleResult{})
	c.Must(wire.MethodFsReadBlock, map[string]any{"handleId": "h", "offset": 0, "len": 4}, &block)
	if err := os.Truncate(c.at("f"), 5); err != nil {
		t.Fatal(err)
	}
	c.Must(wire.MethodFsReadBlock, map[string]any{"handleId": "h", "offset": 4, "len": 4}, &block)
	if string(block.Chunk) != "e" || !block.EOF {
		t.Errorf("then came %q, %v", block.Chunk, block.EOF)
	}
	size := int64(1 << 20)
	if err := os.Truncate(c.at("f"), size); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(c.at("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, _, err := server.AppendFile(nil, readerFunc(func(p []byte) (int, error) {
		n, err := file.Read(p)
		os.Truncate(c.at("f"), 10) // after the first piece
		return n, err
	}))
	data, wrong := base64.StdEncoding.DecodeString(string(text))
	if err != nil || wrong != nil || len(data) == 0 || int64(len(data)) >= size {
		t.Errorf("read %d bytes, %v, %v", len(data), err, wrong)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A handle is unknown to other connections.
func TestHandlesOfOtherConnections(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	mine := &fileClient{tethertest.Connect(t, s.URL), t, t.TempDir()}
	other := &fileClient{tethertest.Connect(t, s.URL), t, mine.dir}
	if err := os.WriteFile(mine.at("f"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	mine.Must(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": wire.PathToURI(mine.at("f"))}, &wire.HandleResult{})
	other.refused(other.Call(wire.MethodFsReadBlock, map[string]any{"handleId": "h", "offset": 0, "len": 1}), -32004, "unknown file handle `h`")
	other.refused(other.Call(wire.MethodFsWriteBlock, map[string]any{"handleId": "h", "offset": 0, "chunk": "eA=="}), -32004, "unknown file handle `h`")
	other.Must(wire.MethodFsClose, map[string]any{"handleId": "h"}, &wire.Empty{})
	other.Must(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": wire.PathToURI(mine.at("new")), "mode": "replace"}, &wire.HandleResult{})
	var block wire.ReadBlockResult
	mine.Must(wire.MethodFsReadBlock, map[string]any{"handleId": "h", "offset": 0, "len": 7}, &block)
	if string(block.Chunk) != "content" {
		t.Errorf("the handle reads %q", block.Chunk)
	}
}

// A request about a path sees what earlier requests have written to an open file of
// that path.
func TestPipelinedBlocksAndPaths(t *testing.T) {
	c := newFileClient(t)
	uri := func(name string) string { return wire.PathToURI(c.at(name)) }
	block := bytes.Repeat([]byte("x"), 256<<10)
	for i := range 20 {
		c.Ask(wire.MethodFsOpen, map[string]any{"handleId": "h", "path": uri("f"), "mode": "replace"})
		c.Ask(wire.MethodFsWriteBlock, map[string]any{"handleId": "h", "offset": 0, "chunk": encoded(block)})
		c.Ask(wire.MethodFsClose, map[string]any{"handleId": "h"})
		look := c.Ask(wire.MethodFsGetMetadata, map[string]any{"path": uri("f")})
		var info wire.MetadataResult
		if m := c.Answer(look); m.Error != nil {
			t.Fatal(m.Error)
		} else if err := wire.Decode(m.Result, &info); err != nil || info.Size != uint64(len(block)) {
			t.Fatalf("round %d: %s", i, m.Raw)
		}
	}
}
