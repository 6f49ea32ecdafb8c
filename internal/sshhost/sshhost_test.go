package sshhost

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// shells are login shells. Those that are not installed are left out, except sh.
var shells = map[string][]string{
	"sh": {"sh"}, "dash": {"dash"}, "bash": {"bash"}, "busybox": {"busybox", "sh"}, "zsh": {"zsh"}, "csh": {"bsd-csh"}, "tcsh": {"tcsh"}, "fish": {"fish"}, "ksh": {"ksh"},
}

// A home is the account of a test. Its programs print their own path and their arguments.
type home struct {
	t    *testing.T
	dir  string
	env  []string
	path string // a directory of PATH
}

func newHome(t *testing.T) *home {
	h := &home{t: t, dir: t.TempDir(), path: t.TempDir()}
	h.env = []string{"HOME=" + h.dir, "PATH=" + h.path + ":/usr/bin:/bin"}
	return h
}

func (h *home) put(path string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := executable.Write(path, []byte("#!/bin/sh\necho \"$0 $*\"\n")); err != nil {
		h.t.Fatal(err)
	}
}

// login executes a command as sshd does with a login shell.
func (h *home) login(shell []string, command string) (out string, code int) {
	h.t.Helper()
	cmd := exec.Command(shell[0], append(shell[1:len(shell):len(shell)], "-c", command)...)
	cmd.Env = h.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, exited := errors.AsType[*exec.ExitError](err); !exited {
			h.t.Fatal(err)
		}
	}
	return stdout.String() + stderr.String(), cmd.ProcessState.ExitCode()
}

// Each login shell finds the program in the order of Bridge.
func TestBridgeFindsTheProgram(t *testing.T) {
	t.Parallel()
	const version = "1.2+3/four five"
	command := Bridge(version)
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skipf("%s is not installed", shell[0])
			}
			h := newHome(t)
			want := func(out string, code int) {
				t.Helper()
				if got, ended := h.login(shell, command); got != out || ended != code {
					t.Errorf("%q, %d, want %q, %d", got, ended, out, code)
				}
			}
			want("\nthere is no tether on this machine\n", Missing)
			runtime := t.TempDir()
			h.env = append(h.env, "XDG_RUNTIME_DIR="+runtime)
			fallback := filepath.Join(runtime, "tether-bin", Dir(version), "tether")
			h.put(fallback)
			want("\n"+fallback+" bridge\n", 0)
			h.put(filepath.Join(h.path, "tether"))
			want("\n"+filepath.Join(h.path, "tether")+" bridge\n", 0)
			own := filepath.Join(h.dir, ".cache", "tether", Dir(version), "tether")
			h.put(own)
			want("\n"+own+" bridge\n", 0)
			h.env = append(h.env, "XDG_CACHE_HOME="+filepath.Join(h.dir, "a b"))
			own = filepath.Join(h.dir, "a b", "tether", Dir(version), "tether")
			h.put(own)
			want("\n"+own+" bridge\n", 0)
		})
	}
}

// A program in a directory that another user may have made is not executed.
func TestBridgeRefusesOpenDirectories(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(dir string) error{
		"writable": func(dir string) error { return os.Chmod(dir, 0o770) },
		"readable": func(dir string) error { return os.Chmod(dir, 0o755) },
		"link": func(dir string) error {
			if err := os.Rename(dir, dir+"-moved"); err != nil {
				return err
			}
			return os.Symlink(dir+"-moved", dir)
		},
		"of another user": func(dir string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(dir, 0o777)
			}
			return os.Chown(dir, 4096, os.Getgid())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, runtime := newHome(t), t.TempDir()
			h.env = append(h.env, "XDG_RUNTIME_DIR="+runtime)
			h.put(filepath.Join(runtime, "tether-bin", Dir("1"), "tether"))
			if err := change(filepath.Join(runtime, "tether-bin")); err != nil {
				t.Fatal(err)
			}
			if out, code := h.login([]string{"sh"}, Bridge("1")); code != Missing {
				t.Errorf("%q, %d", out, code)
			}
		})
	}
}

// The command fits into a word of each shell, and has no character that a shell interprets between quotes.
func TestBridgeIsAPlainWord(t *testing.T) {
	t.Parallel()
	command := Bridge(strings.Repeat("v'\\!\n", 100))
	script, _ := strings.CutPrefix(command, "exec sh -c '")
	script = strings.TrimSuffix(script, "'")
	if len(command) > maxWord || strings.ContainsAny(script, "'\\!\n") || !strings.Contains(script, fmt.Sprint("exit ", Missing)) {
		t.Errorf("%d bytes: %s", len(command), command)
	}
}

func TestDir(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"1.2.3": "1.2.3", "v1-4-gabc-dirty": "v1-4-gabc-dirty", "..": "_..", "a/b c": "a_b_c", "": "_"} {
		if got := Dir(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}
