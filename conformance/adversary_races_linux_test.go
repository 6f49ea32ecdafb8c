package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// Bounds of the race attacks. An attack that can succeed usually does so early.
var (
	raceStarts = tethertest.Scaled(80, 240)
	raceTime   = tethertest.Scaled(4*time.Second, 15*time.Second)
)

// raceAtOnce is how many commands of a race run at the same time.
const raceAtOnce = 4

// raceTargets are where the link leads, the last two to names that bubblewrap uses
// while it works. racePauses are how long the swapper waits between two swaps, at
// most: about as long as a start takes, longer, and not at all.
var (
	raceTargets = []string{"$OUT", "../out", "$OUT", "../../../../../../../../../..$OUT", "/proc/1/root$OUT", "$OUT", "/oldroot$OUT", "/newroot$OUT"}
	racePauses  = []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 0}
)

// keyText is the content of a denied file in the workspace.
const keyText = "key text\n"

// racePolicies returns policies that restrict $WS/sub in different ways. None of them shows $OUT.
func racePolicies() []policyCase {
	return []policyCase{
		{"read", minimalWrite().with(at("$WS/sub", "read"))},
		{"deny", minimalWrite().deny("$WS/sub/key")},
		{"deny-both", workspaceOnly().deny("$OUT").deny("$WS/sub/key")},
		{"read-network", workspaceOnly().net().deny("$OUT").with(at("$WS/sub/in", "read"))},
	}
}

// readSecrets is a script that tries every path to $OUT and to the denied file.
const readSecrets = `cat sub/secret.txt other/secret.txt $OUT/secret.txt sub/key other/key
for f in sub/n sub/in/n other/n $OUT/n $OUT/in/n; do echo x > $f; done 2>/dev/null; true`

// A command swaps a directory and a link while other commands are started whose
// policies name that directory.
func TestAdversarySymlinkRace(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		deadline := time.Now().Add(raceTime)
		for i, target := range raceTargets {
			fx, s := attackServer(t, a, func(fx *fixture) {
				fx.mkdir("$WS/sub/in")
				fx.write("$WS/sub/key", keyText)
				fx.symlink(target, "$WS/other")
			})
			strays := 0
			r := race{scriptRunner: s, t: t, deadline: deadline, pause: racePauses[i%len(racePauses)]}
			r.run(racePolicies(), raceStarts/len(raceTargets), func(c policyCase, o outcome) {
				if strings.Contains(o.all, secretText) {
					t.Errorf("%s, link to %s: the secret was read: %q", c.name, target, o.all)
				}
				if strings.HasPrefix(c.name, "deny") && strings.Contains(o.all, keyText) {
					t.Errorf("%s, link to %s: the denied file was read: %q", c.name, target, o.all)
				}
				strays += r.strays()
				if !strings.HasPrefix(target, oldRoot) { // below oldRoot, another start may make one at this moment
					fx.intact(t)
				}
			})
			t.Logf("link to %s: %d ran, %d refused, seen as link %d times, as directory %d times, strays %d", target, r.ran, r.refused, r.links, r.dirs, strays)
			if r.dirs == 0 {
				t.Error("the name was never seen as a directory")
			}
			tethertest.Eventually(t, func() error { return s.leftovers(fx) })
			tethertest.Eventually(t, fx.clean)
			strays += r.strays()
			fx.intact(t)
			if strays > 0 && !strings.HasPrefix(target, oldRoot) {
				t.Errorf("link to %s: %d times an empty mount point was made outside, of the name that the policy restricts", target, strays)
			}
		}
	})
}

// oldRoot is the path under which bubblewrap sees the host while it builds a sandbox. A link to it makes bubblewrap create
// empty mount points on the host (TestAdversaryOldRoot). Existing files do not change, and the stage refuses the sandbox.
const oldRoot = "/oldroot"

// strays removes empty mount points that were made in $OUT, and returns how many it found.
func (r *race) strays() (n int) {
	for _, name := range []string{"key", "in"} {
		info, err := os.Lstat(r.fx.out + "/" + name)
		if err != nil {
			continue
		}
		if !info.IsDir() && info.Size() > 0 {
			r.t.Errorf("there is text in %s", name)
		}
		r.fx.check(os.Remove(r.fx.out + "/" + name)) // fails if a directory is not empty
		n++
	}
	return n
}

// A link to the path under which bubblewrap sees the host makes it leave an empty file or directory there, and nothing else.
// No plan can prevent that (docs/sandbox.md).
func TestAdversaryOldRoot(t *testing.T) {
	fx := newFixture(t, suite.accounts[0])
	fx.check(os.Remove(fx.ws + "/sub"))
	fx.symlink(oldRoot+"$OUT", "$WS/sub")
	fx.mkdir("$WS/source")
	fx.addAttackPrograms()
	out, err := exec.Command("bwrap", "--ro-bind", "/", "/", "--bind", fx.ws, fx.ws, "--ro-bind", fx.ws+"/source", fx.ws+"/sub/in", "--",
		"sh", "-c", `cat "$0"/sub/secret.txt; echo x > "$0"/sub/n; echo x > "$0"/sub/in/n`, fx.ws).CombinedOutput()
	if left := os.Remove(fx.out + "/in"); left == nil {
		t.Logf("bubblewrap has left an empty directory (%v, %s)", err, out)
	}
	if strings.Contains(string(out), secretText) {
		t.Errorf("the secret was read: %s", out)
	}
	fx.intact(t)
}

// A race starts commands while another command swaps a directory and a link.
type race struct {
	*scriptRunner
	t                         *testing.T
	deadline                  time.Time
	pause                     time.Duration
	ran, refused, links, dirs int
}

// run starts n commands, each under the next policy, and judges their outcomes.
func (r *race) run(policyCases []policyCase, n int, judge func(policyCase, outcome)) {
	r.t.Helper()
	swapper := r.script(r.t, workspaceOnly(), fmt.Sprintf(`exec "$ADV" swap sub other %d`, r.pause.Microseconds()))
	swapper.says(r.t, "ready")
	r.awaitSwap()
	type running struct {
		policyCase policyCase
		process    *process
	}
	var waiting []running
	finish := func(down int) {
		for len(waiting) > down {
			judge(waiting[0].policyCase, waiting[0].process.finish(r.t))
			waiting = waiting[1:]
		}
	}
	for i := 0; i < n && (time.Now().Before(r.deadline) || i < len(policyCases)); i++ {
		r.look()
		c := policyCases[i%len(policyCases)]
		p, err := r.try(c.policy, readSecrets)
		if err := refusedOr(err); errors.Is(err, errRefused) {
			r.refused++
			continue
		} else if err != nil {
			r.t.Fatal(err)
		}
		r.ran++
		waiting = append(waiting, running{c, p})
		finish(raceAtOnce - 1)
	}
	finish(0)
	swapper.terminate(r.t)
	if o := swapper.finish(r.t); strings.Contains(o.all, "swap: ") && !strings.Contains(o.all, "EXDEV") {
		r.t.Logf("the swapper said %.200q", o.all)
	}
}

// awaitSwap waits until the name has been seen as a link.
func (r *race) awaitSwap() {
	r.t.Helper()
	tethertest.Eventually(r.t, func() error {
		info, err := os.Lstat(r.fx.ws + "/sub")
		if err == nil && info.IsDir() {
			err = errors.New("the names are not swapped")
		}
		return err
	})
}

// look waits until the name is a directory, so that the link comes when the server
// no longer expects it, and counts how the name was seen.
func (r *race) look() {
	for end := time.Now().Add(time.Second); time.Now().Before(end); runtime.Gosched() {
		info, err := os.Lstat(r.fx.ws + "/sub")
		if err != nil {
			r.t.Fatal(err)
		}
		if info.IsDir() {
			r.dirs++
			return
		}
		r.links++
	}
}

// bubblewrap binds the target of a link, so a command that wins the race above would see it.
func TestAdversarySymlinkControl(t *testing.T) {
	fx := newFixture(t, suite.accounts[0])
	fx.check(os.Remove(fx.ws + "/sub"))
	fx.symlink("$OUT", "$WS/sub")
	fx.mkdir("$FX/show")
	out, err := exec.Command("bwrap", "--ro-bind", "/", "/", "--bind", fx.ws+"/sub", fx.dir+"/show", "--", "sh", "-c", `cat "$0"/secret.txt && echo x > "$0"/n`, fx.dir+"/show").CombinedOutput()
	if err != nil || string(out) != secretText {
		t.Errorf("%v, %s", err, out)
	}
	if text, err := os.ReadFile(fx.out + "/n"); err != nil || string(text) != "x\n" {
		t.Errorf("%q (%v)", text, err)
	}
}

// A link that a command has planted in a writable directory does not become a
// writable directory for the next one, although the policy names it.
func TestAdversaryPlantedLink(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		p := workspaceOnly().with(at("$WS/sub", "write"))
		s.output(t, workspaceOnly(), `rmdir sub && ln -s $OUT sub`)
		c, err := s.try(p, `echo x > $OUT/n; echo x > sub/m; true`)
		if err := refusedOr(err); errors.Is(err, errRefused) {
			t.Log(err)
		} else if err != nil {
			t.Fatal(err)
		} else {
			wants(t, fx, c.finish(t), nil)
		}
		fx.intact(t)
	})
}

// Mount points that a sandbox needed are removed even if their directory was moved meanwhile.
func TestAdversaryMovedPlaceholder(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		held := s.script(t, workspaceOnly().with(at("$WS/sub", "write")), `echo ready; read line; mkdir sub/.git`, map[string]any{"pipeStdin": true})
		held.says(t, "ready")
		mover := s.output(t, workspaceOnly(), `mv sub moved && ln -s $OUT sub && ls -A moved; mkdir moved/.git`)
		wants(t, fx, mover, nil)
		held.write(t, "go\n")
		held.finish(t)
		fx.intact(t)
		row{}.checkHost(t, fx, s.instance)
	})
}

// A command tries to make a protected name at the moment when the last sandbox that holds its placeholder ends.
func TestAdversaryPlaceholderExit(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		deadline := time.Now().Add(raceTime)
		for i := 0; i < 100 && time.Now().Before(deadline); i++ {
			// The shell ends while the other process runs its loop; the end of process 1 ends that too.
			o := s.output(t, workspaceOnly(), `"$ADV" spin .git > said & "$ADV" spin .codex > /dev/null & while ! test -s said; do :; done`)
			if strings.Contains(o.all, "ESCAPED") || o.exit != 0 {
				t.Fatalf("round %d: %+v", i, o)
			}
			noneOfTheNames(t, fx, fmt.Sprintf("round %d", i))
			if text := fx.read("$WS/said"); strings.Contains(text, "ESCAPED") {
				t.Fatalf("round %d: %q", i, text)
			}
			fx.check(os.Remove(fx.ws + "/said"))
		}
		row{}.checkHost(t, fx, s.instance)
	})
}

// noneOfTheNames checks that none of the protected names exists, neither in its place nor moved.
func noneOfTheNames(t *testing.T, fx *fixture, when string) {
	t.Helper()
	for _, name := range []string{".git", ".codex", ".git.moved", ".codex.moved"} {
		if info, err := os.Lstat(fx.ws + "/" + name); err == nil {
			t.Fatalf("%s: %s is on the host: %v", when, name, info.Mode())
		}
	}
}

// As above, while sandboxes that share the protected names start and end.
func TestAdversaryPlaceholderRace(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		spinners := []*process{
			s.script(t, workspaceOnly(), `exec "$ADV" spin .git`),
			s.script(t, workspaceOnly().net(), `exec "$ADV" spin .aws`),
		}
		for _, p := range spinners {
			p.says(t, "ready")
		}
		deadline := time.Now().Add(raceTime)
		refused := 0
		for i := 0; i < 60 && time.Now().Before(deadline); i++ {
			p, err := s.try(workspaceOnly(), `mkdir -p .git/hooks .aws/x; echo x > .git/hooks/v && echo ESCAPED; mv .git .git2 && echo ESCAPED; true`)
			if err := refusedOr(err); errors.Is(err, errRefused) {
				refused++
				t.Logf("round %d: %v", i, err)
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if o := p.finish(t); strings.Contains(o.all, "ESCAPED") {
				t.Fatalf("round %d: %q", i, o.all)
			}
			for _, name := range []string{".git", ".aws"} {
				if names, err := os.ReadDir(fx.ws + "/" + name); err != nil || len(names) > 0 {
					t.Fatalf("round %d: %s on the host has %v (%v)", i, name, names, err)
				}
			}
		}
		if refused > 0 {
			t.Errorf("%d starts were refused, although no process could change anything", refused)
		}
		for _, p := range spinners {
			p.terminate(t)
			if o := p.finish(t); strings.Contains(o.all, "ESCAPED") {
				t.Errorf("the attacking loop: %q", o.all)
			}
		}
		row{}.checkHost(t, fx, s.instance)
		noneOfTheNames(t, fx, "at the end")
	})
}

// Without a sandbox the attacking loop makes its file, so the tests above can fail.
func TestAdversaryPlaceholderControl(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		_, s := attackServer(t, a)
		p := s.script(t, unconfined(), `exec "$ADV" spin .git`)
		p.says(t, "ESCAPED hook")
		p.terminate(t)
		p.finish(t)
	})
}
