package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ordinary returns the account that is not root.
func ordinary(t *testing.T) *account {
	t.Helper()
	a := suite.accounts[len(suite.accounts)-1]
	if a.root() {
		t.Skip("needs a user that is not root")
	}
	return a
}

// notForReference skips a test in which the reference differs.
func notForReference(t *testing.T, why string) {
	t.Helper()
	if suite.server.Reference {
		t.Skip("the reference differs: " + why)
	}
}

// outerSandbox returns the command line of a server inside a bubblewrap that changes nothing but what the options say. The
// server ends with bubblewrap, which does not pass signals on.
func outerSandbox(a *account, options ...string) []string {
	return append(append([]string{"bwrap", "--die-with-parent", "--dev-bind", "/", "/"}, options...), append([]string{"--"}, a.argv()...)...)
}

// refuses checks that the server refuses commands that need namespaces, with this advice, and runs commands that need none.
func refuses(t *testing.T, s *instance, problem, advice string) {
	t.Helper()
	fx := newFixture(t, s.account)
	fx.handOver()
	for _, p := range []policy{readOnly(), workspaceOnly(), minimalWrite().net()} {
		_, err := s.start(row{policy: p, script: `echo x > $WS/n`}.start(fx))
		row{fails: &failure{invalidParams, "^failed to prepare process sandbox: .*" + problem}}.checkFailure(t, err)
		if err != nil && !regexp.MustCompile(advice).MatchString(err.Error()) {
			t.Errorf("the refusal gives no advice like %s: %v", advice, err)
		}
	}
	filtered := s.mustStart(t, fx, row{policy: unrestricted(), script: `echo x > $OUT/n; $PROBE socket inet stream`, params: map[string]any{"processId": "un"}})
	row{exit: 1, denied: no, out: []string{"EPERM"}}.checkOutcome(t, fx, filtered.finish(t))
	free := s.mustStart(t, fx, row{policy: unconfined(), script: `true`, params: map[string]any{"processId": "none"}})
	row{}.checkOutcome(t, fx, free.finish(t))
	row{host: []string{"-$WS/n", "+$OUT/n"}}.checkHost(t, fx, s)
}

// A machine without bubblewrap: native sandboxes work, and are used unless bubblewrap was asked for.
func TestBubblewrapMissing(t *testing.T) {
	notForReference(t, "it brings its own")
	eachAccount(t, func(t *testing.T, a *account) {
		real, err := exec.LookPath("bwrap")
		if err != nil {
			t.Fatal(err)
		}
		if real, err = filepath.EvalSymlinks(real); err != nil {
			t.Fatal(err)
		}
		for _, backend := range []string{"bwrap", "auto"} {
			a := &account{name: a.name, uid: a.uid, gid: a.gid, dir: a.dir, backend: backend}
			s := a.own(t, outerSandbox(a, "--ro-bind", "/dev/null", real), nil)
			if backend == "bwrap" {
				refuses(t, s, "bubblewrap", "(?i)install")
				continue
			}
			fx := newFixture(t, a)
			fx.handOver()
			p := s.mustStart(t, fx, row{policy: workspaceOnly(), script: `echo x > $WS/n; echo x > $OUT/n`})
			row{exit: 2, denied: yes, host: []string{"+$WS/n", "-$OUT/n"}}.checkOutcome(t, fx, p.finish(t))
		}
	})
}

// H02: namespaces are forbidden by a system call filter, as in a container.
func TestNamespacesForbiddenByFilter(t *testing.T) {
	notForReference(t, "the command is started and exits 1")
	eachAccount(t, func(t *testing.T, a *account) {
		s := a.own(t, append(withFilter(t, a, callFilter{unix.SYS_UNSHARE: unix.EPERM, unix.SYS_MOUNT: unix.EPERM, unix.SYS_CLONE: unix.EPERM}), a.argv()...), nil)
		refuses(t, s, "", "(?i)namespaces.*container")
	})
}

// H03: the number of user namespaces is limited to none. A server of root needs none.
func TestNoUserNamespacesLeft(t *testing.T) {
	notForReference(t, "the command is started and exits 1")
	eachBackend(t, func(t *testing.T, a *account) {
		ids := []syscall.SysProcIDMap{{ContainerID: a.uid, HostID: a.uid, Size: 1}}
		attr := &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: ids, GidMappings: ids,
			AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE},
		}
		limited := `echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --ambient-caps=-all --inh-caps=-all -- "$0" "$@"`
		if a.root() {
			ids[0].Size, attr.AmbientCaps = 1<<16, nil
			limited = `echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"`
		}
		s := a.own(t, append([]string{"/bin/sh", "-c", limited}, a.argv()...), attr)
		if !a.root() {
			refuses(t, s, "", "max_user_namespaces")
			return
		}
		confines(t, s)
	})
}

// H04: a procfs cannot be mounted, because parts of the existing one are hidden. The command then sees the existing one.
func TestProcNotMountable(t *testing.T) {
	a := ordinary(t)
	s := a.own(t, outerSandbox(a, "--tmpfs", "/proc/fs", "--unshare-user"), nil)
	fx := newFixture(t, a)
	fx.handOver()
	p := s.mustStart(t, fx, row{policy: workspaceOnly(), script: `echo x > $WS/n; test -d /proc/self && echo proc; (: >> /proc/sys/kernel/core_pattern); (: >> /proc/self/comm); echo x > $OUT/n`})
	row{exit: 2, denied: yes, out: []string{"^proc$", "core_pattern: (" + textROFS + "|" + textACCES + ")", "comm: " + textROFS, "out/n: " + textROFS}}.checkOutcome(t, fx, p.finish(t))
	row{host: []string{"+$WS/n", "-$OUT/n"}}.checkHost(t, fx, s)
}

// H05: the workspace belongs to another user.
func TestWorkspaceOfAnotherUser(t *testing.T) {
	notForReference(t, "the sandbox cannot be built")
	a := ordinary(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a workspace of another user")
	}
	fx, s := newFixture(t, a), a.acquire(t)
	fx.handOver()
	if err := os.Chown(fx.ws, 0, 0); err != nil {
		t.Fatal(err)
	}
	p := s.mustStart(t, fx, row{policy: workspaceOnly(), script: `cat a.txt; mkdir .git; echo x > n`})
	row{exit: 2, denied: yes, out: []string{"text of a", "mkdir: .*" + textACCES, "create n: " + textACCES}}.checkOutcome(t, fx, p.finish(t))
	row{host: []string{"-$WS/.git", "-$WS/n"}}.checkHost(t, fx, s)
}

// A start is answered while the command runs. How long it takes is logged.
func TestStartIsAnswered(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := newFixture(t, a), a.acquire(t)
		fx.handOver()
		for _, p := range []struct {
			name   string
			policy policy
		}{{"unconfined", unconfined()}, {"filtered", unrestricted()}, {"workspace-write", workspaceOnly()}} {
			began := time.Now()
			command := s.mustStart(t, fx, row{policy: p.policy, script: `read line; echo got $line`, params: map[string]any{"pipeStdin": true, "processId": fx.mark + "-" + p.name}})
			t.Logf("%s: answered after %v", p.name, time.Since(began).Round(time.Millisecond))
			command.write(t, "it\n")
			if o := command.finish(t); strings.TrimSpace(o.stdout) != "got it" {
				t.Errorf("%s: %+v", p.name, o)
			}
		}
		row{}.checkHost(t, fx, s)
	})
}
