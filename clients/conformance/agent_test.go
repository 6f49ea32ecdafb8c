package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// A language is a client that is tested.
type language struct {
	name string
	// command is the program of its agent.
	command func(t *testing.T) *exec.Cmd
}

var languages = []language{
	{"go", func(t *testing.T) *exec.Cmd {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), beAgent+"=1", "GORACE=atexit_sleep_ms=0")
		return cmd
	}},
	{"python", func(t *testing.T) *exec.Cmd {
		python, err := findPython()
		if err != nil {
			need.CannotRun(t, "%v: install python3-websockets with scripts/need-websockets", err)
		}
		cmd := exec.Command(python, "-B", "-W", "error", "conformance.py")
		cmd.Dir = filepath.Join("..", "python")
		return cmd
	}},
	{"typescript", func(t *testing.T) *exec.Cmd {
		if err := builtTypeScript(); err != nil {
			need.CannotRun(t, "%v: build it with scripts/build-typescript", err)
		}
		return exec.Command("node", filepath.Join("..", "typescript", "dist", "conformance.js"))
	}},
}

// builtTypeScript reports an error if the TypeScript client is not built, or not as its source is now.
var builtTypeScript = sync.OnceValue(func() error {
	if _, err := exec.LookPath("node"); err != nil {
		return err
	}
	built, err := os.Stat(filepath.Join("..", "typescript", "dist", "conformance.js"))
	if err != nil {
		return err
	}
	var sources []string
	for _, pattern := range []string{"*.ts", filepath.Join("*", "*.ts")} {
		found, err := filepath.Glob(filepath.Join("..", "typescript", "src", pattern))
		if err != nil {
			return err
		}
		sources = append(sources, found...)
	}
	for _, name := range sources {
		if source, err := os.Stat(name); err != nil || source.ModTime().After(built.ModTime()) {
			return fmt.Errorf("%s was changed after the client was built", name)
		}
	}
	return nil
})

// findPython is a Python 3.11 or later with a library for WebSockets.
var findPython = sync.OnceValues(func() (path string, err error) {
	for _, path := range []string{"python3", "/usr/bin/python3"} {
		var out []byte
		out, err = exec.Command(path, "-c", "import sys, websockets; assert sys.version_info >= (3, 11), sys.version").CombinedOutput()
		if err == nil {
			return path, nil
		}
		if line := bytes.TrimSpace(out); len(line) > 0 {
			err = fmt.Errorf("%s: %s", path, line[bytes.LastIndexByte(line, '\n')+1:])
		}
	}
	return "", err
})

// An args are the members of a command.
type args map[string]any

// An answer is what an agent says about a command.
type answer struct {
	ID      int             `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
}

// An agent is a program that carries out commands with a client.
type agent struct {
	t      *testing.T
	stdin  io.WriteCloser
	stderr bytes.Buffer

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	ended   bool
}

// startAgent starts the program of a client. It ends with the test.
func startAgent(t *testing.T, in language, env ...string) *agent {
	t.Helper()
	a := &agent{t: t, waiting: map[int]chan answer{}}
	cmd := in.command(t)
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Stderr = &a.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.stdin = stdin
	read := make(chan struct{})
	go func() { // ends with the program
		defer close(read)
		a.read(stdout)
	}()
	t.Cleanup(func() {
		stdin.Close()
		<-read
		if err := cmd.Wait(); err != nil || a.stderr.Len() > 0 {
			t.Errorf("the agent ended with %v and said:\n%s", err, a.stderr.Bytes())
		}
	})
	return a
}

// read takes answers to the end of the output.
func (a *agent) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var got answer
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			a.t.Errorf("the agent has written %q", lines.Text())
			continue
		}
		a.mu.Lock()
		waiting := a.waiting[got.ID]
		delete(a.waiting, got.ID)
		a.mu.Unlock()
		if waiting != nil {
			waiting <- got
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for _, waiting := range a.waiting {
		waiting <- answer{Error: "ended", Message: "the agent has ended"}
	}
	a.waiting = nil
}

// begin sends a command.
func (a *agent) begin(do string, more args) <-chan answer {
	a.t.Helper()
	waiting := make(chan answer, 1)
	a.mu.Lock()
	a.last++
	command := args{"id": a.last, "do": do}
	if a.ended {
		waiting <- answer{Error: "ended", Message: "the agent has ended"}
	} else {
		a.waiting[a.last] = waiting
	}
	a.mu.Unlock()
	for name, value := range more {
		command[name] = value
	}
	text, err := json.Marshal(command)
	if err == nil {
		_, err = a.stdin.Write(append(text, '\n'))
	}
	if err != nil {
		a.t.Errorf("%s: %v", do, err)
	}
	return waiting
}

// A result has the members of all results.
type result struct {
	SessionID   string `json:"sessionId"`
	PublicID    string `json:"publicId"`
	ProcessID   string `json:"processId"`
	Streams     map[string]summary
	Last        uint64   `json:"last"`
	Ended       bool     `json:"ended"`
	Code        int      `json:"code"`
	Running     bool     `json:"running"`
	Names       []string `json:"names"`
	Proxy       string   `json:"proxy"`
	Size        int64    `json:"size"`
	IsFile      bool     `json:"isFile"`
	IsDirectory bool     `json:"isDirectory"`
	Port        uint16   `json:"port"`
	summary
}

// A summary is what was read.
type summary struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// patience is longer than any command takes.
const patience = hang.Limit

// answer waits for the answer to a command.
func (a *agent) answer(do string, waiting <-chan answer) answer {
	a.t.Helper()
	select {
	case got := <-waiting:
		return got
	case <-time.After(patience):
		a.t.Fatalf("%s: no answer within %s", do, patience)
		return answer{}
	}
}

// await returns the result of a command. A failure ends the test.
func (a *agent) await(do string, waiting <-chan answer) result {
	a.t.Helper()
	got := a.answer(do, waiting)
	if got.Error != "" {
		a.t.Fatalf("%s: %s: %s", do, got.Error, got.Message)
	}
	var r result
	if err := json.Unmarshal(got.Result, &r); err != nil {
		a.t.Fatalf("%s: %v", do, err)
	}
	return r
}

// do carries out a command.
func (a *agent) do(do string, more args) result {
	a.t.Helper()
	return a.await(do, a.begin(do, more))
}

// fails carries out a command that fails with an error of this name.
func (a *agent) fails(want, do string, more args) {
	a.t.Helper()
	if got := a.answer(do, a.begin(do, more)); got.Error != want {
		a.t.Errorf("%s failed with %q (%s), want %s", do, got.Error, got.Message, want)
	}
}
