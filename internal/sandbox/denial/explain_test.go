package denial

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// dirs is a machine that has only these directories and their parents.
type dirs []string

func (d dirs) Lstat(p string) (fs.FileMode, error) {
	for _, dir := range d {
		if dir == p || strings.HasPrefix(dir, strings.TrimSuffix(p, "/")+"/") {
			return fs.ModeDir | 0o755, nil
		}
	}
	return 0, fs.ErrNotExist
}
func (dirs) Readlink(string) (string, error)       { return "", fs.ErrInvalid }
func (dirs) ReadDir(string) ([]fs.DirEntry, error) { return nil, nil }
func (dirs) ReadFile(string, int) ([]byte, error)  { return nil, fs.ErrNotExist }
func (dirs) CanCreate(string) bool                 { return true }
func (dirs) CanRemove(string) bool                 { return true }
func (dirs) Foreign(string) bool                   { return false }

var machine = dirs{"/fx/ws/.git", "/fx/ws/sub", "/fx/out", "/fx/secret", "/usr/bin", "/tmp"}

// policyOf returns a policy that allows reading everything but /fx/secret, and
// writing below /fx/ws, but not its .git.
func policyOf(t testing.TB, network wire.NetworkAccess) *sandbox.Policy {
	t.Helper()
	uri := func(p string) wire.PathURI {
		u, err := wire.ParsePathURI(wire.PathToURI(p))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	entry := func(access wire.Access, p string) wire.SandboxEntry {
		e := wire.SandboxEntry{Access: access, Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: uri(p)}}
		if p == "/" {
			e.Path = wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: wire.SpecialRoot}}
		}
		return e
	}
	intent := &wire.Sandbox{WindowsSandboxLevel: wire.WindowsDisabled, WorkspaceRoots: []wire.PathURI{uri("/fx/ws")}}
	intent.Permissions = wire.Permissions{Type: wire.PermissionsManaged, Network: network, FileSystem: wire.FileSystemPolicy{
		Type: wire.FileSystemRestricted,
		Entries: []wire.SandboxEntry{
			entry(wire.AccessRead, "/"), entry(wire.AccessWrite, "/fx/ws"), entry(wire.AccessRead, "/fx/ws/.git"), entry(wire.AccessDeny, "/fx/secret"),
		},
	}}
	policy, err := sandbox.Bind(intent, sandbox.Process{Cwd: "/fx/ws"}, machine)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

func (f *Fact) text() string {
	switch {
	case f == nil:
		return ""
	case f.Syscall != "":
		return "syscall " + f.Syscall
	}
	return f.Access + " " + f.Path + " by " + f.Rule
}

func recently(chunks ...chunk) *Recent {
	r := new(Recent)
	for _, c := range chunks {
		r.Add(c.stream, []byte(c.text))
	}
	return r
}

// The rules of the policy.
const (
	byRoot = " by entry :root, read"
	byGit  = " by entry /fx/ws/.git, read"
	byDeny = " by entry /fx/secret, deny"
)

// TestExplainLines has lines that real programs print.
func TestExplainLines(t *testing.T) {
	policy := policyOf(t, wire.NetworkRestricted)
	for _, c := range []struct{ text, want string }{
		// shells
		{"sh: 1: cannot create /fx/out/n: Read-only file system", "write /fx/out/n" + byRoot},
		{"/bin/sh: 1: cannot create /fx/out/n: Read-only file system", "write /fx/out/n" + byRoot},
		{"/usr/local/x/build.sh: 3: cannot create /fx/n: Read-only file system", "write /fx/n" + byRoot},
		{"sh: 1: cannot open /fx/secret/k: Permission denied", "read /fx/secret/k" + byDeny},
		{"bash: line 1: /fx/out/n: Read-only file system", "write /fx/out/n" + byRoot},
		{"/usr/local/x/build.sh: line 12: /fx/out/n: Read-only file system", "write /fx/out/n" + byRoot},
		{"-bash: /fx/out/n: Read-only file system", "write /fx/out/n" + byRoot},
		{"zsh: read-only file system: /fx/out/n", "write /fx/out/n" + byRoot},
		{"zsh:1: permission denied: /fx/secret/run", "read /fx/secret/run" + byDeny},
		{"sh: 1: cannot create /fx/ws/n: Read-only file system", ""}, // not by a rule

		// coreutils and friends
		{"touch: cannot touch '/fx/out/n': Read-only file system", "write /fx/out/n" + byRoot},
		{`touch: cannot touch "/fx/out/it's": Read-only file system`, "write /fx/out/it's" + byRoot},
		{"touch: cannot touch '/fx/out/a b': Read-only file system", "write /fx/out/a b" + byRoot},
		{`touch: cannot touch '/fx/out/a'$'\n''b': Read-only file system`, ""},
		{"touch: cannot touch `/fx/out/n': Read-only file system", "write /fx/out/n" + byRoot},
		{"mkdir: cannot create directory ‘/fx/out/d’: Read-only file system", "write /fx/out/d" + byRoot},
		{"mkdir: can't create directory '/fx/out/d': Read-only file system", "write /fx/out/d" + byRoot},
		{"cp: cannot create regular file '/fx/out/p': Read-only file system", "write /fx/out/p" + byRoot},
		{"mv: cannot move '/fx/ws/a' to '/fx/out/b': Read-only file system", "write /fx/out/b" + byRoot},
		{"mv: cannot move '/fx/out/a' to '/fx/ws/b': Read-only file system", "write /fx/out/a" + byRoot},
		{"tee: /fx/out/n: Read-only file system", "write /fx/out/n" + byRoot},
		{"chmod: changing permissions of '/fx/out/secret': Read-only file system", "write /fx/out/secret" + byRoot},
		{"truncate: cannot open '/fx/out/secret' for writing: Read-only file system", "write /fx/out/secret" + byRoot},
		{"mktemp: failed to create file via template ‘/tmp/tmp.XXXXXX’: Read-only file system", "write /tmp/tmp.XXXXXX" + byRoot},
		{"sed: couldn't open temporary file /fx/out/sedYTq25M: Read-only file system", "write /fx/out/sedYTq25M" + byRoot},
		{"tar: /fx/out/f: Cannot open: Read-only file system", "write /fx/out/f" + byRoot},
		{`awk: cannot open "/fx/out/n" for output (Read-only file system)`, "write /fx/out/n" + byRoot},
		{"find: ‘/fx/secret’: Permission denied", "read /fx/secret" + byDeny},
		{"ls: cannot open directory '/fx/secret/': Permission denied", "read /fx/secret" + byDeny},
		{"cat: /fx/secret/x: Permission denied", "read /fx/secret/x" + byDeny},
		{"cat: /fx/ws/../secret/x: Permission denied", "read /fx/secret/x" + byDeny},
		{"cat: /etc/shadow: Permission denied", ""}, // may be read: not the sandbox
		{"patch: **** Can't create temporary file /tmp/pptFHbde : Read-only file system", "write /tmp/pptFHbde" + byRoot},
		{"Warning: Failed to open the file /fx/out/n: Read-only file system", "write /fx/out/n" + byRoot},
		{"Cannot create temporary file in /fx/out/: Read-only file system", "write /fx/out" + byRoot},

		// languages
		{"OSError: [Errno 30] Read-only file system: '/fx/out/n'", "write /fx/out/n" + byRoot},
		{"OSError: [Errno 30] Read-only file system: '/fx/ws/a' -> '/fx/out/b'", "write /fx/out/b" + byRoot},
		{"PermissionError: [Errno 13] Permission denied: '/fx/secret/x'", "read /fx/secret/x" + byDeny},
		{"PermissionError: [Errno 13] Permission denied: '/fx/ws/x'", ""},
		{"Error: EROFS: read-only file system, open '/fx/out/n'", "write /fx/out/n" + byRoot},
		{"npm error rofs EROFS: read-only file system, open '/fx/out/package.json'", "write /fx/out/package.json" + byRoot},
		{"Error: EACCES: permission denied, scandir '/fx/secret'", "read /fx/secret" + byDeny},
		{"Error: EROFS: read-only file system", ""},
		{"go: updating go.mod: open /fx/out/go.mod: read-only file system", "write /fx/out/go.mod" + byRoot},
		{"rename /fx/ws/a /fx/out/b: read-only file system", "write /fx/out/b" + byRoot},
		{"open /fx/out/conf/x: read-only file system", "write /fx/out/conf/x" + byRoot},
		{"java.io.FileNotFoundException: /fx/out/x (Read-only file system)", "write /fx/out/x" + byRoot},
		{"java.io.IOException: Read-only file system", ""},
		{"Read-only file system @ rb_sysopen - /fx/out/x (Errno::EROFS)", "write /fx/out/x" + byRoot},
		{`Error: Read-only file system (os error 30) at path "/tmp/.tmpA1"`, "write /tmp/.tmpA1" + byRoot},
		{`nginx: [emerg] open() "/fx/out/x.pid" failed (30: Read-only file system)`, "write /fx/out/x.pid" + byRoot},

		// git
		{"fatal: cannot mkdir /fx/out/repo: Read-only file system", "write /fx/out/repo" + byRoot},
		{"fatal: Unable to create '/fx/ws/.git/index.lock': Read-only file system", "write /fx/ws/.git/index.lock" + byGit},
		{"error: could not lock config file /fx/ws/.git/config: Read-only file system", "write /fx/ws/.git/config" + byGit},
		{"fatal: could not create work tree dir '/fx/out/h': Read-only file system", "write /fx/out/h" + byRoot},
		{"fatal: cannot copy '/usr/share/templates/x' to '/fx/ws/.git/x': Read-only file system", "write /fx/ws/.git/x" + byGit},

		// cargo
		{"error: failed to create package\n\nCaused by:\n  failed to make directory '/fx/out/./.git': Read-only file system; class=Os (2)", "write /fx/out/.git" + byRoot},
		{"see `/fx/out/x`\nRead-only file system (os error 30)", ""},

		// names below the directory in which the command started
		{"cat: ../secret/x: Permission denied", "read /fx/secret/x" + byDeny},
		{"touch: cannot touch '../out/n': Read-only file system", "write /fx/out/n" + byRoot},
		{"touch: cannot touch 'n': Read-only file system", ""}, // not by a rule
		{"mv: cannot move 'n' to '.git/n': Read-only file system", "write /fx/ws/.git/n" + byGit},
		{"error: could not lock config file .git/config: Read-only file system", "write /fx/ws/.git/config" + byGit},

		// names of which no end can be seen, and causes that stand in another line
		{"bash: line 1: /fx/out/my file: Read-only file system", ""},
		{"open /fx/out/my file failed: Read-only file system", ""},
		{"/fx/ws/.git: Read-only file system", ""}, // the first word is a program
		{"error: failed to open `/fx/out/x`\n\nCaused by:\n  Read-only file system (os error 30)", ""},

		// lines that only look like an error
		{"/usr/bin/tool: Read-only file system", ""},
		{"tool: build: Read-only file system", ""},
		{"error: 'make install' failed: Read-only file system", ""},
		{"error: Read-only file system; see 'mv --help'", ""},
		{"git@example.org: Permission denied (publickey).", ""},
		{"failed to initialise: Read-only file system", ""},
		{"sh: 1: something else: Read-only file system", ""},
		{"Read-only file system", ""},
		{"touch: cannot touch '/fx/out/\xff': Read-only file system", ""},
		{"touch: cannot touch '/fx/out/n': No space left on device", ""},
		{"touch: cannot touch '/fx/out/" + strings.Repeat("n", maxPath) + "': Read-only file system", ""},
		{"chown: changing ownership of '/fx/ws/x': Operation not permitted", ""},

		// network
		{"ping: socket: Operation not permitted", "syscall network"},
		{"dial tcp 127.0.0.1:80: socket: operation not permitted", "syscall network"},
		{"bash: connect: Operation not permitted", "syscall network"},
		{"bash: line 1: /dev/tcp/127.0.0.1/80: Operation not permitted", "syscall network"},
		{"<urlopen error [Errno 1] Operation not permitted>", "syscall network"},
		{"Traceback (most recent call last):\n  File \"/usr/lib/python3/socket.py\", line 233, in __init__\n    _socket.socket.__init__(self, family, type, proto, fileno)\nPermissionError: [Errno 1] Operation not permitted", "syscall network"},
		{"opening a socket\nPermissionError: [Errno 1] Operation not permitted", ""},
		{"chown: changing ownership of '/fx/ws/my socket': Operation not permitted", ""},
		{"chown: /fx/ws/socket: Operation not permitted", ""},
		{"mount: bind failed: Operation not permitted", ""},
	} {
		if got := Explain(policy, 1, recently(errs(c.text))).text(); got != c.want {
			t.Errorf("%q:\n  %q, want\n  %q", c.text, got, c.want)
		}
	}
}

// TestExplainRelativePaths has what programs print about names below the directory in which they were started, which is
// read-only, and other messages.
func TestExplainRelativePaths(t *testing.T) {
	policy := policyOf(t, wire.NetworkRestricted)
	policy.Cwd = "/fx/out"
	for text, name := range map[string]string{
		"sh: 1: cannot create n: Read-only file system":                        "n",
		"bash: line 1: n: Read-only file system":                               "n",
		"-bash: n: Read-only file system":                                      "n",
		"touch: cannot touch 'n': Read-only file system":                       "n",
		"touch: cannot touch ‘./a/../n’: Read-only file system":                "n",
		"mkdir: can't create directory 'n': Read-only file system":             "n",
		"mv: cannot move '../ws/a' to 'b': Read-only file system":              "b",
		"tee: n: Read-only file system":                                        "n",
		"sed: couldn't open temporary file ./sedYTq25M: Read-only file system": "sedYTq25M",
		"OSError: [Errno 30] Read-only file system: 'n'":                       "n",
		"Error: EROFS: read-only file system, open 'n'":                        "n",
		"go: updating go.mod: open go.mod: read-only file system":              "go.mod",
		"java.io.FileNotFoundException: out/x (Read-only file system)":         "out/x",
		"fatal: could not open .git/FETCH_HEAD: Read-only file system":         ".git/FETCH_HEAD",

		"touch: cannot touch 'a b': Read-only file system":         "", // may be a command line
		"error: 'make install' failed: Read-only file system":      "",
		"tar: f: Cannot open: Read-only file system":               "",
		"failed to initialise: Read-only file system":              "",
		"error: cannot write the lock file: Read-only file system": "",
		"bash: line 1: /fx/ws/my file.txt: Read-only file system":  "",
		"java.io.IOException: Read-only file system":               "",
		"touch: Read-only file system":                             "",
		"Read-only file system":                                    "",
		": Read-only file system":                                  "",
		"touch: cannot touch 'n': Permission denied":               "", // may be read
	} {
		want := ""
		if name != "" {
			want = "write /fx/out/" + name + byRoot
		}
		if got := Explain(policy, 1, recently(errs(text))).text(); got != want {
			t.Errorf("%q:\n  %q, want\n  %q", text, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	restricted, open := policyOf(t, wire.NetworkRestricted), policyOf(t, wire.NetworkEnabled)
	message := func(name string) string { return "cat: /fx/secret/" + name + ": Permission denied\n" }
	read := func(name string) string { return "read /fx/secret/" + name + byDeny }
	noise := strings.Repeat("some line of output\n", 200)
	for _, c := range []struct {
		name   string
		policy *sandbox.Policy
		code   int
		chunks []chunk
		want   string
	}{
		{"success", restricted, 0, []chunk{errs(message("a"))}, ""},
		{"SIGSYS", restricted, 159, []chunk{errs(message("a"))}, "syscall sigsys"},
		{"no output", restricted, 1, nil, ""},
		{"newest line", restricted, 1, []chunk{errs(message("a") + message("b") + "make: *** Error 1\n")}, read("b")},
		{"newest of both streams", restricted, 1, []chunk{errs(message("a")), out(message("b")), errs("done\n")}, read("b")},
		{"unexplained is passed over", restricted, 1, []chunk{errs(message("a") + "cat: /etc/x: Permission denied\n")}, read("a")},
		{"no line break", restricted, 1, []chunk{errs(strings.TrimSpace(message("a")))}, read("a")},
		{"divided line", restricted, 1, []chunk{errs(message("a")[:20]), out("x\n"), errs(message("a")[20:])}, read("a")},
		{"terminal", restricted, 1, []chunk{pty("\x1b[31m" + strings.TrimSpace(message("a")) + "\x1b[0m\r\n$ ")}, read("a")},
		{"cause on another stream", restricted, 1, []chunk{out("open `/fx/out/x`\n"), errs("Caused by:\n  Read-only file system\n")}, ""},
		{"open network", open, 1, []chunk{errs("ping: socket: Operation not permitted\n")}, ""},
		{"few lines later", restricted, 1, []chunk{errs(message("a") + noise)}, read("a")},
		{"many lines later", restricted, 1, []chunk{errs(message("a") + noise + noise + noise)}, ""},
		{"many bytes later", restricted, 1, []chunk{errs(message("a") + strings.Repeat(strings.Repeat("x", 4000)+"\n", 17))}, ""},
		{"a long line between", restricted, 1, []chunk{errs(message("a") + strings.Repeat("x", 1<<20))}, read("a")},
	} {
		if got := Explain(c.policy, c.code, recently(c.chunks...)).text(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzExplain: a fact is a clean path for which the policy gives that error, or a
// kind of system call; and the kept output is bounded.
func FuzzExplain(f *testing.F) {
	policy := policyOf(f, wire.NetworkRestricted)
	f.Add("touch: cannot touch 'n': Read-only file system\n", "mv: cannot move 'a' to \"b\": Permission denied: '/fx/secret/..' -> `x'", 1)
	f.Add("\x1b[1mCaused by:\r\n  1: read-only file system (os error 30)", "‘\xff’: permission denied, open ''", 2)
	f.Fuzz(func(t *testing.T, a, b string, code int) {
		r := recently(errs(a), out(b), errs(b), pty(a))
		if r.size > RecentBytes || len(r.lines) > maxLines || len(r.open[0]) > maxLine || len(r.open[1]) > maxLine {
			t.Fatalf("keeps %d bytes in %d lines", r.size, len(r.lines))
		}
		fact := Explain(policy, code, r)
		if fact == nil {
			return
		}
		access, rule := policy.Decide(fact.Path)
		switch *fact {
		case Fact{Syscall: SyscallKilled}, Fact{Syscall: SyscallNetwork}:
		case Fact{Path: fact.Path, Access: "read", Rule: rule.String()}:
			if access != sandbox.Deny {
				t.Errorf("%+v although it is %v", fact, access)
			}
		case Fact{Path: fact.Path, Access: "write", Rule: rule.String()}:
			if access == sandbox.Write {
				t.Errorf("%+v although it is %v", fact, access)
			}
		default:
			t.Errorf("%+v", fact)
		}
	})
}

// BenchmarkExplain measures output in which every line has to be looked at and
// none is explained.
func BenchmarkExplain(b *testing.B) {
	policy := policyOf(b, wire.NetworkRestricted)
	for name, line := range map[string]string{
		"messages": "mv: cannot move '/fx/ws/a' to '/fx/ws/sub/some/long/path/b': Permission denied (13)\n",
		"quotes":   strings.Repeat(" 'a", maxLine/3-10) + " Operation not permitted\n",
		"names":    strings.Repeat(" 'a'", maxLine/4-10) + " Operation not permitted\n",
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(line, RecentBytes/len(line)))
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				var r Recent
				r.Add(outlog.Stderr, text)
				if Explain(policy, 1, &r) != nil {
					b.Fatal("explained")
				}
			}
		})
	}
}
