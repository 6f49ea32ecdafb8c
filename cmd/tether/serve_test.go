package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A program is a running tether.
type program struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	output io.Closer // of stdout
	stderr *sharedBuffer
}

// A sharedBuffer can be read while it is written.
type sharedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *sharedBuffer) Bytes() []byte { return []byte(b.String()) }

func startTether(t *testing.T, args ...string) *program {
	t.Helper()
	return startTetherEnv(t, nil, args...)
}

// startTetherEnv is startTether with more environment variables.
func startTetherEnv(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, env, exec.CommandContext(t.Context(), self, args...))
}

// startProgram starts a command that executes tether.
func startProgram(t *testing.T, env []string, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{Cmd: cmd, stderr: new(sharedBuffer)}
	var err error
	p.Env = append(os.Environ(), beTether+"=1", "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+t.TempDir())
	p.Env = append(p.Env, env...)
	if p.Stderr == nil {
		p.Stderr = p.stderr
	}
	if p.stdin, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.output = bufio.NewReader(out), out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

func (p *program) line(t *testing.T) string {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("standard output: %v; standard error: %s", err, p.stderr)
	}
	return strings.TrimSuffix(line, "\n")
}

// complaints returns the lines on standard error that are not lines of the log about what happens as it should.
func (p *program) complaints() (text string) {
	for line := range strings.Lines(p.stderr.String()) {
		var entry struct{ Level string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Level != "INFO" {
			text += line
		}
	}
	return text
}

// endsWith waits for the end. There must be no further output, and no complaint.
func (p *program) endsWith(t *testing.T, code int) {
	t.Helper()
	rest, err := io.ReadAll(p.stdout)
	if err != nil || len(rest) > 0 {
		t.Errorf("more on standard output: %q, %v", rest, err)
	}
	p.Wait()
	if got := p.ProcessState.ExitCode(); got != code || p.complaints() != "" {
		t.Errorf("ended with %v, want exit code %d; standard error: %s", p.ProcessState, code, p.stderr)
	}
}

func TestSignalsEndTheServer(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startTether(t, "exec-server")
		p.stdin.Close() // changes nothing
		url := p.line(t)
		if !strings.HasPrefix(url, "ws://127.0.0.1:") {
			t.Fatalf("printed %q", url)
		}
		resp, err := http.Get("http" + strings.TrimPrefix(url, "ws") + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
		p.Process.Signal(sig)
		p.endsWith(t, 0)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestSocketFileIsRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.sock")
	p := startTether(t, "serve", "--listen", "unix://"+path)
	if url := p.line(t); url != "unix://"+path {
		t.Errorf("printed %q", url)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.endsWith(t, 0)
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("socket file after the end: %v", err)
	}
}

func TestStdioEndsWithItsInput(t *testing.T) {
	t.Parallel()
	p := startTether(t, "serve", "--listen", "stdio")
	p.stdin.Close()
	p.endsWith(t, 0)
}

// A web server sends bytes after its answer. The server prints none of them.
func TestUnexpectedBytesOfWebServersAreNotPrinted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dropped := make(chan error, 1)
	go func() { // ends with its only connection
		c, err := l.Accept()
		if err != nil {
			dropped <- err
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and a secret")
		_, err = io.Copy(io.Discard, c)
		dropped <- err
	}()
	p := startTether(t, "serve", "--listen", "stdio")
	io.WriteString(p.stdin, `{"id":1,"method":"initialize","params":{"clientName":"test"}}`+"\n"+`{"method":"initialized"}`+"\n"+
		`{"id":2,"method":"http/request","params":{"method":"GET","url":"http://`+l.Addr().String()+`","requestId":"r"}}`+"\n")
	p.line(t)
	if answer := p.line(t); !strings.Contains(answer, `"status":200`) {
		t.Errorf("answer %q", answer)
	}
	if err := <-dropped; err != nil {
		t.Errorf("the connection is kept: %v", err)
	}
	p.stdin.Close()
	p.endsWith(t, 0)
}

// The signal comes while a read of standard input waits.
func TestSignalEndsStdio(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startTether(t, "serve", "--listen", "stdio")
		// Malformed text gets an answer: the server is up, and waits for more.
		io.WriteString(p.stdin, "x\n")
		if answer := p.line(t); !strings.Contains(answer, `"error"`) {
			t.Errorf("answer %q", answer)
		}
		start := time.Now()
		p.Process.Signal(sig)
		p.endsWith(t, 0)
		if took := time.Since(start); took >= stopPatience {
			t.Errorf("took %v", took)
		}
	}
}

// The signal comes while a write to standard output waits for a reader.
func TestSignalEndsStdioWithBlockedOutput(t *testing.T) {
	t.Parallel()
	p := startTether(t, "serve", "--listen", "stdio")
	// The answers are several times what a pipe holds, and one is read.
	io.WriteString(p.stdin, strings.Repeat("x\n", 5000))
	p.line(t)
	start := time.Now()
	p.Process.Signal(syscall.SIGTERM)
	state, err := p.Process.Wait()
	if took := time.Since(start); err != nil || state.ExitCode() != 0 || took >= stopPatience {
		t.Errorf("ended with %v, %v after %v", state, err, took)
	}
}

// When its client is gone, the server must not be killed by SIGPIPE, because it would leave children
// behind.
func TestClosedOutputDoesNotKillStdio(t *testing.T) {
	t.Parallel()
	p := startTether(t, "serve", "--listen", "stdio")
	p.output.Close()
	io.WriteString(p.stdin, "x\n") // the answer fails, which ends the connection
	p.Wait()
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Errorf("ended with %v; standard error: %s", p.ProcessState, p.stderr)
	}
}

// --concurrent-requests has no effect: however many long polls wait, other requests are answered.
func TestConcurrentRequestsDelayNothing(t *testing.T) {
	t.Parallel()
	for _, n := range []string{"1", "2"} {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			c := tethertest.Connect(t, startTether(t, "serve", "--concurrent-requests", n).line(t))
			file := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c.Must("fs/open", map[string]any{"handleId": "h", "path": "file://" + file}, nil)
			c.Start(tethertest.Command("p", []string{"sleep", "1000"}, nil))
			for range 5 {
				c.Ask("process/read", map[string]any{"processId": "p", "waitMs": time.Hour.Milliseconds()})
			}
			c.Must("fs/close", map[string]any{"handleId": "h"}, nil)
			c.Terminate("p")
		})
	}
}
