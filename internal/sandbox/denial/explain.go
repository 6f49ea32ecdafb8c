package denial

import (
	"path"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// A Fact describes a denial: a path with the missing access and the rule that
// forbids it, or a kind of system call.
type Fact struct {
	Path   string // absolute and clean
	Access string // what was missing: "read" or "write"
	Rule   string

	Syscall string // SyscallKilled or SyscallNetwork
}

// Wire returns the fact in the form that clients get; nil stays nil.
func (f *Fact) Wire() *wire.DenialFact {
	if f == nil {
		return nil
	}
	given := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	told := &wire.DenialFact{Access: given(f.Access), Rule: given(f.Rule), Syscall: given(f.Syscall)}
	if f.Path != "" {
		uri := wire.PathURIOn(runtime.GOOS, f.Path)
		told.Path = &uri
	}
	return told
}

// The kinds of system calls.
const (
	// SyscallKilled is a call for which the filter kills the process: a call
	// with the numbers of another architecture.
	SyscallKilled = "sigsys"

	// SyscallNetwork is a call that would use the network.
	SyscallNetwork = wire.DeniedNetwork
)

// An osError is an error of the system as programs print it.
type osError int

const (
	readOnly osError = iota
	noPermission
	notPermitted
)

var osErrors = [...]string{
	readOnly:     "read-only file system",
	noPermission: "permission denied",
	notPermitted: "operation not permitted",
}

const (
	// lookBack is how many lines of a trace before the error are looked at.
	lookBack = 6

	// maxPath is the longest path that the system accepts.
	maxPath = 4096
)

// Explain returns a fact about the failure of a process that exited with code, or nil. policy is the policy
// that confined the process. The newest line that has an error of the system, with a path or a word
// about the network, decides.
//
// Paths are looked up as they are written: a path that leads through a symbolic link
// may stay unexplained. A relative path counts from the directory in which the process started.
func Explain(policy *sandbox.Policy, code int, recent *Recent) *Fact {
	switch code {
	case 0:
		return nil
	case exitSIGSYS:
		return &Fact{Syscall: SyscallKilled}
	}
	e := explainer{policy, recent.all()}
	for i := len(e.lines) - 1; i >= 0; i-- {
		if f := e.line(i); f != nil {
			return f
		}
	}
	return nil
}

type explainer struct {
	policy *sandbox.Policy
	lines  []outputLine
}

// line explains the error that a line reports.
func (e *explainer) line(i int) *Fact {
	text := plain(e.lines[i].text)
	kind, at := errorIn(text)
	switch {
	case at < 0:
		return nil
	case kind == notPermitted:
		if e.policy.Network == wire.NetworkRestricted && e.aboutNetwork(i, text) {
			return &Fact{Syscall: SyscallNetwork}
		}
		return nil
	}
	names := absolutePaths(text)
	if len(names) == 0 && e.policy.Cwd != "" {
		for _, name := range relativePaths(text, at) {
			names = append(names, path.Join(e.policy.Cwd, name))
		}
	}
	for _, name := range names {
		if f := e.path(kind, name); f != nil {
			return f
		}
	}
	return nil
}

// errorIn finds the last error in a line, and where it begins; -1 if there is none.
func errorIn(text string) (kind osError, at int) {
	lowered := lowerASCII(text)
	at = -1
	for k, name := range osErrors {
		if i := strings.LastIndex(lowered, name); i > at {
			at, kind = i, osError(k)
		}
	}
	return kind, at
}

// lowerASCII keeps the length, so that positions stay right.
func lowerASCII(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c - 'A' + 'a'
		}
	}
	return string(b)
}

// path explains an error about a path by the rule for it.
func (e *explainer) path(kind osError, name string) *Fact {
	name = path.Clean(name)
	if len(name) > maxPath || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return nil
	}
	if private(name) {
		return nil
	}
	access, rule := e.policy.Decide(name)
	switch {
	case kind == readOnly && access != sandbox.Write:
		return &Fact{Path: name, Access: "write", Rule: rule.String()}
	case kind == noPermission && access == sandbox.Deny:
		return &Fact{Path: name, Access: "read", Rule: rule.String()}
	}
	return nil
}

// private reports whether a sandbox has its own files at a path, about which
// the rules say nothing.
func private(name string) bool {
	for _, dir := range []string{"/proc", "/dev"} {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// earlier yields up to lookBack lines of the same stream before line i, newest
// first.
func (e *explainer) earlier(i int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		left := lookBack
		for k := i - 1; k >= 0 && left > 0; k-- {
			if e.lines[k].stderr != e.lines[i].stderr {
				continue
			}
			if left--; !yield(k) {
				return
			}
		}
	}
}

// networkWords occur in messages about the network.
var networkWords = []string{"socket", "sockets", "connect", "connecting", "connection", "bind", "binding", "listen", "listening",
	"network", "sendto", "sendmsg", "tcp", "udp", "dial", "urlopen", "getaddrinfo", "netlink"}

// aboutNetwork reports whether an error is about the network. The indented
// lines of a trace before it count too.
func (e *explainer) aboutNetwork(i int, text string) bool {
	if about, mount := mentionsNetwork(text); about || mount {
		return about && !mount
	}
	for k := range e.earlier(i) {
		text := plain(e.lines[k].text)
		if !strings.HasPrefix(text, " ") && !strings.HasPrefix(text, "\t") {
			return false
		}
		if about, _ := mentionsNetwork(text); about {
			return true
		}
	}
	return false
}

// mentionsNetwork looks at the words outside of quotes that are not paths. It
// reports mounts separately, because "bind" is also a word about mounts.
func mentionsNetwork(text string) (network, mount bool) {
	var bare strings.Builder
	end := 0
	for _, q := range quotedIn(text) {
		bare.WriteString(text[end:q.start])
		end = q.end
	}
	bare.WriteString(text[end:])
	for word := range strings.FieldsSeq(lowerASCII(bare.String())) {
		if strings.HasPrefix(word, "/dev/tcp/") || strings.HasPrefix(word, "/dev/udp/") {
			network = true
		}
		if strings.Contains(word, "/") {
			continue
		}
		for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
			network = network || slices.Contains(networkWords, part)
			mount = mount || part == "mount"
		}
	}
	return network, mount
}
