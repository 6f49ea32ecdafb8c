package confined

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// hiddenPaths returns paths that lead to the private directory and to the
// private file.
func hiddenPaths(b *fixture) (dirs, files []string) {
	dir, token := shared.private[0], shared.private[1]
	b.must(os.Symlink(dir, b.ws+"/privatelink"))
	b.must(os.Symlink(token, b.ws+"/tokenlink"))
	b.must(os.Symlink(filepath.Dir(dir), b.ws+"/above"))
	dirs = []string{dir, dir + "/", b.ws + "/../ws/privatelink", b.ws + "/above/private"}
	for _, d := range dirs {
		files = append(files, filepath.Join(d, "spool"))
	}
	return dirs, append(files, token, b.ws+"/tokenlink", b.ws+"/above/token")
}

// Requests under a policy that lets everything be read do not get the paths that
// every sandbox hides, even if no sandbox can be built.
func TestHidden(t *testing.T) {
	b := newFixture(t, nil)
	dirs, paths := hiddenPaths(b)
	noHelper := func(s *wire.Sandbox) { s.UseLegacyLandlock = true }
	for name, c := range map[string]struct {
		policy string
		change func(*wire.Sandbox)
	}{
		"read-only":              {readOnly, func(*wire.Sandbox) {}},
		"workspace":              {workspace, func(*wire.Sandbox) {}},
		"around the private one": {"read :root, write " + filepath.Dir(shared.private[0]), func(*wire.Sandbox) {}},
		"named by an entry":      {"read :root, read " + shared.private[0], func(*wire.Sandbox) {}},
		"without a helper":       {readOnly, noHelper},
	} {
		t.Run(name, func(t *testing.T) {
			intent := b.intent(c.policy)
			c.change(intent)
			files, err := b.pool.Files(t.Context(), intent)
			b.must(err)
			for _, path := range paths {
				for _, follow := range []bool{true, false} {
					if text, err := b.read(files, path, follow); err == nil {
						t.Errorf("reading %s, follow %v: %q", path, follow, text)
					}
				}
			}
			for _, path := range append(paths, dirs...) {
				b.refusesFacts(t, files, path)
			}
			for _, path := range dirs {
				if got := outcome(lists(path)(b, t.Context(), files)); got != denied {
					t.Errorf("listing %s: %q", path, got)
				}
			}
		})
	}
}

// refusesFacts checks that no fact about a path is returned.
func (b *fixture) refusesFacts(t *testing.T, files files.Files, path string) {
	if got := outcome(looks(path)(b, t.Context(), files)); got != denied {
		t.Errorf("metadata of %s: %q", path, got)
	}
	if got := outcome(canonicalizes(path)(b, t.Context(), files)); got != denied {
		t.Errorf("canonicalizing %s: %q", path, got)
	}
	_ = files.Copy(t.Context(), path, b.ws+"/copy", true)
	if info, err := os.Lstat(b.ws + "/copy"); err == nil && info.Mode()&os.ModeSymlink == 0 { // a link reveals nothing
		t.Errorf("%s was copied", path)
	}
	b.must(os.RemoveAll(b.ws + "/copy"))
}

// A walk leaves hidden paths out.
func TestHiddenFromWalk(t *testing.T) {
	b := newFixture(t, nil)
	above := filepath.Dir(shared.private[0])
	b.must(os.Symlink(shared.private[0], b.ws+"/privatelink"))
	for _, policy := range []string{readOnly, workspace} {
		for _, c := range []struct {
			root   string
			follow bool
		}{{above, false}, {above, true}, {shared.private[0], false}, {b.ws, true}} {
			walk, err := b.files(policy).Walk(t.Context(), c.root, wire.WalkOptions{
				MaxDepth: 9, MaxDirectories: 99, MaxEntries: 999, FollowDirectorySymlinks: c.follow,
			})
			if err != nil && c.root != shared.private[0] {
				t.Errorf("%s: %v", c.root, err)
			}
			for _, entry := range walk.Entries {
				if strings.HasSuffix(entry.Path, "/spool") {
					t.Errorf("a walk of %s, links followed %v, shows %s", c.root, c.follow, entry.Path)
				}
			}
			if c.root == above && len(walk.Errors) == 0 {
				t.Errorf("a walk of %s does not say that something is missing: %+v", c.root, walk)
			}
		}
	}
}

// A private path is hidden where its links lead at the time of a request.
func TestHiddenBehindLink(t *testing.T) {
	b := newFixture(t, nil)
	files := b.files(readOnly)
	b.write(b.out+"/rotated", privateText)
	if text, err := b.read(files, b.out+"/rotated", true); err != nil || text != privateText {
		t.Fatalf("before: %q %v", text, err)
	}
	link := filepath.Dir(shared.private[2])
	b.must(os.Remove(link))
	b.must(os.Symlink(b.out, link))
	t.Cleanup(func() { os.Remove(link) })
	if got := outcome(reads(b.out+"/rotated", true)(b, t.Context(), files)); got != denied {
		t.Errorf("afterwards: %q", got)
	}
}

// The kernel's own links lead neither to hidden paths nor to the open files of this
// process.
func TestHiddenFromMagicLinks(t *testing.T) {
	b := newFixture(t, nil)
	token, err := os.Open(shared.private[1])
	b.must(err)
	defer token.Close()
	b.must(os.Symlink("/proc/self", b.ws+"/self"))
	b.must(os.Symlink("/proc/self/fd/"+strconv.Itoa(int(token.Fd())), b.ws+"/open"))
	for _, path := range []string{b.ws + "/open", b.ws + "/self/fd/" + strconv.Itoa(int(token.Fd())), b.ws + "/self/root" + shared.private[1]} {
		if text, err := b.read(b.files(readOnly), path, true); err == nil {
			t.Errorf("%s is %q", path, text)
		}
	}
}
