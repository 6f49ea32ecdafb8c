package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A logBook has the lines of a log.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBook) log() *slog.Logger { return slog.New(slog.NewJSONHandler(b, nil)) }

// lines returns the lines with one of the messages, shortened: the message, then the facts with these names.
func (b *logBook) lines(t *testing.T, facts ...string) (list []string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(b.text.Bytes()) {
		var all map[string]any
		if err := json.Unmarshal(line, &all); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		what := all["msg"].(string)
		if !strings.HasPrefix(what, "session ") && !strings.HasPrefix(what, "connection ") && !strings.HasPrefix(what, "command ") {
			continue
		}
		if _, named := all["session"]; !named {
			t.Errorf("a line without its session: %s", line)
		}
		for _, name := range facts {
			if value, ok := all[name]; ok {
				what += fmt.Sprint(" ", name, "=", value)
			}
		}
		list = append(list, what)
	}
	return list
}

// The log has one line for each thing that happens, with names, and without secrets.
func TestLogLines(t *testing.T) {
	book := new(logBook)
	s := tethertest.StartServer(t, server.Config{Log: book.log()})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", "read x; echo $SECRET; exit 3", map[string]any{"pipeStdin": true, "env": map[string]string{"SECRET": "hidden"}}))
	c.Call("process/write", map[string]any{"processId": "p", "chunk": "c2VjcmV0Cg==", "writeId": "w"})
	c.Finish("p", 0)
	long := strings.Repeat("x", 1000)
	if m := c.Call("process/start", tethertest.Command("q", []string{"/nonexistent/" + long, "argument"}, nil)); m.Error == nil {
		t.Error("a program that does not exist was started")
	}
	again := tethertest.Shell("r", "exec sleep 1000", map[string]any{"retry": true})
	c.Start(again)
	c.Start(again) // the same command, which is logged once
	c.Call("process/terminate", map[string]any{"processId": "r"})
	c.Finish("r", 0)
	c.Close()
	tethertest.Eventually(t, func() error {
		if list := book.lines(t); list[len(list)-1] != "connection ended" {
			return fmt.Errorf("the last line is %s", list[len(list)-1])
		}
		return nil
	})
	s.Stop()

	got := strings.Join(book.lines(t, "listener", "client", "process", "command", "code", "kind"), "\n")
	want := strings.Join([]string{
		"session opened listener=ws client=test",
		"command started process=p command=/bin/sh",
		"command exited process=p command=/bin/sh code=3 kind=failure",
		"command not started process=q command=/nonexistent/" + long[:128-len("/nonexistent/")] + "…",
		"command started process=r command=/bin/sh",
		"command exited process=r command=/bin/sh code=143 kind=terminated",
		"connection ended listener=ws",
		"session ended",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	text := book.text.String()
	for _, secret := range []string{"hidden", "secret", "SECRET", hello.SessionID, "argument"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log has %q:\n%s", secret, text)
		}
	}
}

// A connection without a handshake has a line, too, and a log of errors has none of these lines.
func TestLogLinesOfAConnection(t *testing.T) {
	book := new(logBook)
	quiet := slog.New(slog.NewJSONHandler(book, &slog.HandlerOptions{Level: slog.LevelError}))
	s := tethertest.StartServer(t, server.Config{Log: quiet})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", "true", nil))
	c.Finish("p", 0)
	s.Stop()
	if text := book.text.String(); text != "" {
		t.Errorf("a log of errors has %s", text)
	}
}
