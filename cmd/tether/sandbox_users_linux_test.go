package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

// Two users run commands in a directory that all users may write, with the sticky bit, like /tmp.
// While one of the commands runs, protected names cannot be made there. When both have ended, in
// either order, no placeholder is left.
func TestTwoUsersLeaveNoPlaceholders(t *testing.T) {
	t.Parallel()
	need.Root(t, "to be two users")
	needBubblewrap(t)
	program := released(t)
	for name, try := range map[string]struct {
		makerIsLast bool
		command     []string // starts tether as the user; the profile follows
	}{
		"the maker ends last":                   {true, []string{"sandbox", "run", "--profile"}},
		"the maker ends first":                  {false, []string{"sandbox", "run", "--profile"}},
		"the maker has a server and ends first": {false, []string{"run", "-n", "--sandbox"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared, err := os.MkdirTemp("/var/tmp", "tether-shared-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(shared) })
			if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
				t.Fatal(err)
			}
			profile := filepath.Join(shared, "profile.json")
			text := fmt.Sprintf(`{"type":"managed","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
				{"path":{"type":"path","path":"%s"},"access":"write"}]},"network":"restricted"}`, wire.PathToURI(shared))
			if err := os.WriteFile(profile, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			maker := startAs(t, unprivileged, shared, append([]string{program}, append(try.command, profile)...))
			other := startAs(t, unprivileged+1, shared, []string{program, "sandbox", "run", "--profile", profile})
			first, second := maker, other
			if try.makerIsLast {
				first, second = other, maker
			}
			first.end()
			onlyFiles(t, shared, ".agents", ".aws", ".codex", ".git", fmt.Sprint(maker.uid), fmt.Sprint(other.uid), "profile.json")
			second.end() // its command finds that it still cannot make .git
			tethertest.Eventually(t, func() error {
				if left, err := filepath.Glob(shared + "/.*"); err != nil || len(left) > 0 {
					return fmt.Errorf("left: %q, %v", left, err)
				}
				return nil
			})
			tethertest.Eventually(t, func() error { return sweeperEnded(maker.home) })
		})
	}
}

// A sharedCommand runs in a sandbox until it is told to end.
type sharedCommand struct {
	t      *testing.T
	uid    int
	home   string
	gate   string // when it exists, the command tries to make .git, and ends
	cmd    *exec.Cmd
	output *bytes.Buffer
}

// startAs starts a command as a user in a shared directory, by argv, and waits until it runs.
func startAs(t *testing.T, uid int, shared string, argv []string) *sharedCommand {
	t.Helper()
	c := &sharedCommand{t: t, uid: uid, home: home(t, uid), output: new(bytes.Buffer)}
	c.gate = filepath.Join(c.home, "gate")
	running := filepath.Join(shared, fmt.Sprint(uid))
	script := fmt.Sprintf(`echo >%s; until test -e %s; do sleep 0.02; done; mkdir .git 2>/dev/null || touch .git/x 2>/dev/null || mv .git .gone 2>/dev/null || echo kept`, running, c.gate)
	c.cmd = exec.CommandContext(t.Context(), argv[0], append(argv[1:], "--", "sh", "-c", script)...)
	c.cmd.Dir = shared
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "XDG_STATE_HOME=" + c.home, "TMPDIR=/tmp"}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	tethertest.Eventually(t, func() error {
		_, err := os.Stat(running)
		return err
	})
	return c
}

// end lets the command end, and waits for it.
func (c *sharedCommand) end() {
	c.t.Helper()
	if err := os.WriteFile(c.gate, nil, 0o644); err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil || c.output.String() != "kept\n" {
		c.t.Errorf("the command of user %d: %v, %s", c.uid, err, c.output)
	}
}

// sweeperEnded reports whether no process is left that removes placeholders of a user whose
// state is in dir.
func sweeperEnded(dir string) error {
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "sweeper\x00") && strings.Contains(string(text), dir) {
			return fmt.Errorf("%s: %q", file, text)
		}
	}
	return err
}
