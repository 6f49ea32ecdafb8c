package sandbox

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tetherexec/tether/wire"
)

// protectedNames configure tools that later run outside the sandbox. Directly
// below a writable root they are read-only, also while they are missing.
var protectedNames = []string{".git", ".agents", ".codex", ".aws"}

// frozenProc lists the files of /proc through which a process could change
// settings of the kernel that affect more than its namespaces. Most of them can
// be written only by root.
var (
	frozenProc     = []string{"/proc/sys"}
	frozenProcRoot = []string{"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger",
		"/proc/acpi/wakeup", "/proc/scsi", "/proc/asound", "/proc/dynamic_debug"}
)

// controlSockets belong to services that act outside the sandbox. They matter
// only while the network is open, because otherwise no process inside can
// connect. A * stands for each name in a directory.
var controlSockets = []string{
	"/run/docker.sock",
	"/var/run/docker.sock",
	"/run/podman/podman.sock",
	"/run/containerd/containerd.sock",
	"/run/k3s/containerd/containerd.sock",
	"/run/crio/crio.sock",
	"/run/cri-dockerd.sock",
	"/run/buildkit/buildkitd.sock",
	"/run/libvirt/libvirt-sock",
	"/run/lxd.socket",
	"/var/lib/lxd/unix.socket",
	"/var/lib/incus/unix.socket",
	"/var/snap/lxd/common/lxd/unix.socket",
	"/run/snapd.socket",
	"/run/dbus/system_bus_socket",
	"/run/systemd/private",
	"/run/user/*/bus",
	"/run/user/*/systemd/private",
	"/run/user/*/docker.sock",
	"/run/user/*/podman/podman.sock",
}

// controlPipes are the same for named pipes, which can be written on read-only mounts: by this one root tells init
// to change the runlevel. (A pipe in /dev is in no sandbox.)
var controlPipes = []string{"/run/initctl"}

// gitdirLimit is how many bytes of a .git file are read.
const gitdirLimit = 4096

// protect adds the protected names of each writable root. An entry that makes
// the whole file system writable lifts them all.
func (b *binder) protect() {
	if b.rootWrite() {
		return
	}
	var found []*Rule
	for _, root := range b.rules.all {
		if root.Access == Write && root.place.isDir() && b.rules.decide(root.Path) == root {
			found = append(found, root)
		}
	}
	for _, root := range found {
		if within(root.Path, "/proc") || root.Path == "/dev" {
			continue // never bound, see Compile
		}
		for _, name := range protectedNames {
			p := path.Join(root.Path, name)
			if b.lifted(p) || b.rules.access(p) == Deny {
				continue
			}
			if b.keepLink(p, FromProtected, p) {
				continue
			}
			b.add(p, Read, FromProtected, p)
			if name == ".git" {
				b.protectGitdir(p)
			}
		}
	}
}

// lifted reports whether a write entry names a protected name, or something below
// it. An entry that reaches it through a link which a command could have made does
// not count.
func (b *binder) lifted(protected string) bool {
	for _, r := range b.rules.all {
		if r.Origin == FromEntry && r.Access == Write &&
			(within(r.literal, protected) || within(r.Path, protected) && b.planted(r) == "") {
			return true
		}
	}
	return false
}

// foreignLink returns the real path of a protected name if another user has made it a
// symbolic link, as any user can in /tmp; else an empty string.
func (b *binder) foreignLink(name string) string {
	dir, base := path.Split(name)
	if !slices.Contains(protectedNames, base) {
		return ""
	}
	above := b.finder.find(path.Clean(dir))
	if !above.isDir() {
		return ""
	}
	p := path.Join(above.path, base)
	if s := b.finder.look(p); s.err != nil || s.mode&fs.ModeSymlink == 0 || !b.finder.host.Foreign(p) {
		return ""
	}
	return p
}

// keepLink makes sure that a command cannot replace a foreign link in a writable directory.
// The link is not followed, because then another user would decide which of our paths is
// read-only. The sandbox is not refused either, because then another user could keep us
// from starting anything.
//
// In a sticky directory of another user a command cannot remove the link. Elsewhere the
// backend covers it, if it can. keepLink returns false if the name is no such link, or if
// the backend cannot cover it.
func (b *binder) keepLink(name string, origin Origin, named string) bool {
	p := b.foreignLink(name)
	switch r := b.rules.byPath[p]; {
	case r != nil && r.place.mode&fs.ModeSymlink != 0: // covered by another rule
		return true
	case p == "" || b.rules.access(p) != Write:
		return false
	case !b.finder.host.CanRemove(p):
		b.left = append(b.left, p)
		return true
	case b.process.Covers:
		b.rules.add(Rule{Path: p, Access: Read, Origin: origin, Named: named, literal: p,
			place: resolvedPath{path: p, mode: fs.ModeSymlink}})
		return true
	}
	return false
}

// protectGitdir protects the directory that a .git file points to, if it is
// writable. A file of another user is ignored.
func (b *binder) protectGitdir(file string) {
	if s := b.finder.look(file); s.err != nil || !s.mode.IsRegular() || b.finder.host.Foreign(file) {
		return
	}
	text, err := b.finder.host.ReadFile(file, gitdirLimit)
	if err != nil || !utf8.Valid(text) {
		return
	}
	line, _, _ := strings.Cut(string(text), "\n")
	target, ok := strings.CutPrefix(line, "gitdir:")
	target = strings.TrimSpace(target)
	if !ok || target == "" || strings.Contains(target, "\x00") {
		return
	}
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(file), target)
	}
	target = path.Clean(target)
	if at := b.finder.find(target); at.exists() && b.rules.access(at.path) == Write && !b.lifted(at.path) {
		b.add(target, Read, FromGitdir, target)
	}
}

// addOwn adds the rules that no intent can lift, and the paths that a backend
// needs.
func (b *binder) addOwn(policy *Policy) error {
	b.hideControls(controlPipes)
	if policy.Network == wire.NetworkEnabled {
		b.hideControls(controlSockets)
		if err := b.addUserSockets(policy); err != nil {
			return err
		}
	}
	if r := b.rules.decide("/sys"); r != nil && r.Path == "/" && r.Access == Write && b.isDir("/sys") {
		b.add("/sys", Read, FromSystem, "/sys") // writing there would change the kernel's settings
	}
	if r := b.rules.byPath["/proc"]; policy.noProc && (r == nil || r.Access != Deny) {
		b.add("/proc", Read, FromSystem, "/proc")
	}
	for _, p := range b.process.Private {
		switch at := b.finder.find(path.Clean(p)); {
		case at.path == "/":
			return Unenforceable("%s is private: nothing would be left", p)
		case at.exists():
			b.add(path.Clean(p), Deny, FromPrivate, p)
		}
	}
	for _, p := range b.process.Runtime {
		at := b.finder.find(path.Clean(p))
		if !at.exists() {
			return Unenforceable("%s, which starts commands, does not exist", p)
		}
		if b.rules.access(at.path) != Deny {
			continue
		}
		b.add(path.Clean(p), Read, FromRuntime, p)
		if b.rules.access(at.path) == Deny {
			return Unenforceable("%s, which starts commands, is hidden by the sandbox", p)
		}
	}
	return nil
}

// certFile is the variable that tells programs which file has the certificates that
// they trust.
const certFile = "SSL_CERT_FILE"

// addCertificates makes the file that certFile names readable, and nothing beside it:
// a proxy that a client has prepared may use certificates of its own. The file stays
// unreadable if an entry hides it, or if its path leads through a link that a command
// could have made.
func (b *binder) addCertificates(policy *Policy) {
	name := variablePath(b.process.Env, certFile)
	if name == "" {
		return
	}
	at := b.finder.find(name)
	r := b.rules.decide(at.path)
	if !at.exists() || !at.mode.IsRegular() || r != nil && !(r.Access == Deny && r.Path == "/") {
		return
	}
	for _, l := range at.links {
		if b.rules.access(l.at) == Write {
			return
		}
	}
	b.add(name, Read, FromCertificates, name)
	policy.env = append(policy.env, Variable{certFile, at.path}) // the links may be missing inside
}

// hideControls hides the control sockets or pipes that are readable, but were not
// opened for writing.
func (b *binder) hideControls(patterns []string) {
	for _, pattern := range patterns {
		for _, p := range b.starNames(pattern) {
			if b.finder.look(p).err != nil {
				continue
			}
			if at := b.finder.find(p); at.exists() && !at.isDir() && b.rules.access(at.path) == Read {
				b.add(p, Deny, FromControl, p)
			}
		}
	}
}

// starNames returns the paths that a pattern with a * stands for.
func (b *binder) starNames(pattern string) []string {
	dir, rest, ok := strings.Cut(pattern, "/*/")
	if !ok {
		return []string{pattern}
	}
	var paths []string
	for _, e := range b.finder.list(dir) {
		if e.Type()&fs.ModeDir != 0 {
			paths = append(paths, path.Join(dir, e.Name(), rest))
		}
	}
	return paths
}
