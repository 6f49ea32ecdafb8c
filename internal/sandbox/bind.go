package sandbox

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/wire"
)

// A Process describes the process that a policy confines, and the server that
// starts it.
type Process struct {
	Cwd string   // absolute native path; empty: none
	Env []string // as the process will see it: decides about TMPDIR and SSL_CERT_FILE

	// Private paths (the server's state and sockets) are hidden if they exist, even if
	// the intent allows them. Runtime files stay readable: a backend runs them inside the
	// sandbox.
	Private []string
	Runtime []string

	// User, if set, is the user whose sockets are hidden while the network is
	// open.
	User *User

	// EnforceManagedNetwork and AllUnixSockets are requested outside the
	// intent.
	EnforceManagedNetwork bool
	AllUnixSockets        bool

	// Placeholder reports whether a name exists only because another sandbox
	// has a placeholder there. The rules treat such a name as missing. So this
	// sandbox takes a lease of the placeholder too, and the name stays when
	// the other sandbox ends. Nil: there are no placeholders.
	Placeholder func(path string) bool

	// NoPlaceholders: the process itself refuses to create missing names that a
	// rule is about, so the plan needs no placeholders on the host.
	NoPlaceholders bool

	// Covers: the backend can mount something over a symbolic link (OpCover).
	Covers bool

	Root   bool // the process runs as root, which owns the kernel's files in /proc and /sys
	NoProc bool // a new procfs cannot be mounted here
}

// NativeCwd returns the native path of a sandboxed process's cwd.
func NativeCwd(cwd wire.Cwd) (string, error) {
	p, err := cwd.Native()
	if err == nil && strings.Contains(p, "\x00") {
		err = errNUL
	}
	if err != nil {
		return "", &UnenforceableError{"command cwd URI `" + cwd.String() + "` is not valid on this host: " + err.Error(), err}
	}
	return p, nil
}

var (
	errNUL         = errors.New("the path contains a NUL")
	errMXC         = &IntentError{text: "native MXC is unavailable on this executor"}
	errRelativeCwd = errors.New("the path is not absolute")
)

// Bind gives an intent its meaning on this machine. Errors are IntentError,
// UnenforceableError or CwdError.
func Bind(intent *wire.Sandbox, process Process, host Host) (*Policy, error) {
	b := &binder{intent: intent, process: process, finder: newFinder(host, process.Placeholder), rules: newRules()}
	if err := b.names(); err != nil {
		return nil, err
	}
	if intent.WindowsSandboxLevel == wire.WindowsMXC {
		return nil, errMXC
	}
	policy := &Policy{
		Network: wire.NetworkEnabled, rules: b.rules, legacy: intent.UseLegacyLandlock, noProc: process.NoProc,
		bare: process.NoPlaceholders, unixSockets: process.AllUnixSockets,
		Managed: process.EnforceManagedNetwork || intent.EnforceManagedNetwork,
	}
	switch perms := intent.Permissions; perms.Type {
	case wire.PermissionsManaged:
		policy.Network = perms.Network
		policy.unrestricted = perms.FileSystem.Type == wire.FileSystemUnrestricted
	case wire.PermissionsExternal:
		policy.Network, policy.unrestricted = perms.Network, true
		if intent.Draft == wire.DraftAuto {
			policy.Network = wire.NetworkEnabled // the external sandbox restricts it
		}
	case wire.PermissionsDisabled:
		policy.unrestricted = true
	default:
		return nil, &IntentError{text: "unknown permission profile `" + perms.Type + "`"}
	}
	if err := checkNetwork(policy.Network); err != nil {
		return nil, err
	}
	if err := b.cwd(policy); err != nil {
		return nil, err
	}
	if policy.unrestricted {
		policy.FullRead, policy.FullWrite = true, true
		if err := b.kernel(policy); err != nil {
			return nil, err
		}
		return policy, nil
	}
	if t := intent.Permissions.FileSystem.Type; t != wire.FileSystemRestricted {
		return nil, &IntentError{text: "unknown file system permissions `" + t + "`"}
	}
	policy.FullRead, policy.FullWrite = b.fullRead(), b.fullWrite()
	if err := b.restrict(policy); err != nil {
		return nil, err
	}
	if err := b.finder.listError; err != nil {
		return nil, err
	}
	return policy, nil
}

func checkNetwork(n wire.NetworkAccess) error {
	if n != wire.NetworkRestricted && n != wire.NetworkEnabled {
		return &IntentError{text: "unknown network access `" + string(n) + "`"}
	}
	return nil
}

type binder struct {
	intent  *wire.Sandbox
	process Process
	finder  *finder
	rules   *rules

	entries    []resolvedEntry
	globs      []glob
	applied    []BookGlob     // globs, with their directories resolved
	globLinks  []followedLink // links on the way to those directories
	left       []string       // foreign links that keepLink left alone
	sandboxCwd string
	roots      []string // workspace roots
}

// names resolves what needs no look at the machine. Its order decides which
// of several errors is reported.
func (b *binder) names() error {
	var err error
	native := make(map[int]string)
	for i, e := range b.intent.Permissions.FileSystem.Entries {
		if e.Path.Type != wire.SandboxPathURI {
			continue
		}
		if native[i], err = nativePath(e.Path.Path); err != nil {
			return &IntentError{"invalid sandbox permission path URI", err}
		}
	}
	cwd, roots := b.intent.Cwd, b.intent.WorkspaceRoots
	if c := b.intent.PolicyContext; c != nil {
		cwd, roots = c.Cwd, c.WorkspaceRoots
	}
	b.sandboxCwd = b.process.Cwd
	if cwd != nil {
		if b.sandboxCwd, err = nativePath(*cwd); err != nil {
			return &IntentError{"sandbox cwd URI `" + cwd.String() + "` is not valid on this exec-server host", err}
		}
	}
	for _, root := range roots {
		p, err := nativePath(root)
		if err != nil {
			return &IntentError{"sandbox workspace root URI `" + root.String() + "` is not valid on this exec-server host", err}
		}
		b.roots = append(b.roots, p)
	}
	return b.expand(native)
}

func nativePath(uri wire.PathURI) (string, error) {
	p, err := uri.Native()
	if err == nil && strings.Contains(p, "\x00") {
		err = errNUL
	}
	return path.Clean(p), err
}

// cwd resolves the directory where the process starts. A missing directory
// fails as it would without a sandbox.
func (b *binder) cwd(policy *Policy) error {
	if b.process.Cwd == "" {
		return nil
	}
	if !path.IsAbs(b.process.Cwd) {
		return &CwdError{b.process.Cwd, errRelativeCwd}
	}
	at := b.finder.find(b.process.Cwd)
	var err error
	switch {
	case at.isDir():
	case at.exists(), at.gap == gapFile:
		err = syscall.ENOTDIR
	case at.gap == gapLoop:
		err = syscall.ELOOP
	case at.gap == gapUnknown:
		err = b.finder.look(at.gapAt).err
	default:
		err = syscall.ENOENT
	}
	if err != nil {
		return &CwdError{b.process.Cwd, err}
	}
	policy.Cwd = at.path
	return nil
}

// restrict turns the entries into rules.
func (b *binder) restrict(policy *Policy) error {
	var foreign []resolvedEntry
	for _, e := range b.entries {
		switch {
		case e.path == "":
		case e.access == Read && b.foreignLink(e.path) != "":
			foreign = append(foreign, e)
		default:
			b.add(e.path, e.access, FromEntry, e.name)
		}
	}
	for _, e := range foreign { // after it is known which paths are writable
		if !b.keepLink(e.path, FromEntry, e.name) {
			b.add(e.path, e.access, FromEntry, e.name)
		}
	}
	if err := b.kernel(policy); err != nil || policy.FullWrite {
		return err
	}
	for _, g := range b.globs {
		if err := b.deny(g); err != nil {
			return err
		}
	}
	policy.globs, policy.globLinks = b.applied, b.globLinks
	b.addMinimal()
	b.protect()
	policy.left = b.left
	if err := b.checkGrants(); err != nil {
		return err
	}
	if err := b.addOwn(policy); err != nil {
		return err
	}
	if policy.Managed {
		b.addCertificates(policy)
	}
	if err := b.checkSeen(); err != nil {
		return err
	}
	return b.checkLinks()
}

// kernel looks at the paths that every sandbox gets anew: parts of /proc, and
// /tmp.
func (b *binder) kernel(policy *Policy) error {
	frozen := frozenProc
	if b.process.Root {
		frozen = frozenProcRoot
	}
	for _, p := range frozen {
		if b.finder.look(p).err == nil {
			policy.procReadOnly = append(policy.procReadOnly, p)
		}
	}
	policy.hasTmp = b.isDir("/tmp")
	if !policy.Managed || !policy.FullWrite {
		return nil
	}
	// A managed network needs namespaces. Inside, everything is as outside, except
	// for the server's private paths.
	b.rules = newRules()
	for _, p := range []string{"/", "/dev/shm"} {
		b.add(p, Write, Unrestricted, p)
	}
	policy.rules = b.rules
	return b.addOwn(policy)
}

// isDir reports whether p itself is a directory. It does not follow links.
func (b *binder) isDir(p string) bool {
	s := b.finder.look(p)
	return s.err == nil && s.mode.IsDir()
}

// add resolves a path and adds the rule about it.
func (b *binder) add(name string, access Access, origin Origin, named string) {
	at := b.finder.find(name)
	r := Rule{Path: at.path, Access: access, Origin: origin, Named: named, literal: name, place: at,
		emptyDir: origin == FromProtected}
	if at.gap == gapMissing {
		r.creatable = b.finder.host.CanCreate(path.Dir(at.gapAt))
	}
	b.rules.add(r)
}

// checkGrants refuses a write rule whose path leads through a link that a command
// with the same rules could have made. The rule is accepted if another rule, which
// does not depend on such a link, lets the same path be written: then the link
// gives nothing.
func (b *binder) checkGrants() error {
	sure := newRules()
	for _, r := range b.rules.all {
		if b.planted(r) == "" {
			sure.add(*r)
		}
	}
	for _, r := range b.rules.all {
		if l := b.planted(r); l != "" && sure.access(r.Path) != Write {
			return Unenforceable("cannot let %s be written because it crosses writable symlink %s", r.literal, l)
		}
	}
	return nil
}

// planted returns a link through which a rule lets something be written and
// that a command could have made; empty if there is none.
func (b *binder) planted(r *Rule) string {
	if r.Access == Write {
		for _, l := range r.place.links {
			if b.rules.access(l.at) == Write {
				return l.at
			}
		}
	}
	return ""
}

// checkSeen refuses restrictions on paths that could not be looked at. Only a
// lack of permission is harmless: the command has no more permissions than the
// server.
func (b *binder) checkSeen() error {
	for _, r := range b.rules.all {
		if r.Access == Write || r.place.gap != gapUnknown {
			continue
		}
		if err := b.finder.look(r.place.gapAt).err; !errors.Is(err, fs.ErrPermission) {
			return Unenforceable("cannot look at %s to restrict %s: %w", r.place.gapAt, r.literal, err)
		}
	}
	return nil
}

// checkLinks refuses restrictions that a command could redirect by changing a
// symbolic link.
func (b *binder) checkLinks() error {
	for _, r := range b.rules.all {
		kind := "deny-read"
		switch {
		case r.Access == Write || len(r.place.links) == 0 || b.rules.byPath[r.Path].Access != r.Access:
			continue
		case r.Origin == FromPrivate || r.Origin == FromControl || r.Origin == FromMinimal || r.Origin == FromRuntime:
			continue // not a restriction, or its name is used only by the server
		case r.Access == Read:
			kind = "read-only"
		}
		for _, l := range r.place.links {
			if b.rules.access(l.at) == Write && !(r.Access == Read && b.movesWithRoot(r, l)) {
				return Unenforceable("cannot enforce sandbox %s path %s because it crosses writable symlink %s",
					kind, r.literal, l.at)
			}
		}
	}
	return nil
}

// movesWithRoot reports whether a link is part of the name of a writable root
// above the rule. If that link changes, the root and its carve-outs move
// together.
func (b *binder) movesWithRoot(r *Rule, l followedLink) bool {
	for _, root := range b.rules.all {
		if root.Access == Write && root.Origin == FromEntry && within(r.literal, root.literal) {
			for _, own := range root.place.links {
				if own == l {
					return true
				}
			}
		}
	}
	return false
}
