package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A bridgeHome has the socket and the state directory of the server for the bridges of a test.
type bridgeHome struct {
	t      *testing.T
	socket string
	state  string
}

// newBridgeHome ends the server with the test. The test fails if the server leaves files behind.
func newBridgeHome(t *testing.T) *bridgeHome {
	t.Helper()
	h := &bridgeHome{t: t, socket: filepath.Join(t.TempDir(), "server.sock"), state: t.TempDir()}
	h.endServerLater()
	return h
}

func (h *bridgeHome) endServerLater() {
	t := h.t
	t.Cleanup(func() {
		if pid := h.serverPid(); pid != 0 {
			syscall.Kill(pid, syscall.SIGTERM)
			h.awaitEnd(pid)
		}
		if left, _ := filepath.Glob(filepath.Join(h.state, "tether", "server-*")); len(left) > 0 {
			t.Errorf("the server left %v", left)
		}
		if log, _ := os.ReadFile(strings.TrimSuffix(h.socket, ".sock") + ".log"); bytes.Contains(log, []byte("level=ERROR")) {
			t.Errorf("the server complains: %s", log)
		}
	})
}

// serverPid returns the process that listens, or 0.
func (h *bridgeHome) serverPid() int {
	conn, err := net.Dial("unix", h.socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		h.t.Fatal(err)
	}
	pid := 0
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// awaitEnd waits until a process is gone or a zombie.
func (h *bridgeHome) awaitEnd(pid int) {
	h.t.Helper()
	tethertest.Eventually(h.t, func() error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
}

// A bridged client talks through a bridge of its own.
type bridged struct {
	*tethertest.Client
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *bytes.Buffer
	ended  sync.Once
}

func (h *bridgeHome) command(args ...string) *exec.Cmd {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"bridge", "--socket", h.socket}, args...)...)
	cmd.Env = append(os.Environ(), beTether+"=1", "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+h.state)
	return cmd
}

func (h *bridgeHome) bridge(args ...string) *bridged {
	h.t.Helper()
	b := &bridged{cmd: h.command(args...), stderr: new(bytes.Buffer)}
	b.cmd.Stderr = b.stderr
	stdin, err := b.cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	ours, theirs, err := os.Pipe() // not StdoutPipe: Wait would close it
	if err != nil {
		h.t.Fatal(err)
	}
	b.cmd.Stdout = theirs
	if err := b.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	theirs.Close()
	b.stdin = stdin
	b.Client = tethertest.NewLines(h.t, ours, stdin)
	h.t.Cleanup(func() { b.kill() })
	return b
}

// kill ends the bridge without a goodbye, as the failure of its machine would.
func (b *bridged) kill() {
	b.cmd.Process.Kill()
	b.wait()
}

func (b *bridged) wait() int {
	b.ended.Do(func() { b.cmd.Wait() })
	return b.cmd.ProcessState.ExitCode()
}

func (b *bridged) hello(resume string) tethertest.Hello {
	params := map[string]any{"clientName": "test", "tether": map[string]any{"ttlMs": 600_000}}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	return b.HandshakeWith(params)
}

const echoTwice = `echo one; read x; echo "two $x"`

// The bridge starts the server, which runs on when the bridge is killed: a second bridge
// resumes the session.
func TestSessionOutlivesItsBridge(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	first := h.bridge()
	hello := first.hello("")
	first.Start(tethertest.Shell("p", echoTwice, map[string]any{"pipeStdin": true}))
	if e := first.AwaitEvent("p"); string(e.Chunk) != "one\n" {
		t.Fatalf("%+v", e)
	}
	server := h.serverPid()
	first.kill()
	second := h.bridge("--no-start")
	second.hello(hello.SessionID)
	second.Read("p", 1, nil)
	second.Write("p", "1", "x\n")
	if out := second.Finish("p", 1); out.Text["stdout"] != "two x\n" || out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
	if now := h.serverPid(); now != server {
		t.Errorf("server %d, then %d", server, now)
	}
	// The session outlives the end of the bridge's input.
	second.stdin.Close()
	if code := second.wait(); code != 0 || second.stderr.Len() > 0 {
		t.Errorf("ended with %d: %s", code, second.stderr)
	}
	second.Ended() // the server must not hold the bridge's output open, or ssh would wait for it
	third := h.bridge("--no-start")
	third.hello(hello.SessionID)
	third.Must("tether/session/end", map[string]any{}, nil)
	if code := third.wait(); code != 1 || third.stderr.String() != "tether: the server has ended the connection: session has ended\n" {
		t.Errorf("ended with %d: %s", code, third.stderr)
	}
}

// A bridge whose client is gone must not keep the session attached.
func TestSessionMovesFromASilentBridge(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	first := h.bridge()
	hello := first.hello("")
	first.Start(tethertest.Command("p", []string{"sleep", "1000"}, nil))
	second := h.bridge()
	second.hello(hello.SessionID)
	if code := first.wait(); code != 1 || !strings.Contains(first.stderr.String(), "resumed by another connection") {
		t.Errorf("ended with %d: %s", code, first.stderr)
	}
	second.Terminate("p")
}

func TestBridgesAtOnceShareAServer(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	var all []*bridged
	for range 4 {
		all = append(all, h.bridge())
	}
	for _, b := range all {
		b.hello("")
	}
	var list struct{ Sessions []any }
	all[0].Must("tether/session/list", nil, &list)
	if len(list.Sessions) != len(all) {
		t.Errorf("%d sessions of %d clients", len(list.Sessions), len(all))
	}
}

// Messages of any size pass both ways, and a client that does not read delays only its own
// messages.
func TestBridgeCarriesLargeMessages(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	b := h.bridge()
	b.hello("")
	b.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	data := make([]byte, 5<<20)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(data)
	b.Must("process/write", map[string]any{"processId": "p", "writeId": "1", "chunk": base64.StdEncoding.EncodeToString(data)}, nil)
	b.Must("tether/process/closeStdin", map[string]any{"processId": "p"}, nil)
	out := b.Finish("p", 0)
	if got := out.Text["stdout"]; sha256.Sum256([]byte(got)) != sha256.Sum256(data) {
		t.Errorf("%d bytes came back, not the same as %d", len(got), len(data))
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var read struct{ DataBase64 []byte }
	b.Must("fs/readFile", map[string]any{"path": "file://" + file}, &read)
	if !bytes.Equal(read.DataBase64, data) {
		t.Errorf("%d bytes were read", len(read.DataBase64))
	}
}

func TestBridgeWithoutServer(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	cmd := h.command("--no-start")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || string(out) != "tether: no server is running on "+h.socket+"\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// The bridge says why the server did not start, and which log has more.
func TestBridgeReportsWhyTheServerFailed(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	h.socket = filepath.Join(filepath.Dir(h.socket), strings.Repeat("long", 30)+".sock")
	cmd := h.command()
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"tether: cannot start a server: it ended with exit status 1: cannot listen on", "about 100 bytes", "; its log is " + strings.TrimSuffix(h.socket, "sock") + "log\n"} {
		if !strings.Contains(string(out), want) || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%v: %s\nwithout %q", err, out, want)
		}
	}
	os.Remove(strings.TrimSuffix(h.socket, "sock") + "log")
}

func TestBridgeEndsWithItsServer(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	b := h.bridge()
	b.hello("")
	server := h.serverPid()
	syscall.Kill(server, syscall.SIGTERM)
	if code := b.wait(); code != 1 || b.stderr.String() != "tether: the server has ended the connection: server is shutting down, and its sessions end with it\n" {
		t.Errorf("ended with %d: %s", code, b.stderr)
	}
	h.awaitEnd(server)
}

// A server without clients ends and removes its socket.
func TestIdleServerOfBridgesEnds(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	b := h.bridge("--idle-exit", "2s")
	b.hello("")
	server := h.serverPid()
	b.Must("tether/session/end", map[string]any{}, nil)
	b.wait()
	h.awaitEnd(server)
	if _, err := os.Lstat(h.socket); !os.IsNotExist(err) {
		t.Errorf("the socket: %v", err)
	}
	b = h.bridge()
	b.hello("") // and there is another one
}

// The server refuses a bridge in another container, and the bridge says why.
func TestBridgeInAnotherNamespaceIsRefused(t *testing.T) {
	t.Parallel()
	h := newBridgeHome(t)
	h.bridge().hello("")
	cmd := h.command("--no-start")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed || !strings.Contains(string(out), "the server refuses the connection: client refused: it is in another container or sandbox") {
		t.Errorf("%v: %s", err, out)
	}
}
