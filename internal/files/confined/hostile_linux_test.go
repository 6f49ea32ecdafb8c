package confined

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/tethertest/soak"
	"github.com/tetherexec/tether/wire"
)

// If everything may be read, reading works without a sandbox too. All other requests
// fail, and no file of the kernel is read.
func TestReadWithoutSandbox(t *testing.T) {
	b := newFixture(t, nil)
	foreign, err := wire.ParsePathURI("file:///C:/x")
	b.must(err)
	b.must(os.Symlink("/proc/self", b.ws+"/self"))
	for name, c := range map[string]struct {
		policy string
		change func(*wire.Sandbox)
		why    string // $WS stands for the workspace
	}{
		"landlock":       {readOnly, func(s *wire.Sandbox) { s.UseLegacyLandlock = true }, "-32600 filesystem sandbox cannot be enforced on this executor: filesystem-restricted execution requires bubblewrap to isolate app-server sockets"},
		"foreign cwd":    {workspace, func(s *wire.Sandbox) { s.Cwd = &foreign }, "-32600 'file:///C:/x' is invalid on 'linux'"},
		"foreign root":   {workspace, func(s *wire.Sandbox) { s.WorkspaceRoots = []wire.PathURI{foreign} }, "-32600 file system sandbox workspace root is not native to this exec-server host: 'file:///C:/x' is invalid on 'linux'"},
		"protected link": {workspace, func(*wire.Sandbox) { b.must(os.Symlink("sub", b.ws+"/.git")) }, "-32600 filesystem sandbox cannot be enforced on this executor: cannot enforce sandbox read-only path $WS/.git because it crosses writable symlink $WS/.git"},
	} {
		t.Run(name, func(t *testing.T) {
			defer os.Remove(b.ws + "/.git")
			intent, why := b.intent(c.policy), b.at(c.why)
			c.change(intent)
			files, err := b.pool.Files(t.Context(), intent)
			b.must(err)
			b.looksOnly(t, files, why)
			for _, narrowed := range []string{denyOut, minimalRead, minimalRW, hidden, "read :root, deny $WS/nothing", "read /, write :project_roots", "read :root, deny :slash_tmp"} {
				s := b.intent(narrowed)
				s.UseLegacyLandlock = true
				if _, err := b.pool.Files(t.Context(), s); err == nil {
					t.Errorf("with %s files are served", narrowed)
				}
			}
		})
	}
}

// looksOnly checks that files can be read, and that all other requests fail
// with why.
func (b *fixture) looksOnly(t *testing.T, files files.Files, why string) {
	ctx := t.Context()
	for what, do := range map[string]func(*fixture) error{
		"read":         func(b *fixture) error { return reads("$OUT/secret.txt", true)(b, ctx, files) },
		"look":         func(b *fixture) error { return looks("$WS/sub")(b, ctx, files) },
		"list":         func(b *fixture) error { return lists("$WS")(b, ctx, files) },
		"canonicalize": func(b *fixture) error { return canonicalizes("$WS/filelink")(b, ctx, files) },
		"walk": func(b *fixture) error {
			_, err := files.Walk(ctx, b.ws, wire.WalkOptions{MaxDepth: 1, MaxDirectories: 9, MaxEntries: 99})
			return err
		},
	} {
		if err := do(b); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"environment":          reads("/proc/self/environ", true)(b, ctx, files),
		"environment by link":  reads("$WS/self/environ", true)(b, ctx, files),
		"metadata of a device": looks("/dev/null")(b, ctx, files),
		"list processes":       lists("/proc")(b, ctx, files),
		"list by link":         lists("$WS/self")(b, ctx, files),
		"canonicalize":         canonicalizes("/proc/self/exe")(b, ctx, files),
		"write":                writes("$WS/new")(b, ctx, files),
		"replace":              replaces("$WS/a.txt")(b, ctx, files),
		"create":               creates("$WS/new", true)(b, ctx, files),
		"remove":               removes("$WS/a.txt")(b, ctx, files),
		"copy":                 copies("$WS/a.txt", "$WS/new")(b, ctx, files),
	} {
		if outcome(err) != why {
			t.Errorf("%s: %q, want %q", what, outcome(err), why)
		}
	}
	if text, _ := os.ReadFile(b.ws + "/a.txt"); string(text) != "inside" || b.exists(b.ws+"/new") {
		t.Error("something has changed")
	}
}

// A path below a missing workspace is missing, not protected.
func TestMissingWorkspace(t *testing.T) {
	b := newFixture(t, nil)
	intent := b.intent(workspace)
	none := b.uri(b.ws + "/none")
	intent.WorkspaceRoots = []wire.PathURI{none}
	files, err := b.pool.Files(t.Context(), intent)
	b.must(err)
	for what, c := range map[string]struct {
		do   func(*fixture) error
		want string
	}{
		"write":           {func(b *fixture) error { return writes("$WS/none/x")(b, t.Context(), files) }, missing},
		"protected":       {func(b *fixture) error { return writes("$WS/none/.git/x")(b, t.Context(), files) }, missing},
		"remove":          {func(b *fixture) error { return removes("$WS/none/.git")(b, t.Context(), files) }, ok},
		"make":            {func(b *fixture) error { return creates("$WS/none", true)(b, t.Context(), files) }, readonly},
		"make below":      {func(b *fixture) error { return creates("$WS/none/x", true)(b, t.Context(), files) }, readonly},
		"make only below": {func(b *fixture) error { return creates("$WS/none/x", false)(b, t.Context(), files) }, missing},
	} {
		if got := outcome(c.do(b)); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

// Malicious paths end with an error, and soon.
func TestHostilePaths(t *testing.T) {
	b := newFixture(t, nil)
	b.must(os.Symlink("ring2", b.ws+"/ring"))
	b.must(os.Symlink("ring", b.ws+"/ring2"))
	b.write(b.ws+"/n\xff", "strange")
	files := b.files(denyOut)
	long := b.ws + strings.Repeat("/"+strings.Repeat("n", 200), 22)
	for name, c := range map[string]struct{ path, read, write string }{
		"up to what is denied": {b.ws + "/sub/../../out/secret.txt", denied, denied},
		"up from a file":       {b.ws + "/a.txt/../../out/secret.txt", denied, denied}, // names alone count
		"NUL":                  {b.ws + "/a\x00.txt", "-32600 Invalid argument (os error 22)", "-32600 Invalid argument (os error 22)"},
		"long":                 {long, "-32603 Filename too long (os error 36)", "-32603 Filename too long (os error 36)"},
		"long name":            {b.ws + "/" + strings.Repeat("n", 300), "-32603 Filename too long (os error 36)", "-32603 Filename too long (os error 36)"},
		"loop":                 {b.ws + "/ring", "-32603 Symbolic link loop (os error 40)", "-32603 Symbolic link loop (os error 40)"},
		"not UTF-8":            {b.ws + "/n\xff", ok, ok},
	} {
		if got := outcome(reads(c.path, true)(b, t.Context(), files)); got != c.read {
			t.Errorf("read %s: %q, want %q", name, got, c.read)
		}
		if got := outcome(writes(c.path)(b, t.Context(), files)); got != c.write {
			t.Errorf("write %s: %q, want %q", name, got, c.write)
		}
	}
}

// Reading a file that becomes shorter after it was opened ends at its new
// end.
func TestShrinkingFile(t *testing.T) {
	b := newFixture(t, nil)
	f, err := b.files(denyOut).Open(t.Context(), b.ws+"/a.txt", true)
	b.must(err)
	defer f.Close()
	b.must(os.Truncate(b.ws+"/a.txt", 2))
	if data, err := io.ReadAll(f); string(data) != "in" || err != nil {
		t.Errorf("read %q, %v", data, err)
	}
}

// A full disk destroys no existing content.
func TestFullDisk(t *testing.T) {
	const part = "FSHELPER_DISK"
	if os.Getenv(part) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env, cmd.Dir = append(os.Environ(), part+"=1"), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		switch {
		case errors.Is(err, unix.EPERM) || strings.Contains(string(out), "--- SKIP"):
			t.Skipf("cannot mount a small disk: %v\n%s", err, out)
		case err != nil || !strings.Contains(string(out), "--- PASS"):
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	b := newFixture(t, nil)
	if err := unix.Mount("tmpfs", b.ws, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip(err)
	}
	defer func() {
		b.pool.Close()
		b.must(unix.Unmount(b.ws, 0))
	}()
	content := strings.Repeat("old ", 10_000)
	b.write(b.ws+"/f", content)
	b.write(b.ws+"/hard", content)
	b.must(os.Link(b.ws+"/hard", b.ws+"/hard2"))
	big := bytes.Repeat([]byte("new "), 100_000)
	for _, name := range []string{"/f", "/hard", "/missing"} {
		err := b.files(workspace).WriteFile(t.Context(), b.ws+name, big, true)
		if got := outcome(err); got != "-32603 No space left on device (os error 28)" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, name := range []string{"/f", "/hard"} {
		if text, _ := os.ReadFile(b.ws + name); string(text) != content {
			t.Errorf("%s has lost its content", name)
		}
	}
	if entries, err := os.ReadDir(b.ws); err != nil || len(entries) != 3 {
		t.Errorf("left: %v %v", entries, err)
	}
}

// If a protected name is created or removed at any time while a sandbox is built,
// as other programs do, every request is served all the same.
func TestProtectedNameChangesDuringStart(t *testing.T) {
	if !soak.Full() {
		t.Skip("runs in make soak only")
	}
	b := newFixture(t, nil)
	name := b.ws + "/.agents"
	for i := range 80 {
		changed := make(chan struct{})
		time.AfterFunc(time.Duration(i/2)*time.Millisecond, func() {
			defer close(changed)
			if i%2 == 0 {
				os.Mkdir(name, 0o755)
			} else {
				os.Remove(name)
			}
		})
		pool := New(Config{Confiner: b.confiner, Procs: b.procs})
		files, err := pool.Files(t.Context(), b.intent(workspace))
		if err == nil {
			err = files.WriteFile(t.Context(), b.ws+"/x", nil, true)
		}
		if err != nil {
			t.Errorf("%v after %v ms: %v", i%2 == 0, i/2, err)
		}
		pool.Close()
		<-changed
	}
}
