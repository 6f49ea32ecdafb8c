package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/statedir"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/executable"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/internal/tethertest/workload"
	"github.com/tetherexec/tether/wire"
)

// variant returns the path of this program under a name that says how it behaves, see beVariant.
func variant(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	path := filepath.Join(t.TempDir(), name)
	if err == nil && os.Link(self, path) != nil {
		err = executable.Copy(self, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startUpgradable starts a server on a Unix socket, with the program at path.
func startUpgradable(t *testing.T, path string) *keptServer {
	t.Helper()
	return startKeeperProgram(t, path, []string{hastyVariable + "=1"}, "--listen", "unix://"+filepath.Join(t.TempDir(), "t.sock"))
}

// upgrade runs `tether upgrade` and returns what it prints and its exit code.
func (s *keptServer) upgrade(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	return s.tether(t, append([]string{"upgrade", "--url", s.url}, args...)...)
}

// tether runs the program of the server with other arguments.
func (s *keptServer) tether(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.Path, args...)
	cmd.Env = append(os.Environ(), beTether+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// state asks the server about its keeper.
func (s *keptServer) state(t *testing.T) (state wire.KeeperState) {
	t.Helper()
	if err := dialKept(t, s.url).Call(t.Context(), client.Idempotent, wire.MethodKeeperState, nil, &state); err != nil {
		t.Fatal(err)
	}
	return state
}

// awaitKeeper waits until the keeper runs the program at path, and handles signals.
func (s *keptServer) awaitKeeper(t *testing.T, path string) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		if now, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.Process.Pid)); now != path {
			return fmt.Errorf("the keeper runs %s, %w", now, err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Process.Pid))
		if err != nil {
			return err
		}
		_, ignored, _ := strings.Cut(string(status), "SigIgn:")
		set, err := strconv.ParseUint(strings.Fields(ignored)[0], 16, 64)
		if err != nil || set>>(syscall.SIGHUP-1)&1 != 0 {
			return fmt.Errorf("the keeper does not handle signals yet: %x, %w", set, err)
		}
		return nil
	})
}

// A server is upgraded to another version and back while clients run commands. They notice nothing: each command runs
// once, with all of its output and input, and its exit code. The keeper is replaced too, in place.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	first, second := variant(t, "version-first"), variant(t, "version-second")
	server := startUpgradable(t, first)
	s := &storm{keptServer: server, tasks: workload.Runner{Dir: t.TempDir()}}
	s.tasks.Marker = "TETHER_STORM=" + s.tasks.Dir
	s.useSandbox(t)
	server.awaitWorker(t, 0)
	working, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for n := range 2 {
		c := dialKept(t, server.url)
		clients.Go(func() {
			for i := 0; working.Err() == nil && !t.Failed(); i++ {
				kind := workload.Kinds[(n+i)%len(workload.Kinds)]
				if err := s.tasks.Run(t.Context(), c, fmt.Sprintf("%d-%d", n, i), kind); err != nil {
					t.Errorf("command %d-%d, %s: %v", n, i, kind.Name, err)
				}
				s.commands.Add(1)
			}
			if err := c.End(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	rounds := tethertest.Scaled(1, 20)
	for range rounds {
		for _, to := range []string{second, first} {
			before := s.commands.Load()
			text, code := server.upgrade(t, "--to", to)
			if want := "version " + strings.TrimPrefix(filepath.Base(to), "version-") + " serves in place of version"; code != 0 || !strings.HasPrefix(text, want) {
				t.Errorf("%s: exit code %d, %q", to, code, text)
			}
			server.awaitKeeper(t, to)
			tethertest.Eventually(t, func() error {
				if s.commands.Load() < before+2 {
					return fmt.Errorf("%d commands before the upgrade, %d now", before, s.commands.Load())
				}
				return nil
			})
		}
	}
	stop()
	clients.Wait()
	if state := server.state(t); state.Deaths != 0 || state.Worker != 1+2*rounds || state.Version != "first" || state.KeeperPID != server.Process.Pid || !state.SameProgram {
		t.Errorf("%+v", state)
	}
	s.checkEmpty(t)
	server.stop(t)
}

// A program that cannot take over does not end the server: the old one goes on, the user is told why, and clients notice
// nothing.
func TestUpgradeToBadProgram(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, want string
		deaths     int
	}{
		{"crash-prove", "it ended unexpectedly (exit status 9)", 0},
		{"hang-prove", "it was not ready in time (exit status 137)", 0},
		{"crash-serve", "it ended unexpectedly (exit status 137)", 1},
		{"hang-serve", "it was not ready in time (exit status 137)", 1},
		{"missing", "no such file", 0},
		{"directory", "is not a program", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server := startUpgradable(t, variant(t, "version-first"))
			path := t.TempDir()
			switch row.name {
			case "missing":
				path = filepath.Join(path, row.name)
			case "directory":
			default:
				path = variant(t, row.name)
			}
			gate := filepath.Join(t.TempDir(), "gate")
			if err := syscall.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			p, err := dialKept(t, server.url).Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "echo begin; read x <" + gate + "; echo end; exit 9"}})
			if err != nil {
				t.Fatal(err)
			}
			text, code := server.upgrade(t, "--to", path)
			if code != 1 || !strings.Contains(text, "version first goes on") || !strings.Contains(text, row.want) {
				t.Errorf("exit code %d, %q", code, text)
			}
			if state := server.state(t); state.Version != "first" || state.Deaths != row.deaths {
				t.Errorf("%+v", state)
			}
			if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if exit, err := p.CopyOutput(t.Context(), &out, io.Discard); err != nil || exit.Code != 9 || out.String() != "begin\nend\n" {
				t.Errorf("%+v, %v, %q", exit, err, out.String())
			}
			server.stop(t)
		})
	}
}

// Without a name, the file from which the server was started is used, if it has changed; SIGHUP does the same.
func TestUpgradeToChangedFile(t *testing.T) {
	t.Parallel()
	path, next := filepath.Join(t.TempDir(), "tether"), filepath.Join(t.TempDir(), "next")
	self, err := os.Executable()
	if err == nil {
		err = executable.Copy(self, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := startUpgradable(t, path)
	pid := server.awaitWorker(t, 0)
	if text, code := server.upgrade(t); code != 1 || !strings.Contains(text, "has not changed") {
		t.Errorf("exit code %d, %q", code, text)
	}
	for _, how := range []string{"command", "signal"} {
		if err := executable.Copy(self, next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
		if how == "signal" {
			server.Process.Signal(syscall.SIGHUP)
		} else if text, code := server.upgrade(t); code != 0 {
			t.Errorf("exit code %d, %q", code, text)
		}
		pid = server.awaitWorker(t, pid)
		server.awaitKeeper(t, path)
		tethertest.Eventually(t, func() error {
			if state := server.state(t); state.WorkerPID != pid || !state.SameProgram || state.Deaths != 0 {
				return fmt.Errorf("%+v", state)
			}
			return nil
		})
	}
	server.stop(t)
}

// Only the user of a server may upgrade it. A client over TCP may belong to any user, and is told what to do.
func TestUpgradeIsForTheUserOfTheServer(t *testing.T) {
	t.Parallel()
	server := startKept(t)
	pid := server.awaitWorker(t, 0)
	text, code := server.upgrade(t, "--to", variant(t, "version-second"))
	if code != 1 || !strings.Contains(text, "only the user of the server") || !strings.Contains(text, fmt.Sprintf("SIGHUP to process %d", server.Process.Pid)) {
		t.Errorf("exit code %d, %q", code, text)
	}
	if now := server.worker(); now != pid {
		t.Errorf("worker %d was replaced by %d", pid, now)
	}
	server.stop(t)
}

// A server tells the service manager that it is ready, and commands do not get its socket. When its workers die, `tether ps` says
// so, and when none can be started, the keeper leaves a notice.
func TestKeeperTells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	server := startKept(t, "NOTIFY_SOCKET="+filepath.Join(dir, "notify"))
	text := make([]byte, 100)
	n, err := manager.Read(text)
	if want := fmt.Sprintf("READY=1\nMAINPID=%d", server.Process.Pid); err != nil || string(text[:n]) != want {
		t.Errorf("the service manager was told %q, %v", text[:n], err)
	}
	if out, code := server.tether(t, "run", "--url", server.url, "--", "sh", "-c", "echo $NOTIFY_SOCKET"); code != 0 || out != "\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
	if out, code := server.tether(t, "ps", "--url", server.url); code != 0 || strings.Contains(out, "died") {
		t.Errorf("exit code %d, %q", code, out)
	}
	server.killWorker(t)
	if out, code := server.tether(t, "ps", "--url", server.url); code != 0 || !strings.Contains(out, "have died: 1;") || !strings.Contains(out, "it ended unexpectedly (exit status 137)") {
		t.Errorf("exit code %d, %q", code, out)
	}
	server.stop(t)
}

// When no worker can be started any more, the keeper leaves a notice for programs that get no answer.
func TestNoticeOfWorkerThatCannotStart(t *testing.T) {
	t.Parallel()
	if err := keep.Probe(); err != nil {
		need.CannotRun(t, "there is no keeper on this machine: %v", err)
	}
	dir := t.TempDir()
	startTetherEnv(t, []string{"XDG_STATE_HOME=" + dir, crash.Variable + "=keep.ready:1"}, "serve", "--keeper").line(t)
	tethertest.Eventually(t, func() error {
		if notices := statedir.Notices(filepath.Join(dir, "tether")); len(notices) != 1 || !strings.Contains(notices[0], "the worker cannot be started: commands keep running") {
			return fmt.Errorf("%q", notices)
		}
		return nil
	})
}
