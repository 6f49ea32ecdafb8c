package conformance

import (
	"os"
	"slices"
	"sync"
)

// A policy is the sandbox of a request. Paths may begin with variables of the fixture, such as $WS.
type policy struct {
	kind    string // of the permissions; empty: no sandbox at all
	files   string // type of the file system
	entries []entry
	depth   int
	network string
	roots   []string
	cwd     string
	more    map[string]any
}

// An entry is a rule on the wire.
type entry map[string]any

func special(kind, access string, subpath ...string) entry {
	value := map[string]any{"kind": kind}
	e := entry{"path": map[string]any{"type": "special", "value": value}, "access": access}
	if len(subpath) > 0 {
		value["subpath"] = subpath[0]
		e["missing_path_behavior"] = "skip"
	}
	return e
}

func at(path, access string) entry {
	return entry{"path": map[string]any{"type": "path", "path": "file://" + path}, "access": access}
}

func glob(pattern, access string) entry {
	return entry{"path": map[string]any{"type": "glob_pattern", "pattern": pattern}, "access": access}
}

// files is a policy of these entries.
func files(entries ...entry) policy {
	return policy{
		kind: "managed", files: "restricted", entries: entries, network: "restricted",
		roots: []string{"$WS"}, cwd: "$WS",
	}
}

// The policies of the table.

func readOnly() policy { return files(special("root", "read")) }

// protectedEntries returns the entries that clients send along with a writable workspace.
func protectedEntries() (entries []entry) {
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		entries = append(entries, special("project_roots", "read", name))
	}
	return entries
}

func workspaceWrite() policy {
	p := files(special("root", "read"), special("project_roots", "write"), special("slash_tmp", "write"), special("tmpdir", "write"))
	return p.with(protectedEntries()...)
}

// workspaceOnly is workspaceWrite without temporary directories.
func workspaceOnly() policy {
	return files(special("root", "read"), special("project_roots", "write")).with(protectedEntries()...)
}

func minimalRead() policy {
	return files(special("minimal", "read"), special("project_roots", "read"))
}

func minimalWrite() policy {
	return files(special("minimal", "read"), special("project_roots", "write"))
}

func rootWrite() policy { return files(special("root", "write")) }

func unrestricted() policy {
	p := files()
	p.files = "unrestricted"
	return p
}

func disabled() policy {
	p := files()
	p.kind = "disabled"
	return p
}

func external() policy {
	p := files()
	p.kind = "external"
	return p
}

func unconfined() policy { return policy{} }

// with adds entries, deny a denied path, net the network.
func (p policy) with(entries ...entry) policy {
	p.entries = slices.Concat(p.entries, entries)
	return p
}

func (p policy) deny(path string) policy { return p.with(at(path, "deny")) }

func (p policy) net() policy {
	p.network = "enabled"
	return p
}

// in sets the workspace roots. from sets the cwd of the sandbox; empty: the sandbox has none.
func (p policy) in(roots ...string) policy {
	p.roots = roots
	return p
}

func (p policy) from(cwd string) policy {
	p.cwd = cwd
	return p
}

func (p policy) scan(depth int) policy {
	p.depth = depth
	return p
}

func (p policy) also(name string, value any) policy {
	p.more = map[string]any{name: value}
	return p
}

// sharedTmp serialises rows that open a directory of the whole machine, because every server needs the same names there
// (TestSharedTmp).
var sharedTmp sync.Mutex

// ownTmp removes empty names from /tmp that other servers of this machine, such as those of other tests, have left
// (docs/rough-edges.md).
func ownTmp() {
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		os.Remove("/tmp/" + name)
	}
}

// opensShared reports whether the policy confines a command and opens such a directory.
func (p policy) opensShared() bool {
	return slices.ContainsFunc(p.entries, func(e entry) bool {
		path := e["path"].(map[string]any)
		value, _ := path["value"].(map[string]any)
		return value["kind"] == "slash_tmp" || path["path"] == "file:///dev/shm"
	})
}

// sandboxType returns the type that the server must report.
func (p policy) sandboxType() string {
	if p.kind == "" {
		return "none"
	}
	return "linuxSeccomp"
}

// wire returns the policy as a client sends it; nil: no sandbox.
func (p policy) wire() map[string]any {
	if p.kind == "" {
		return nil
	}
	permissions := map[string]any{"type": p.kind}
	if p.kind != "disabled" {
		permissions["network"] = p.network
	}
	if p.kind == "managed" {
		system := map[string]any{"type": p.files}
		if p.files == "restricted" {
			system["entries"] = append([]entry{}, p.entries...)
		}
		if p.depth > 0 {
			system["glob_scan_max_depth"] = p.depth
		}
		permissions["file_system"] = system
	}
	roots := []string{}
	for _, root := range p.roots {
		roots = append(roots, "file://"+root)
	}
	sandbox := map[string]any{
		"permissions": permissions, "windowsSandboxLevel": "disabled", "workspaceRoots": roots,
	}
	if p.cwd != "" {
		sandbox["cwd"] = "file://" + p.cwd
	}
	for name, value := range p.more {
		sandbox[name] = value
	}
	return sandbox
}
