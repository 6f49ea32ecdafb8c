package confined

import (
	"os"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// If a .git file is rewritten, the directory that it names now is protected, also if
// an entry is about the file.
func TestRewrittenGitFile(t *testing.T) {
	b := newFixture(t, nil)
	b.must(os.Mkdir(b.ws+"/one", 0o755))
	b.must(os.Mkdir(b.ws+"/two", 0o755))
	b.write(b.ws+"/.git", "gitdir: one")
	for _, policy := range []string{workspace, workspace + ", read $WS/.git"} {
		b.write(b.ws+"/.git", "gitdir: one\n")
		b.must(b.files(policy).WriteFile(t.Context(), b.ws+"/two/config", nil, true))
		b.write(b.ws+"/.git", "gitdir: two\n") // the same file
		if got := outcome(b.files(policy).WriteFile(t.Context(), b.ws+"/two/config", []byte("x"), true)); got != readonly {
			t.Errorf("%s: it ended with %q", policy, got)
		}
	}
}

// A pattern applies to the directory where its links lead now.
func TestRepointedPattern(t *testing.T) {
	b := newFixture(t, nil)
	for _, dir := range []string{"/one", "/two"} {
		b.must(os.Mkdir(b.out+dir, 0o755))
		b.write(b.out+dir+"/x.env", "secret")
	}
	b.must(os.Symlink("one", b.out+"/link"))
	const policy = "read :root, write $WS, glob $OUT/link/*.env"
	if got := outcome(reads("$OUT/link/x.env", true)(b, t.Context(), b.files(policy))); got != denied {
		t.Fatalf("before: %q", got)
	}
	b.repoint("link", "two")
	if got := outcome(reads("$OUT/link/x.env", true)(b, t.Context(), b.files(policy))); got != denied {
		t.Errorf("afterwards: %q", got)
	}
}

// If a pattern matches a link, the present target of the link is hidden.
func TestRepointedMatch(t *testing.T) {
	b := newFixture(t, nil)
	b.write(b.out+"/one", "secret")
	b.write(b.out+"/two", "secret")
	b.must(os.Symlink("one", b.out+"/x.env"))
	const policy = "read :root, write $WS, glob $OUT/*.env"
	if got := outcome(reads("$OUT/x.env", true)(b, t.Context(), b.files(policy))); got != denied {
		t.Fatalf("before: %q", got)
	}
	b.repoint("x.env", "two")
	if got := outcome(reads("$OUT/x.env", true)(b, t.Context(), b.files(policy))); got != denied {
		t.Errorf("afterwards: %q", got)
	}
}

// repoint changes the target of a link outside the workspace, atomically.
func (b *fixture) repoint(link, target string) {
	b.must(os.Symlink(target, b.out+"/new"))
	b.must(os.Rename(b.out+"/new", b.out+"/"+link))
}

// Removing a directory does not remove files in it that a pattern hides, also if
// they were created later.
func TestRemoveKeepsHiddenFiles(t *testing.T) {
	b := newFixture(t, nil)
	if _, err := b.read(b.files(hidden), b.ws+"/a.txt", true); err != nil { // start the helper
		t.Fatal(err)
	}
	b.must(os.MkdirAll(b.ws+"/dir/deep", 0o755))
	b.write(b.ws+"/dir/deep/late.env", "secret")
	if got := outcome(removes("$WS/dir")(b, t.Context(), b.files(hidden))); got != denied {
		t.Errorf("it ended with %q", got)
	}
	if !b.exists(b.ws + "/dir/deep/late.env") {
		t.Error("it is gone")
	}
	b.must(os.Remove(b.ws + "/dir/deep/late.env"))
	b.must(removes("$WS/dir")(b, t.Context(), b.files(hidden)))
}

// A walk that follows links does not show a hidden file through a link.
func TestWalkThroughLinkHidesLaterMatches(t *testing.T) {
	b := newFixture(t, nil)
	if _, err := b.read(b.files(hidden), b.ws+"/a.txt", true); err != nil { // start the helper
		t.Fatal(err)
	}
	b.must(os.Mkdir(b.ws+"/late.env", 0o755))
	b.write(b.ws+"/late.env/key", "secret")
	b.must(os.Symlink("late.env", b.ws+"/0")) // comes first
	b.write(b.ws+"/sub/seen", "")
	walk, err := b.files(hidden).Walk(t.Context(), b.ws, wire.WalkOptions{MaxDepth: 9, MaxDirectories: 99, MaxEntries: 999, FollowDirectorySymlinks: true})
	b.must(err)
	seen := false
	for _, entry := range walk.Entries {
		seen = seen || strings.HasSuffix(entry.Path, "/sub/seen")
		if strings.HasSuffix(entry.Path, "/key") {
			t.Errorf("the walk shows %s", entry.Path)
		}
	}
	if !seen {
		t.Errorf("the walk shows only %v", walk.Entries)
	}
}

// An empty directory is not copied onto a placeholder of a command: it would be
// removed with the placeholder.
func TestCopyOntoHeldName(t *testing.T) {
	b := newFixture(t, nil)
	b.must(os.MkdirAll(b.ws+"/tree/.git", 0o755))
	prepared, err := b.confiner.Prepare(t.Context(), confine.Request{
		Intent: b.intent(workspace), Spec: proc.Spec{Argv: []string{"cat"}, Dir: b.ws, Env: []string{"PATH=/usr/bin:/bin"}, PipeStdin: true},
	})
	b.must(err)
	command, err := prepared.Start(t.Context(), b.procs, new(proc.Capture))
	b.must(err)
	defer command.Kill()
	if !b.exists(b.ws + "/.git") {
		t.Fatal("the command holds nothing")
	}
	for source, target := range map[string]string{"$WS/sub": "$WS/.git", "$WS/tree": "$WS"} {
		if got := outcome(copies(source, target)(b, t.Context(), b.files(workspace))); got != readonly {
			t.Errorf("%s onto %s: %q", source, target, got)
		}
	}
}
