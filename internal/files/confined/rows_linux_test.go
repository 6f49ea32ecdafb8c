package confined

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
	"github.com/tetherexec/tether/wire"
)

// Errors in the form of the wire.
const (
	ok       = ""
	missing  = "-32004 No such file or directory (os error 2)"
	denied   = "-32600 Permission denied (os error 13)"
	readonly = "-32603 Read-only file system (os error 30)"
)

// outcome returns the result of a request as text.
func outcome(err error) string {
	if err == nil {
		return ok
	}
	if e, is := errors.AsType[*wire.Error](err); is {
		return wireText(e.Code, e.Message)
	}
	if e, is := errors.AsType[*files.Error](err); is {
		return wireText(e.Code(), e.Error())
	}
	return "? " + err.Error()
}

func wireText(code int, text string) string {
	return map[int]string{-32004: "-32004 ", -32600: "-32600 ", -32602: "-32602 ", -32603: "-32603 "}[code] + text
}

// A row is a request with its result in the table of the specification.
type row struct {
	name, policy string
	do           func(*fixture, context.Context, files.Files) error
	want         string // $WS stands for the workspace
}

func reads(path string, follow bool) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, _ context.Context, f files.Files) error {
		_, err := b.read(f, b.at(path), follow)
		return err
	}
}

func writes(path string) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		return f.WriteFile(ctx, b.at(path), []byte("new"), true)
	}
}

func replaces(path string) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		file, err := f.Replace(ctx, b.at(path))
		if err != nil {
			return err
		}
		defer file.Close()
		if info, err := os.Stat(b.at(path)); err != nil || info.Size() != 0 {
			b.Errorf("%s was not emptied at once: %v %v", path, info, err)
		}
		_, err = file.WriteString("block")
		return err
	}
}

func creates(path string, recursive bool) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		return f.CreateDirectory(ctx, b.at(path), recursive, true)
	}
}

func removes(path string) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		return f.Remove(ctx, b.at(path), files.RemoveHow{Recursive: true, Force: true, Follow: true})
	}
}

func copies(from, to string) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		return f.Copy(ctx, b.at(from), b.at(to), true)
	}
}

func looks(path string) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		_, err := f.Metadata(ctx, b.at(path), true)
		return err
	}
}

func lists(path string) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		_, err := f.ReadDirectory(ctx, b.at(path))
		return err
	}
}

func canonicalizes(path string) func(*fixture, context.Context, files.Files) error {
	return func(b *fixture, ctx context.Context, f files.Files) error {
		_, err := f.Canonicalize(ctx, b.at(path))
		return err
	}
}

func (b *fixture) at(path string) string {
	return strings.NewReplacer("$WS", b.ws, "$OUT", b.out).Replace(path)
}

var rows = []row{
	{"CF02", readOnly, reads("$OUT/secret.txt", true), ok},
	{"CF03", minimalRead, reads("$WS/a.txt", true), ok},
	{"CF04", minimalRead, reads("$OUT/secret.txt", true), missing},
	{"CF05", minimalRead, reads("$WS/filelink", true), missing},
	{"CF06", minimalRead, reads("$WS/dirlink/secret.txt", true), missing},
	{"CF07", minimalRead, reads("$WS/hardlink", true), ok},
	{"CF08", denyOut, reads("$OUT/secret.txt", true), denied},
	{"CF09", denyOut, reads("$WS/filelink", true), denied},
	{"CF16", readOnly, reads("$WS/filelink", false), "-32603 Symbolic link loop (os error 40)"},
	{"CF16 inside", minimalRead, reads("$WS/filelink", false), "-32603 Symbolic link loop (os error 40)"},
	{"CF16 on the way", denyOut, reads("$WS/dirlink/secret.txt", false), "-32603 Not a directory (os error 20)"},
	{"CF30", readOnly, writes("$WS/a.txt"), readonly},
	{"CF31", workspace, writes("$WS/new"), ok},
	{"CF31 existing", workspace, writes("$WS/a.txt"), ok},
	{"CF32", workspace, writes("$OUT/new"), readonly},
	{"CF33", workspace, writes("$WS/filelink"), readonly},
	{"CF34", workspace, writes("$WS/dirlink/secret.txt"), readonly},
	{"CF35", workspace, writes("$WS/.git/config"), readonly},
	{"CF36", workspace, writes("$WS/.codex/x"), readonly},
	{"CF36 itself", workspace, writes("$WS/.codex"), readonly},
	{"CF36 through a link", workspace, writes("$WS/togit"), readonly},
	{"CF37", workspace, writes("$WS/no/such"), missing},
	{"CF38", workspace, writes("$WS/hardlink"), ok},
	{"CF41", workspace, writes("/dev/shm/tether-test"), readonly},
	{"CF41 scratch", minimalRW, writes("/tmp/tether-test"), readonly},
	{"CF41 root", minimalRW, writes("/tether-test"), readonly},
	{"CF41 private", rootDeny, writes("/dev/shm/tether-test"), readonly},
	{"CF41 null", minimalRW, writes("/dev/null"), ok},
	{"write nothing of /proc", rootDeny, writes("/proc/self/comm"), readonly},
	{"write a directory", workspace, writes("$WS/sub"), "-32603 Is a directory (os error 21)"},
	{"write a FIFO", workspace, writes("$WS/fifo"), "-32600 path `$WS/fifo` is not a file"},
	{"CF50", workspace, creates("$WS/new/deep", true), ok},
	{"CF50 again", workspace, creates("$WS/sub", true), ok},
	{"CF50 once", workspace, creates("$WS/sub", false), "-32603 File exists (os error 17)"},
	{"CF50 parent", workspace, creates("$WS/no/deep", false), missing},
	{"CF51", workspace, creates("$OUT/new", true), readonly},
	{"CF51 a file", workspace, creates("$WS/a.txt", true), "-32603 File exists (os error 17)"},
	{"CF52", workspace, creates("$WS/.agents", true), readonly},
	{"CF52 below", workspace, creates("$WS/.agents/deep", true), readonly},
	{"CF52 dangling", workspace, creates("$WS/togit", true), "-32603 File exists (os error 17)"},
	{"CF55", denyOut, looks("$OUT"), ok},
	{"CF56", denyOut, looks("$OUT/secret.txt"), denied},
	{"CF57", minimalRead, lists("$WS"), ok},
	{"CF59", denyOut, lists("$OUT"), denied},
	{"CF60", workspace, removes("$WS/sub"), ok},
	{"CF60 missing", workspace, removes("$WS/nothing"), ok},
	{"CF61", workspace, removes("$OUT/secret.txt"), readonly},
	{"CF61 missing", workspace, removes("$OUT/nothing"), ok},
	{"CF61 missing, read-only", readOnly, removes("$WS/nothing"), ok},
	{"CF62", workspace, removes("$WS/.aws"), readonly},
	{"CF62 missing", workspace, removes("$WS/.git"), readonly},
	{"CF63", workspace, removes("$WS/filelink"), ok},
	{"CF64", workspace, copies("$OUT/secret.txt", "$WS/copy"), ok},
	{"CF64 directory", workspace, copies("$OUT", "$WS/deep/copy"), ok},
	{"CF65", workspace, copies("$WS/a.txt", "$OUT/copy"), readonly},
	{"CF66", denyOut, copies("$OUT/secret.txt", "$WS/copy"), denied},
	{"copy to a protected name", workspace, copies("$OUT", "$WS/.git"), readonly},
	{"copy a protected name along", workspace, copies("$OUT/repo", "$WS"), readonly},
	{"copy a directory onto a file", workspace, copies("$WS/sub", "$WS/a.txt"), "-32603 File exists (os error 17)"},
	{"copy a directory onto a link to nothing", workspace, copies("$WS/sub", "$WS/togit"), "-32603 File exists (os error 17)"},
	{"copy nothing into what cannot be written", workspace, copies("$WS/sub", "$OUT"), ok},
	{"copy something into what cannot be written", workspace, copies("$WS", "$OUT/repo"), readonly},
	{"copy onto a FIFO", workspace, copies("$WS/a.txt", "$WS/fifo"), "-32600 path `$WS/fifo` is not a file"},
	{"copy a link", workspace, copies("$WS/filelink", "$WS/copy"), ok},
	{"copy a link onto something", workspace, copies("$WS/filelink", "$WS/a.txt"), "-32603 File exists (os error 17)"},
	{"copy a link to a protected name", workspace, copies("$WS/filelink", "$WS/.git"), readonly},
	{"copy onto itself", workspace, copies("$WS/a.txt", "$WS/a.txt"), ok},
	{"copy through a link to nothing", workspace, copies("$WS/a.txt", "$WS/togit"), readonly},
	{"copy into itself", workspace, copies("$WS/sub", "$WS/sub/deep"), "-32600 fs/copy cannot copy a directory to itself or one of its descendants"},
	{"copy a FIFO", workspace, copies("$WS/fifo", "$WS/copy"), "-32600 fs/copy only supports regular files, directories, and symlinks"},
	{"copy without parent", workspace, copies("$WS/a.txt", "$WS/no/copy"), missing},
	{"copy what a pattern hides", hidden, copies("$WS/later.env", "$WS/copy"), denied},
	{"copy what a pattern hides along", hidden, copies("$WS", "$WS/../out2"), readonly},
	{"CF67", minimalRead, canonicalizes("$WS/filelink"), missing},
	{"CF68", readOnly, canonicalizes("$WS/filelink"), ok},
	{"CF81", minimalRead, reads("$OUT/secret.txt", true), missing},
	{"CF84", readOnly, reads("$WS/sub", true), "-32600 path `$WS/sub` is not a file"},
	{"CF84 inside", denyOut, reads("$WS/sub", true), "-32600 path `$WS/sub` is not a file"},
	{"CF85", readOnly, reads("/dev/zero", true), "-32600 path `/dev/zero` is not a file"},
	{"CF87", denyOut, reads("$WS/fifo", true), "-32600 path `$WS/fifo` is not a file"},
	{"CF90", workspace, replaces("$WS/a.txt"), ok},
	{"CF90 new", workspace, replaces("$WS/new"), ok},
	{"CF90 outside", workspace, replaces("$OUT/secret.txt"), readonly},
	{"CF90 protected", workspace, replaces("$WS/.git"), readonly},
	{"CF90 link", workspace, replaces("$WS/filelink"), readonly},
	{"CF90 RO", readOnly, replaces("$WS/a.txt"), readonly},
	{"CF90 directory", workspace, replaces("$WS/sub"), "-32603 Is a directory (os error 21)"},
	{"CF90 FIFO", workspace, replaces("$WS/fifo"), "-32603 No such device or address (os error 6)"},
	{"pattern", hidden, reads("$WS/x.env", true), denied},
	{"pattern, later", hidden, reads("$WS/later.env", true), denied},
	{"pattern, new", hidden, writes("$WS/new.env"), denied},
	{"pattern, other", hidden, writes("$WS/new.txt"), ok},
	{"carve-out", workspace + ", deny $WS/no/secret", writes("$WS/no/secret"), denied},
	{"carve-out, on the way", workspace + ", deny $WS/no/secret", creates("$WS/no", true), readonly},
	{"one file", "read :root, write $WS/a.txt", writes("$WS/a.txt"), ok},
	{"beside one file", "read :root, write $WS/a.txt", writes("$WS/b.txt"), readonly},
}

func TestRows(t *testing.T) {
	for _, r := range rows {
		t.Run(scenario.Name(r.name), func(t *testing.T) {
			b := newFixture(t, nil)
			b.must(os.MkdirAll(b.ws+"/.aws/x", 0o755))
			b.must(os.MkdirAll(b.out+"/repo/.git", 0o755))
			b.must(os.Symlink(".git", b.ws+"/togit"))
			b.must(unix.Mkfifo(b.ws+"/fifo", 0o600))
			b.write(b.ws+"/x.env", "secret")
			files := b.files(r.policy)
			if r.policy == hidden {
				_, err := b.read(files, b.ws+"/a.txt", true) // start the helper
				b.must(err)
				b.write(b.ws+"/later.env", "secret")
			}
			if got, want := outcome(r.do(b, t.Context(), files)), b.at(r.want); got != want {
				t.Errorf("it ended with %q, want %q", got, want)
			}
			for _, name := range []string{"/.git", "/.agents", "/.codex", "/no"} {
				if b.exists(b.ws + name) {
					t.Errorf("%s is on the host", name)
				}
			}
			if text, _ := os.ReadFile(b.out + "/secret.txt"); r.name != "CF38" && string(text) != "outside" {
				t.Errorf("the file outside says %q", text)
			}
			if b.exists("/dev/shm/tether-test") || b.exists("/tmp/tether-test") || b.exists(b.out+"/new") {
				t.Error("something was made outside")
			}
		})
	}
}

// What requests can see (CF91, CF57, CF58, CF69).
func TestVisibleFiles(t *testing.T) {
	b := newFixture(t, nil)
	b.must(os.Symlink("/proc/self/environ", b.ws+"/environ"))
	for _, path := range []string{"/proc/self/environ", "/proc/thread-self/environ", "/dev/../proc/self/environ", b.ws + "/environ"} {
		text, err := b.read(b.files(readOnly), path, true)
		b.must(err)
		for entry := range strings.SplitSeq(strings.TrimRight(text, "\x00"), "\x00") {
			if name, _, _ := strings.Cut(entry, "="); !slices.Contains([]string{"PATH", "TMPDIR", "TMP", "TEMP", "PWD"}, name) {
				t.Errorf("%s shows %s", path, name)
			}
		}
	}
	entries, err := b.files(minimalRead).ReadDirectory(t.Context(), b.ws)
	b.must(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.FileName)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a.txt", "environ", "hardlink", "sub"}) {
		t.Errorf("in the workspace: %v", names)
	}
	entries, err = b.files(minimalRead).ReadDirectory(t.Context(), "/")
	b.must(err)
	if slices.ContainsFunc(entries, func(e wire.DirectoryEntry) bool { return e.FileName == "root" || e.FileName == "home" }) {
		t.Errorf("in the root: %v", entries)
	}
	walk, err := b.files(minimalRead).Walk(t.Context(), b.ws, wire.WalkOptions{MaxDepth: 9, MaxDirectories: 99, MaxEntries: 999, FollowDirectorySymlinks: true})
	if err != nil || len(walk.Entries) != 3 || len(walk.Errors) != 0 {
		t.Errorf("a walk: %+v %v", walk, err)
	}
}

func TestUnconfined(t *testing.T) {
	b := newFixture(t, nil)
	for name, s := range map[string]*wire.Sandbox{
		"none":         nil,
		"disabled":     {Permissions: wire.Permissions{Type: wire.PermissionsDisabled}},
		"external":     {Permissions: wire.Permissions{Type: wire.PermissionsExternal, Network: wire.NetworkRestricted}},
		"unrestricted": {Permissions: wire.Permissions{Type: wire.PermissionsManaged, FileSystem: wire.FileSystemPolicy{Type: wire.FileSystemUnrestricted}}},
		"full write":   b.intent("write :root"),
	} {
		serves, err := b.pool.Files(t.Context(), s)
		if _, direct := serves.(files.Direct); err != nil || !direct {
			t.Errorf("%s: %T %v", name, serves, err)
		}
	}
	if len(b.pool.helpers) > 0 {
		t.Error("a helper was started")
	}
}

func TestRefused(t *testing.T) {
	b := newFixture(t, nil)
	noCwd := func(entries string) *wire.Sandbox {
		s := b.intent(entries)
		s.Cwd = nil
		return s
	}
	foreign := b.intent(readOnly)
	uri, err := wire.ParsePathURI("file:///C:/x")
	b.must(err)
	foreign.Permissions.FileSystem.Entries = append(foreign.Permissions.FileSystem.Entries,
		wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: uri}, Access: wire.AccessRead})
	foreignCwd, foreignRoot := b.intent(minimalRead), b.intent(denyOut)
	foreignCwd.Cwd, foreignRoot.WorkspaceRoots = &uri, []wire.PathURI{uri}
	const noRoots = "-32602 file system sandbox context with dynamic permissions requires cwd"
	for name, c := range map[string]struct {
		intent *wire.Sandbox
		want   string
	}{
		"CF14":          {noCwd(workspace), noRoots},
		"relative glob": {noCwd("read :root, glob *.env"), noRoots},
		"CF15":          {noCwd(readOnly), ok},
		"CF21":          {foreign, "-32600 invalid sandbox permission path URI: 'file:///C:/x' is invalid on 'linux'"},
		"foreign cwd":   {foreignCwd, "-32600 'file:///C:/x' is invalid on 'linux'"},
		"foreign root":  {foreignRoot, "-32600 file system sandbox workspace root is not native to this exec-server host: 'file:///C:/x' is invalid on 'linux'"},
		"no /proc":      {b.intent("read :root, deny /proc"), "-32600 filesystem sandbox cannot be enforced on this executor: /proc is denied, which file requests need"},
		"glob":          {b.intent("read :root, glob /*"), "-32600 filesystem sandbox cannot be enforced on this executor: unreadable glob `/*` cannot be safely expanded; use a pattern with a non-root directory prefix"},
	} {
		if _, err := b.pool.Files(t.Context(), c.intent); outcome(err) != c.want {
			t.Errorf("%s: %q, want %q", name, outcome(err), c.want)
		}
	}
	alone := New(Config{})
	defer alone.Close()
	if _, err := alone.Files(t.Context(), b.intent(readOnly)); outcome(err) != "-32600 filesystem sandbox cannot be enforced on this executor" {
		t.Errorf("without a confiner: %v", err)
	}
}

// An errno of the helper keeps its identity.
func TestErrorIdentity(t *testing.T) {
	b := newFixture(t, nil)
	err := b.files(workspace).WriteFile(t.Context(), b.out+"/new", nil, true)
	if !errors.Is(err, syscall.EROFS) {
		t.Errorf("%v is not EROFS", err)
	}
}

// A pattern also hides files that were created later.
func TestWalkHidesLaterMatches(t *testing.T) {
	b := newFixture(t, nil)
	if _, err := b.read(b.files(hidden), b.ws+"/a.txt", true); err != nil { // start the helper
		t.Fatal(err)
	}
	b.must(os.Mkdir(b.ws+"/late.env", 0o755))
	b.write(b.ws+"/late.env/key", "secret")
	walk, err := b.files(hidden).Walk(t.Context(), b.ws, wire.WalkOptions{MaxDepth: 9, MaxDirectories: 99, MaxEntries: 999})
	b.must(err)
	seen := false
	for _, entry := range walk.Entries {
		seen = seen || strings.HasSuffix(entry.Path, "/a.txt")
		if strings.HasSuffix(entry.Path, "/key") {
			t.Errorf("the walk shows %s", entry.Path)
		}
	}
	if !seen {
		t.Errorf("the walk shows only %v", walk.Entries)
	}
	if got := outcome(lists("$WS/late.env")(b, t.Context(), b.files(hidden))); got != denied {
		t.Errorf("listing it: %q", got)
	}
}
