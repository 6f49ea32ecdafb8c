package conformance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// viewed are the paths whose use is compared.
var viewed = []string{
	"$WS", "$WS/a.txt", "$WS/sub", "$WS/sub/deep", "$WS/sub/deep/f.env", "$WS/sub/g.env", "$WS/.git", "$WS/missing", "$WS/link",
	"$OUT", "$OUT/secret.txt", "$FX", "$FX/extra", "$FX/extra/in/er", "/", "/usr", "/usr/bin/env", "/etc", "/etc/passwd", "/tmp", "/var/tmp",
	"/dev", "/dev/null", "/dev/zero", "/dev/tty", "/dev/shm", "/dev/pts", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/environ", "/sys", "/run", "/root",
}

// differences are those between the backends that are meant to be: a native sandbox shows the command less.
var differences = []*regexp.Regexp{
	// For a user, bubblewrap makes two user namespaces, one in the other.
	regexp.MustCompile(`^[ug]id_map: `),
	// Process 1 of a native sandbox cannot be looked into.
	regexp.MustCompile(`^/proc/1/environ: `),
	// The devices are read-only mounts for every user. bubblewrap lets only root's be changed so: EROFS instead of EPERM.
	regexp.MustCompile(`^mount /dev/(null|zero|full|random|urandom|tty): `),
	regexp.MustCompile(`^/dev/(null|zero|tty): (chmod|mode)`),
}

// randomPolicy makes a policy of entries that overlap.
func randomPolicy(r *rand.Rand) policy {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	p := files(special(pick("root", "root", "root", "minimal"), pick("read", "read", "read", "write")), special("project_roots", pick("write", "write", "read")))
	p = p.deny("$FX/never") // so that there is always something to confine
	for range r.IntN(6) {
		p = p.with(at(pick("$WS/sub", "$WS/sub/deep", "$WS/sub/deep/f.env", "$OUT", "$OUT/secret.txt", "$FX/extra", "$FX/extra/in", "$WS/missing", "/usr/share", "/etc"),
			pick("read", "write", "deny")))
	}
	if r.IntN(3) == 0 {
		p = p.with(glob("$WS/**/*.env", "deny"))
	}
	if r.IntN(3) == 0 {
		p = p.net()
	}
	return p
}

// In sandboxes of the same random policy, both backends let a command see and do the same.
func TestBackendsAgree(t *testing.T) {
	if suite.others == nil {
		t.Skip("only one backend is tested")
	}
	rounds := tethertest.Scaled(6, 100)
	for i, a := range suite.accounts {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for round := range rounds {
				seed := uint64(round)
				if tethertest.Soak() {
					seed = rand.Uint64()
				}
				agree(t, a, suite.others[i], seed)
			}
		})
	}
}

func agree(t *testing.T, a, b *account, seed uint64) {
	t.Helper()
	fx := attackFixture(t, a, func(fx *fixture) {
		fx.write("$WS/sub/deep/f.env", "x")
		fx.write("$WS/sub/g.env", "x")
		fx.write("$FX/extra/in/er", "x")
		fx.mkdir("$FX/never")
		fx.symlink("$OUT", "$WS/link")
	})
	p := randomPolicy(rand.New(rand.NewPCG(seed, 1)))
	var views [2][]string
	for i, account := range []*account{a, b} {
		s := &scriptRunner{instance: account.acquire(t), fx: fx}
		var names []string
		for _, name := range viewed {
			names = append(names, fx.path(name))
		}
		script := "exec $PROBE view " + strings.Join(names, ":")
		command, err := s.try(p, script, map[string]any{"processId": fmt.Sprint("view-", seed, "-", i, fx.mark)})
		if err != nil {
			views[i] = []string{"refused"}
			t.Logf("seed %d: %s refuses: %v", seed, account.name, err)
			continue
		}
		o := command.finish(t)
		views[i] = normal(strings.Split(strings.ReplaceAll(o.stdout, account.dir+"/state", "$STATE"), "\n"))
		if o.exit != 0 && o.exit != 126 && o.exit != 127 {
			t.Errorf("seed %d: the probe ended with %d: %s", seed, o.exit, o.all)
		}
		if o.exit != 0 {
			views[i] = append(views[i], fmt.Sprint("exit ", o.exit))
		}
	}
	compare(t, fx, seed, p, views)
}

// normal removes what is meant to differ.
func normal(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(differences, func(d *regexp.Regexp) bool { return d.MatchString(line) })
	})
}

func compare(t *testing.T, fx *fixture, seed uint64, p policy, views [2][]string) {
	t.Helper()
	for i, name := range []string{"native", "bubblewrap"} {
		for _, line := range views[i] {
			if !slices.Contains(views[1-i], line) {
				t.Errorf("seed %d: only in %s: %s", seed, name, line)
			}
		}
	}
	if t.Failed() {
		t.Fatalf("the policy is %s", fx.expand(p.wire()))
	}
}

// hostNamespaces are the namespaces of this process, as the probe compares them.
func hostNamespaces() string {
	var all []string
	links, _ := filepath.Glob("/proc/self/ns/*")
	for _, link := range links {
		target, _ := os.Readlink(link)
		all = append(all, target)
	}
	return strings.Join(all, " ")
}
