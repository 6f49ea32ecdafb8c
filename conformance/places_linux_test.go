package conformance

import (
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// Here workspaces lie in places, and below roots, that this machine does not have by itself.

// ownMounts gives the rest of the test, and the servers that it starts, mounts of their own. A test must not start subtests
// afterwards.
func ownMounts(t *testing.T) {
	t.Helper()
	need.Root(t, "to make mounts")
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and with it the mounts
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		need.CannotRun(t, "no mounts of its own: %v", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
}

// beside makes a directory $BESIDE, which does not belong to the files that the fixture hands over and looks through.
func (fx *fixture) beside() {
	fx.t.Helper()
	dir, err := os.MkdirTemp(suite.dir, "beside-")
	fx.check(err)
	fx.check(os.Chmod(dir, 0o755))
	fx.t.Cleanup(func() { // only empty directories: what is mounted there is gone
		names, _ := os.ReadDir(dir)
		for _, name := range names {
			os.Remove(dir + "/" + name.Name())
		}
		fx.check(os.Remove(dir))
	})
	fx.vars = map[string]string{"BESIDE": dir}
}

// mount mounts on a directory of the fixture, which it makes. It fails the test if that is not possible.
func (fx *fixture) mount(source, target, kind string, flags uintptr, options string) {
	fx.t.Helper()
	fx.mkdir(target)
	if err := unix.Mount(fx.path(source), fx.path(target), kind, flags, fx.path(options)); err != nil {
		fx.t.Fatalf("mount %s: %v", fx.path(target), err)
	}
	fx.t.Cleanup(func() { unix.Unmount(fx.path(target), unix.MNT_DETACH) })
}

// overlay mounts an overlay over a directory. Its upper layer is in memory.
func (fx *fixture) overlay(lower, target string) {
	fx.t.Helper()
	layers := target + "-layers"
	fx.mount("none", layers, "tmpfs", 0, "")
	fx.mkdir(layers + "/upper")
	fx.mkdir(layers + "/work")
	fx.mount("none", target, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%[2]s/upper,workdir=%[2]s/work", lower, layers))
}

// worksIn checks a command that may write in a workspace only.
func worksIn(t *testing.T, fx *fixture, s *instance, workspace string) {
	t.Helper()
	fx.write(workspace+"/a.txt", fileText)
	for _, name := range []string{workspace, workspace + "/a.txt"} {
		fx.check(os.Chown(fx.path(name), fx.account.uid, fx.account.gid))
	}
	path := (&url.URL{Path: fx.path(workspace)}).EscapedPath()
	p := s.mustStart(t, fx, row{
		policy: workspaceOnly().in(path).from(path), cwd: path, params: map[string]any{"processId": workspace + fx.mark},
		script: `cat a.txt && echo x > n && cat n; mkdir .git; echo x > $OUT/n`,
	})
	o := p.finish(t)
	row{exit: 2, denied: yes, out: []string{"^text of a$", "^x$", "mkdir: .*File exists", "out/n: " + textROFS}}.checkOutcome(t, fx, o)
	row{host: []string{"+" + workspace + "/n", "-" + workspace + "/.git", "-$OUT/n"}}.checkHost(t, fx, s)
	if t.Failed() {
		t.Fatalf("in %q", fx.path(workspace))
	}
}

// A workspace may lie on any file system and have any name.
func TestPlacesOfWorkspaces(t *testing.T) {
	eachBackend(t, func(t *testing.T, a *account) {
		ownMounts(t)
		fx := newFixture(t, a)
		fx.handOver()
		fx.mount("none", "$FX/tmpfs", "tmpfs", 0, "")
		fx.mkdir("$FX/elsewhere")
		fx.mount("$FX/elsewhere", "$FX/bind", "", unix.MS_BIND, "")
		fx.mkdir("$FX/lower")
		fx.overlay("$FX/lower", "$FX/overlay")
		fx.mkdir("$FX/real")
		fx.symlink("real", "$FX/link")
		s := a.own(t, a.argv(), nil)
		for _, workspace := range []string{"$FX/tmpfs", "$FX/bind", "$FX/overlay", "$FX/link", "$FX/sp ace", "$FX/new\nline"} {
			worksIn(t, fx, s, workspace)
		}
	})
}

// A machine with 2,000 mounts.
func TestManyMountsOfTheHost(t *testing.T) {
	eachBackend(t, func(t *testing.T, a *account) {
		ownMounts(t)
		fx := newFixture(t, a)
		fx.handOver()
		fx.beside()
		fx.mount("none", "$BESIDE/many", "tmpfs", 0, "")
		const rounds = 11
		for i := range rounds {
			fx.mkdir(fmt.Sprint("$BESIDE/many/", i))
		}
		for i := range rounds { // each doubles their number
			fx.mount("$BESIDE/many", fmt.Sprint("$BESIDE/many/", i), "", unix.MS_BIND|unix.MS_REC, "")
		}
		table, err := os.ReadFile("/proc/thread-self/mountinfo")
		fx.check(err)
		if n := strings.Count(string(table), "\n"); n < 2000 {
			t.Fatalf("only %d mounts", n)
		}
		s := a.own(t, a.argv(), nil)
		worksIn(t, fx, s, "$FX/ws")
	})
}

// The root directory is on overlayfs, as in a container.
func TestRootOnOverlay(t *testing.T) {
	eachBackend(t, func(t *testing.T, a *account) {
		ownMounts(t)
		fx := newFixture(t, a)
		fx.handOver()
		fx.beside()
		fx.overlay("/", "$BESIDE/root")
		for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", suite.dir} {
			fx.mount(dir, "$BESIDE/root"+dir, "", unix.MS_BIND|unix.MS_REC, "")
		}
		for _, err := range []error{
			unix.Chdir(fx.path("$BESIDE/root")), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), unix.Chdir("/"),
		} {
			fx.check(err)
		}
		var st unix.Statfs_t
		fx.check(unix.Statfs("/", &st))
		if st.Type != unix.OVERLAYFS_SUPER_MAGIC {
			t.Fatalf("the root directory is of type %#x", st.Type)
		}
		s := a.own(t, a.argv(), nil)
		worksIn(t, fx, s, "$FX/ws")
		p := s.mustStart(t, fx, row{policy: minimalWrite(), script: `cat a.txt; cat $OUT/secret.txt`})
		row{exit: 1, out: []string{"^text of a$", "secret.txt: " + textNOENT}}.checkOutcome(t, fx, p.finish(t))
	})
}

// A plan with 500 entries.
func TestManyEntries(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		const each = 250
		fx, s := newFixture(t, a), a.acquire(t)
		p := workspaceOnly()
		for i := range each {
			fx.mkdir(fmt.Sprintf("$WS/r%d", i))
			fx.mkdir(fmt.Sprintf("$WS/d%d", i))
			p = p.with(at(fmt.Sprintf("$WS/r%d", i), "read"), at(fmt.Sprintf("$WS/d%d", i), "deny"))
		}
		for _, i := range []int{0, each - 1} {
			fx.write(fmt.Sprintf("$WS/r%d/f", i), fileText)
			fx.write(fmt.Sprintf("$WS/d%d/f", i), secretText)
		}
		fx.handOver()
		command := s.mustStart(t, fx, row{policy: p, script: `echo x > n && cat r*/f | wc -l; for d in r0 r249 d0 d249; do (echo x > $d/n) 2>/dev/null && echo written; done; cat d0/f d249/f`})
		row{exit: 1, denied: yes, out: []string{`^\s*2$`}, not: []string{"written", strings.TrimSpace(secretText)}}.checkOutcome(t, fx, command.finish(t))
		row{host: []string{"+$WS/n"}}.checkHost(t, fx, s)
	})
}

// A workspace is deleted or moved while a sandbox starts: the command is in that workspace or does not run, and nothing is left.
func TestDeletedWorkspace(t *testing.T) {
	eachBackend(t, func(t *testing.T, a *account) {
		fx, s := newFixture(t, a), a.acquire(t)
		fx.handOver()
		refused := 0
		for i := range tethertest.Scaled(8, 100) {
			gone := fmt.Sprint("$FX/gone", i)
			fx.mkdir(gone)
			fx.check(os.Chown(fx.path(gone), a.uid, a.gid))
			err := startWithout(t, fx, s, gone, i)
			if err != nil {
				refused++
				if !strings.Contains(err.Error(), fx.path(gone)) {
					t.Errorf("the refusal does not name the workspace: %v", err)
				}
			}
			row{host: []string{"-$OUT/n"}}.checkHost(t, fx, s)
			fx.check(os.RemoveAll(fx.path(gone)))
			fx.check(os.RemoveAll(fx.path("$FX/away")))
		}
		t.Logf("%d starts were refused", refused)
		worksIn(t, fx, s, "$WS")
	})
}

// startWithout starts a command in a workspace that is taken away meanwhile: at once, or when the sandbox holds a name in it.
func startWithout(t *testing.T, fx *fixture, s *instance, workspace string, round int) error {
	t.Helper()
	held := []string{"", "/.git", "/.codex", "/.aws"}[round%4]
	r := row{policy: workspaceOnly().in(workspace).from(workspace), cwd: workspace, script: `echo x > n; echo x > $OUT/n`,
		params: map[string]any{"processId": workspace + fx.mark}}
	type answer struct {
		*process
		error
	}
	answered := make(chan answer, 1)
	go func() { // ends with the answer
		p, err := s.start(r.start(fx))
		answered <- answer{p, err}
	}()
	var got *answer
	for got == nil {
		if _, err := os.Lstat(fx.path(workspace + held)); err == nil {
			break
		}
		select {
		case a := <-answered:
			got = &a
		default:
			runtime.Gosched()
		}
	}
	if round%8 < 4 || s.account.backend == "bwrap" { // bubblewrap makes names again that are removed (docs/sandbox.md)
		fx.check(os.Rename(fx.path(workspace), fx.path("$FX/away")))
	} else {
		os.RemoveAll(fx.path(workspace)) // a sandbox may make names in it meanwhile
	}
	if got == nil {
		a := <-answered
		got = &a
	}
	if got.error == nil {
		got.finish(t)
	}
	return got.error
}
