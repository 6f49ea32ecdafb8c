package sandbox

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// dice makes choices from the bytes of a fuzz input; when they run out it
// always chooses the first.
type dice []byte

func (d *dice) roll(n int) int {
	if len(*d) == 0 {
		return 0
	}
	b := int((*d)[0])
	*d = (*d)[1:]
	return b % n
}

func (d *dice) pick(list ...string) string { return list[d.roll(len(list))] }

// path returns one of a few paths, so that rules collide.
func (d *dice) path() string {
	p := d.pick("/w", "/w", "/w", "/", "/tmp", "/usr", "/dev", "/dev/shm", "/proc", "/sys", "/run")
	for range d.roll(4) {
		p = path.Join(p, d.pick("a", "b", "c.env", ".git", "..", "l", "no"))
	}
	return p
}

func (d *dice) host(links bool) memHost {
	h := newHost("/tmp/ /usr/bin/sh /usr/lib/ /lib->usr/lib /dev/null /dev/shm/ /proc/sys/ /proc/1/ /sys/kernel/ /run/docker.sock= /w/a/b/")
	for range d.roll(12) {
		p := d.path()
		if _, err := h.Lstat(path.Dir(p)); err != nil || h[path.Dir(p)].mode.IsRegular() || within(p, "/dev") || within(p, "/proc") {
			continue
		}
		if at := newFinder(h, nil).find(p); at.exists() || at.gapAt != p || len(at.links) > 0 {
			continue
		}
		switch d.roll(6) {
		case 0, 1:
			h.put(p + "/")
		case 2:
			h.put(d.pick("", "~") + p + ":gitdir:_" + d.pick("a", "../b", "/w/a", "/usr"))
		case 3:
			h.put(p + "/!")
		case 4:
			if links {
				h.put(d.pick("", "~") + p + "->" + d.pick(d.path(), "a", "../b", "."))
			}
		case 5:
			h.put(p + "/+")
		}
	}
	return h
}

func (d *dice) entries(t *testing.T) []wire.SandboxEntry {
	var list []wire.SandboxEntry
	for range d.roll(8) {
		list = append(list, d.entry(t, d.pick("read", "write", "deny")))
	}
	return list
}

func (d *dice) entry(t *testing.T, access string) wire.SandboxEntry {
	name := d.pick("root", "minimal", "slash_tmp", "tmpdir", "roots", "roots/.git", "roots/a", "path", "path", "path", "path", "glob")
	switch name {
	case "path":
		name = d.path()
	case "glob":
		name = "glob:" + d.pick("/w/", "", symbolicGlob, "/tmp/") + d.pick("*.env", "**", "a*", "**/b", "{a,b}*/", "[a-c]", "*/*")
	}
	return entryOf(t, access+" "+name)
}

// FuzzCompile checks properties that hold for every intent on every machine;
// checkPlan has more of them.
func FuzzCompile(f *testing.F) {
	f.Add([]byte("a sandbox is a compiler"), true)
	f.Add([]byte{3, 0, 0, 0, 1, 9, 4, 2, 2, 7, 7, 7, 1, 1, 2, 0, 0, 9, 9, 9}, false)
	f.Fuzz(func(t *testing.T, data []byte, links bool) {
		d := dice(data)
		host := d.host(links)
		intent := intentOf(t, "", roots(t, "/w", d.path()))
		intent.Cwd = new(uri(t, "/w"))
		if d.roll(2) == 1 {
			network(intent)
		}
		process := Process{Env: []string{"TMPDIR=" + d.pick("/tmp", "/w/a", "rel", "/")}}
		process.NoProc = d.roll(4) == 1
		process.Covers = d.roll(2) == 1
		if d.roll(3) == 1 {
			process.Private = []string{d.path()}
		}
		entries := d.entries(t)
		intent.Permissions.FileSystem.Entries = entries
		policy, plan, err := compiled(host, intent, process)
		if err != nil {
			checkError(t, err)
			return
		}
		if !links {
			checkAgainstEntries(t, host, policy, plan, entries, process)
		}
		checkExisting(t, host, policy, plan)

		more := append(entries[:len(entries):len(entries)], d.entry(t, "deny"))
		intent.Permissions.FileSystem.Entries = more
		narrower, narrow, err := compiled(host, intent, process)
		if err != nil {
			checkError(t, err)
			return
		}
		for _, p := range append(probes(host, policy, plan), probes(host, narrower, narrow)...) {
			was, is := plan.Effect(p), narrow.Effect(p)
			// A missing path that becomes readable is still missing.
			if is > was && is > Private && (is == HostWritable || !missing(host, p)) {
				t.Fatalf("another deny made %s %v, was %v:\n%v\nbefore\n%v", p, is, was, narrow, plan)
			}
			a, _ := policy.Decide(p)
			if b, r := narrower.Decide(p); b > a {
				t.Fatalf("another deny made %s %v by %v, was %v", p, b, r, a)
			}
		}
	})
}

// checkError checks that a refusal has one of the promised types.
func checkError(t *testing.T, err error) {
	t.Helper()
	for _, as := range []any{new(*IntentError), new(*UnenforceableError), new(*CwdError)} {
		if errors.As(err, as) {
			return
		}
	}
	t.Fatal(err)
}

// checkExisting checks that the plan enforces all rules about existing paths,
// where a process sees the host at all.
func checkExisting(t *testing.T, host memHost, policy *Policy, plan *Plan) {
	t.Helper()
	for p := range host {
		if at := newFinder(host, nil).find(p); !at.exists() || at.path != p || within(p, "/dev") || within(p, "/proc") {
			continue
		}
		access, rule := policy.Decide(p)
		want := map[Access][]Effect{Deny: {Hidden, Private}, Read: {HostReadable}, Write: {HostWritable}}[access]
		got := plan.Effect(p)
		if got != want[0] && (len(want) == 1 || got != want[1]) {
			t.Fatalf("%s is %v by %q, but %v in\n%v", p, access, rule, got, plan)
		}
	}
}

// checkAgainstEntries compares with a second implementation of the rules, for
// a machine without links: the longest entry decides, then deny, then write.
func checkAgainstEntries(t *testing.T, host memHost, policy *Policy, plan *Plan, entries []wire.SandboxEntry, process Process) {
	t.Helper()
	if policy.FullWrite {
		return
	}
	for _, p := range probes(host, policy, plan) {
		if missing(host, p) {
			continue
		}
		long, best := -1, ""
		for _, e := range entries {
			for _, at := range named(host, e, policy, process) {
				if !within(p, at) {
					continue
				}
				n := len(at)
				if n > long || n == long && (e.Access == "deny" || e.Access == "write" && best == "read") {
					long, best = n, string(e.Access)
				}
			}
		}
		effect := plan.Effect(p)
		if best != "write" && effect == HostWritable ||
			best == "deny" && long > len("/") && effect == HostReadable {
			t.Fatalf("%s: entries say %q, but %v in\n%v", p, best, effect, plan)
		}
	}
}

// named returns the paths of an entry that is not a glob.
func named(host memHost, e wire.SandboxEntry, policy *Policy, process Process) []string {
	switch e.Path.Type {
	case wire.SandboxPathURI:
		p, _ := e.Path.Path.Native()
		return []string{path.Clean(p)}
	case wire.SandboxPathGlob:
		return nil
	}
	switch e.Path.Special.Kind {
	case wire.SpecialRoot:
		return []string{"/"}
	case wire.SpecialSlashTmp:
		return []string{"/tmp"}
	case wire.SpecialTmpdir:
		if p := strings.TrimPrefix(process.Env[0], "TMPDIR="); path.IsAbs(p) {
			return []string{p}
		}
	case wire.SpecialProjectRoots:
		var paths []string
		for _, r := range policy.rules.all {
			if r.Origin == FromEntry {
				paths = append(paths, rootsNamed(r, e)...)
			}
		}
		return paths
	}
	return nil
}

// rootsNamed returns the name of a rule if the rule came from an entry about
// the workspace roots.
func rootsNamed(r *Rule, e wire.SandboxEntry) []string {
	sub := ""
	if e.Path.Special.Subpath != nil {
		sub = "/" + *e.Path.Special.Subpath
	}
	if r.Access.String() == string(e.Access) && strings.HasSuffix(r.literal, sub) {
		return []string{r.literal}
	}
	return nil
}
