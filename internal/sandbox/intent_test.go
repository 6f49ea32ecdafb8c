package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// The policies of the behaviour table, as lists of "access name". A name is a
// path, a glob: pattern, or a special name; roots/x is x below each workspace
// root.
const (
	policyRO = "read root"
	policyWN = "read root, write roots, read roots/.git, read roots/.agents, read roots/.codex, read roots/.aws"
	policyWW = policyWN + ", write slash_tmp, write tmpdir"
	policyMR = "read minimal, read roots"
	policyMW = "read minimal, write roots"
	policyRW = "write root"
)

// An intentOf option changes an intent.
type intentOption func(*wire.Sandbox)

func intentOf(t testing.TB, entries string, options ...intentOption) *wire.Sandbox {
	t.Helper()
	s := &wire.Sandbox{WindowsSandboxLevel: wire.WindowsDisabled, WorkspaceRoots: []wire.PathURI{uri(t, "/fx/ws")}}
	s.Permissions = wire.Permissions{Type: wire.PermissionsManaged, Network: wire.NetworkRestricted}
	s.Permissions.FileSystem.Type = wire.FileSystemRestricted
	for text := range strings.SplitSeq(entries, ",") {
		if text = strings.TrimSpace(text); text != "" {
			s.Permissions.FileSystem.Entries = append(s.Permissions.FileSystem.Entries, entryOf(t, text))
		}
	}
	for _, o := range options {
		o(s)
	}
	return s
}

func entryOf(t testing.TB, text string) wire.SandboxEntry {
	t.Helper()
	access, name, _ := strings.Cut(text, " ")
	e := wire.SandboxEntry{Access: wire.Access(access)}
	switch {
	case strings.HasPrefix(name, "/"):
		e.Path = wire.SandboxPath{Type: wire.SandboxPathURI, Path: uri(t, name)}
	case strings.HasPrefix(name, "glob:"):
		e.Path = wire.SandboxPath{Type: wire.SandboxPathGlob, Pattern: strings.TrimPrefix(name, "glob:")}
	default:
		e.Path.Type = wire.SandboxPathSpecial
		e.Path.Special.Kind = name
		if rest, ok := strings.CutPrefix(name, "roots"); ok {
			e.Path.Special.Kind = wire.SpecialProjectRoots
			if rest != "" {
				rest = rest[1:]
				e.Path.Special.Subpath = &rest
			}
		}
	}
	return e
}

func uri(t testing.TB, p string) wire.PathURI {
	t.Helper()
	u, err := wire.ParsePathURI(wire.PathToURI(p))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func network(s *wire.Sandbox) { s.Permissions.Network = wire.NetworkEnabled }
func depth(n uint64) intentOption {
	return func(s *wire.Sandbox) { s.Permissions.FileSystem.GlobScanMaxDepth = &n }
}
func noRoots(s *wire.Sandbox) { s.WorkspaceRoots = nil }
func unrestricted(s *wire.Sandbox) {
	s.Permissions.FileSystem = wire.FileSystemPolicy{Type: wire.FileSystemUnrestricted}
}
func legacyLandlock(s *wire.Sandbox) { s.UseLegacyLandlock = true }

func roots(t testing.TB, paths ...string) intentOption {
	return func(s *wire.Sandbox) {
		s.WorkspaceRoots = nil
		for _, p := range paths {
			s.WorkspaceRoots = append(s.WorkspaceRoots, uri(t, p))
		}
	}
}

// fixture is the machine of the behaviour table.
const fixture = `/fx/ws/a.txt /fx/ws/sub/ /fx/out/secret.txt /tmp/ /var/tmp/ /usr/bin/sh /usr/lib/ /bin->usr/bin /lib->usr/lib
	/etc/passwd /dev/null /dev/shm/ /proc/sys/ /proc/sysrq-trigger /sys/kernel/`

// compiled binds and compiles; process defaults to one in the workspace.
func compiled(h Host, intent *wire.Sandbox, process Process) (*Policy, *Plan, error) {
	policy, err := Bind(intent, process, h)
	if err != nil {
		return nil, nil, err
	}
	plan, err := policy.Compile()
	if err == nil {
		err = checkPlan(h, policy, plan)
	}
	return policy, plan, err
}

// checkPlan checks properties that every plan has: it opens nothing that the
// rules close, it names only existing paths, and no restriction can be moved
// away.
func checkPlan(h Host, policy *Policy, plan *Plan) error {
	if plan.Shape != ShapeNamespaces {
		return nil
	}
	made := make(map[string]bool)
	mounts := make(map[string]bool)
	seals := make(map[string]bool)
	for _, op := range plan.Ops {
		if op.Kind == OpPlaceholder {
			made[op.Path] = true
		}
		if mode, err := h.Lstat(op.Path); !made[op.Path] && err != nil {
			return fmt.Errorf("%v: %w", op, err)
		} else if !made[op.Path] && op.Kind == OpMaskDir != mode.IsDir() && (op.Kind == OpMaskDir || op.Kind == OpMaskFile) {
			return fmt.Errorf("%v: mode %v", op, mode)
		}
		for sealed := range seals {
			if within(op.Path, sealed) {
				return fmt.Errorf("%v comes after seal %s in\n%v", op, sealed, plan)
			}
		}
		if op.Kind == OpSeal {
			seals[op.Path] = true
		}
		mounts[op.Path] = mounts[op.Path] || op.Kind != OpPlaceholder && op.Kind != OpSeal
	}
	for _, name := range probes(h, policy, plan) {
		access, rule := policy.Decide(name)
		effect := plan.Effect(name)
		if missing(h, name) && harmless(rule, effect, mounts) {
			continue
		}
		if effect == HostWritable && access != Write || effect == HostReadable && access == Deny {
			return fmt.Errorf("%s is %v by %q, but %v in\n%v", name, access, rule, effect, plan)
		}
	}
	for _, op := range plan.Ops {
		restricts := op.Kind == OpMaskDir || op.Kind == OpMaskFile || op.Kind == OpBindRO
		for dir := parent(op.Path); restricts && op.Path != "/" && plan.Effect(dir) == HostWritable; dir = parent(dir) {
			if !mounts[dir] {
				return fmt.Errorf("%s can be moved away from %v in\n%v", dir, op, plan)
			}
			if dir == "/" {
				break
			}
		}
	}
	return nil
}

func parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return "/"
}

// missing reports whether a name does not exist; a dangling link is missing
// too.
func missing(h Host, name string) bool {
	at := newFinder(h, nil).find(name)
	return !at.exists()
}

// harmless reports whether a rule about a missing path needs no operation,
// because the command cannot create the path.
func harmless(r Rule, effect Effect, mounts map[string]bool) bool {
	switch r.place.gap {
	case noGap:
		return false
	case gapMissing:
		return effect == HostReadable || !r.creatable
	case gapFile:
		return effect == HostReadable || mounts[r.place.gapAt]
	}
	return effect == HostReadable
}
