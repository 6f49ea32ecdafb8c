//go:build unix

package homeserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func sessionID() int {
	id, _ := unix.Getsid(0)
	return id
}

func options(t *testing.T, kind string) Options {
	t.Helper()
	return Options{Socket: filepath.Join(t.TempDir(), "below", "server.sock"), Env: append(os.Environ(), beServer+"="+kind, "SSH_TTY=/dev/pts/1")}
}

// ask sends a question to a fake server; ok is false if there is none.
func ask(t *testing.T, o Options, question string) (answer string, ok bool) {
	t.Helper()
	conn, err := net.Dial("unix", o.Socket)
	if err != nil {
		return "", false
	}
	defer conn.Close()
	io.WriteString(conn, question+"\n")
	answer, _ = bufio.NewReader(conn).ReadString('\n')
	return answer, true
}

// endServer ends a fake server, which is a child of the test, and waits for it.
func endServer(t *testing.T, o Options) {
	t.Helper()
	var pid int
	answer, ok := ask(t, o, "who")
	if _, err := fmt.Sscan(answer, &pid); err != nil || !ok {
		t.Fatalf("%q, %v", answer, err)
	}
	ask(t, o, "end")
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Errorf("wait for %d: %v", pid, err)
	}
}

func TestServerIsStartedOnceAndFoundAgain(t *testing.T) {
	o := options(t, "good")
	o.IdleExit = 7 * time.Minute
	url, err := Ensure(t.Context(), o)
	if err != nil || url != "unix://"+o.Socket {
		t.Fatalf("%s, %v", url, err)
	}
	defer endServer(t, o)
	first, _ := ask(t, o, "who")
	again, err := Ensure(t.Context(), o)
	second, _ := ask(t, o, "who")
	if err != nil || again != url || first != second {
		t.Errorf("%s %v: %q, then %q", again, err, first, second)
	}
	var pid, session int
	var dir, login string
	if _, err := fmt.Sscanf(first, "%d %d %q %q", &pid, &session, &dir, &login); err != nil {
		t.Fatal(err)
	}
	if session != pid {
		t.Error("it is in the session of the process that started it")
	}
	if home := homeDir(); dir != home || login != "" {
		t.Errorf("it is in %s, not in %s, and SSH_TTY is %q", dir, home, login)
	}
	if !strings.Contains(first, `"--idle-exit" "7m0s"`) {
		t.Errorf("arguments: %s", first)
	}
}

func TestManyAtOnceGetOneServer(t *testing.T) {
	o := options(t, "good")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := Ensure(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	endServer(t, o)
	if _, ok := ask(t, o, "who"); ok {
		t.Error("there was another server")
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("another child: %d, %v", pid, err)
	}
	if log, err := os.ReadFile(o.beside(".log")); err != nil || len(log) > 0 {
		t.Errorf("log %q, %v", log, err)
	}
}

func TestNoServerIsStartedUnlessWanted(t *testing.T) {
	o := options(t, "good")
	o.NoStart = true
	if _, err := Ensure(t.Context(), o); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), o.Socket) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(o.Socket)); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
}

// In a directory that other users may write, a link could lead to any file of the
// user.
func TestLockAndLogAreNoLinks(t *testing.T) {
	for _, suffix := range []string{".lock", ".log"} {
		o := options(t, "failing")
		if err := os.MkdirAll(filepath.Dir(o.Socket), 0o700); err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(t.TempDir(), "target")
		if err := os.Symlink(target, o.beside(suffix)); err != nil {
			t.Fatal(err)
		}
		if _, err := Ensure(t.Context(), o); !errors.Is(err, syscall.ELOOP) || !strings.Contains(err.Error(), o.beside(suffix)) {
			t.Errorf("%s: %v", suffix, err)
		}
		if _, err := os.Lstat(target); !os.IsNotExist(err) {
			t.Errorf("%s was made through a link: %v", suffix, err)
		}
	}
}

func TestReasonOfAFailedStart(t *testing.T) {
	o := options(t, "failing")
	for range 2 {
		_, err := Ensure(t.Context(), o)
		want := "cannot start a server: it ended with exit status 3: this machine is\nnot good enough; its log is " + o.beside(".log")
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	log, err := os.ReadFile(o.beside(".log"))
	if err != nil || strings.Count(string(log), "not good enough") != 2 {
		t.Errorf("log %q, %v", log, err)
	}
}

func TestLargeLogIsEmptied(t *testing.T) {
	o := options(t, "failing")
	Ensure(t.Context(), o)
	if err := os.WriteFile(o.beside(".log"), make([]byte, maxLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not good enough") {
		t.Error(err)
	}
	if info, err := os.Stat(o.beside(".log")); err != nil || info.Size() > 1000 {
		t.Errorf("%v, %v", info.Size(), err)
	}
}

// If the caller stops waiting, no server is left behind.
func TestStartThatTakesTooLong(t *testing.T) {
	o := options(t, "hanging")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // it hangs, but it has begun
	defer cancel()
	if _, err := Ensure(ctx, o); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), o.beside(".log")) {
		t.Error(err)
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("left behind: %d, %v", pid, err)
	}
}

func TestWaitForAnotherStartEnds(t *testing.T) {
	o := options(t, "good")
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	unlock, err := o.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Ensure(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestDefaultSocket(t *testing.T) {
	runtime, state := t.TempDir(), t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	if path, err := DefaultSocket(); err != nil || path != filepath.Join(runtime, "tether", "server.sock") {
		t.Errorf("%s, %v", path, err)
	}
	for _, dir := range []string{"", "relative", filepath.Join(runtime, "missing")} {
		t.Setenv("XDG_RUNTIME_DIR", dir)
		path, err := DefaultSocket()
		if below, _ := filepath.Rel(filepath.Join(state, "tether"), path); err != nil || strings.HasPrefix(below, "..") {
			t.Errorf("XDG_RUNTIME_DIR=%q: %s, %v", dir, path, err)
		}
	}
	if os.Geteuid() == 0 { // after su
		theirs := t.TempDir()
		if err := os.Chown(theirs, 4321, 4321); err != nil {
			t.Fatal(err)
		}
		t.Setenv("XDG_RUNTIME_DIR", theirs)
		if path, err := DefaultSocket(); err != nil || !strings.HasPrefix(path, state) {
			t.Errorf("the runtime directory of another user: %s, %v", path, err)
		}
		if _, err := os.Stat(filepath.Join(theirs, "tether")); !os.IsNotExist(err) {
			t.Errorf("something was made there: %v", err)
		}
	}
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	dir := filepath.Join(runtime, "tether")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := DefaultSocket(); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("in a directory that others can read: %s, %v", path, err)
	}
	os.Remove(dir)
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if path, err := DefaultSocket(); err == nil {
		t.Errorf("through a link: %s", path)
	}
}
