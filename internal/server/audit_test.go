package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// recorded returns the lines of an audit log, shortened: the event, then its main fields.
func recorded(t *testing.T, path string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if e.Time.IsZero() || e.Session == "" || e.Client != "test" || (e.Peer == "") != (e.Event == audit.ProcessExited || e.Event == audit.SessionEnded) {
			t.Errorf("%s", line)
		}
		short := e.Event
		for _, word := range append(append([]string{e.Process, e.Sandbox, e.Network, e.Kind, e.Signal, e.Method, e.Reason}, e.Argv...), e.Paths...) {
			if word != "" {
				short += " " + word
			}
		}
		if e.Code != nil {
			short += fmt.Sprint(" ", *e.Code, " ", e.Usage != nil)
		}
		list = append(list, short)
	}
	return list
}

// What a client does is recorded in order, without input, output and values of the environment.
func TestAuditLog(t *testing.T) {
	path, dir := filepath.Join(t.TempDir(), "audit"), t.TempDir()
	s := tethertest.StartServer(t, server.Config{Audit: audit.Config{Target: path}})
	c := tethertest.Connect(t, s.URL)
	p := tethertest.Shell("p", "read x; echo $SECRET", map[string]any{"pipeStdin": true, "env": map[string]string{"SECRET": "hidden value"}})
	c.Start(p)
	c.Call("process/write", map[string]any{"processId": "p", "chunk": "c2VjcmV0Cg==", "writeId": "w"})
	c.Finish("p", 0)
	c.Call("process/start", tethertest.Shell("q", "true", map[string]any{"argv": []string{"/nonexistent/program"}}))
	file := "file://" + dir + "/f"
	c.Call("fs/writeFile", map[string]any{"path": file, "dataBase64": "aGlkZGVuIHZhbHVl"})
	c.Call("fs/readFile", map[string]any{"path": file})
	sum := sha256.Sum256(nil)
	c.Must("tether/upload/open", map[string]any{"uploadId": "u", "path": "file://" + dir + "/uploaded", "size": 0}, nil)
	for range 2 { // it is recorded once
		c.Must("tether/upload/commit", map[string]any{"uploadId": "u", "sha256": hex.EncodeToString(sum[:])}, nil)
	}
	c.Call("fs/remove", map[string]any{"path": "file://" + dir + "/none", "recursive": false, "force": false})
	again := tethertest.Shell("r", "exec sleep 1000", map[string]any{"retry": true})
	c.Start(again)
	c.Start(again) // the same process, which is recorded once
	c.Call("process/terminate", map[string]any{"processId": "r"})
	c.Finish("r", 0)
	s.Stop()

	want := []string{
		"session.opened",
		"process.started p none machine /bin/sh -c read x; echo $SECRET",
		"process.exited p success 0 true",
		"process.refused q",
		"file.changed fs/writeFile " + dir + "/f",
		"file.changed tether/upload/commit " + dir + "/uploaded",
		"process.started r none machine /bin/sh -c exec sleep 1000",
		"process.signalled r TERM process/terminate",
		"process.exited r terminated 143 true",
		"session.ended",
	}
	got := recorded(t, path)
	for i, line := range got {
		if strings.HasPrefix(line, "process.refused q") && strings.Contains(line, "/nonexistent/program") {
			got[i] = "process.refused q" // the rest is the system's text
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text, _ := os.ReadFile(path); bytes.Contains(text, []byte("hidden")) || bytes.Contains(text, []byte("secret")) {
		t.Errorf("the log has a secret:\n%s", text)
	}
}
