//go:build unix

package statedir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/statedir"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// stranger is a user other than root and the user of the tests.
const stranger = 4321

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// realTemp is the path of a temporary directory without links.
func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

// makeDir makes a directory with exactly this mode.
func makeDir(t *testing.T, name string, mode os.FileMode) string {
	t.Helper()
	must(t, os.MkdirAll(name, 0o700))
	must(t, os.Chmod(name, mode))
	return name
}

// giveAway gives a file, or a link itself, to another user.
func giveAway(t *testing.T, name string, uid, gid int) {
	t.Helper()
	need.Root(t, "to give something to another user")
	must(t, os.Lchown(name, uid, gid))
}

func openState(name string) (string, error) {
	d, err := statedir.Open(name)
	if err != nil {
		return "", err
	}
	return d.Shared, d.Close()
}

// In the directory of another user no link is followed, and nothing is locked or
// removed.
func TestStateDirOfAnotherUser(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	victim := makeDir(t, filepath.Join(dir, "victim"), 0o700)
	const left = ".tether-upload-1.tmp"
	must(t, os.WriteFile(filepath.Join(victim, left), []byte("precious"), 0o600))

	state := makeDir(t, filepath.Join(dir, "state"), 0o755)
	journal := makeDir(t, filepath.Join(state, "server-1", "uploads"), 0o755)
	must(t, os.WriteFile(filepath.Join(journal, left), []byte(victim), 0o644))
	must(t, os.Symlink(filepath.Join(victim, "made"), filepath.Join(state, "lock")))
	giveAway(t, state, stranger, stranger)

	_, err := openState(state)
	if err == nil || !strings.Contains(err.Error(), state+" belongs to user 4321: name a directory of your own with XDG_STATE_HOME") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(victim, left)); err != nil {
		t.Errorf("the sweep used the files of the other user: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(victim, "made")); !os.IsNotExist(err) {
		t.Errorf("the lock file was made through a link: %v", err)
	}
}

func TestStateDirThatOthersCanChange(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		mode  os.FileMode // of the state directory
		above os.FileMode // of its parent directory
		group int         // of both; -1: this user's own
		want  string      // end of the path that is refused; "": none
	}{
		{"private", 0o700, 0o700, -1, ""},
		{"readable", 0o755, 0o755, -1, ""},
		{"own group", 0o775, 0o775, -1, ""},
		{"foreign group", 0o775, 0o755, stranger, "/above/state"},
		{"foreign group above", 0o755, 0o775, stranger, "/above"},
		{"everybody", 0o777, 0o755, -1, "/above/state"},
		{"everybody, sticky", 0o777 | os.ModeSticky, 0o755, -1, "/above/state"},
		{"everybody above", 0o755, 0o777, -1, "/above"},
		{"everybody above, sticky", 0o755, 0o777 | os.ModeSticky, -1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			above := makeDir(t, filepath.Join(realTemp(t), "above"), row.above)
			state := makeDir(t, filepath.Join(above, "state"), row.mode)
			if row.group >= 0 {
				giveAway(t, state, os.Geteuid(), row.group)
				giveAway(t, above, os.Geteuid(), row.group)
				must(t, os.Chmod(state, row.mode))
				must(t, os.Chmod(above, row.above))
			}
			_, err := openState(state)
			if row.want == "" {
				must(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), "other users may change "+strings.TrimSuffix(above, "/above")+row.want+" (mode ") {
				t.Errorf("%v", err)
			}
			if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
				t.Errorf("something was made: %v, %v", left, err)
			}
		})
	}
}

// A user that can make a link, or owns a directory on the path, controls where the path
// leads.
func TestStateDirPathThroughAnotherUser(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	shared := makeDir(t, filepath.Join(dir, "shared"), 0o777|os.ModeSticky)
	target := makeDir(t, filepath.Join(dir, "target"), 0o700)
	link := filepath.Join(shared, "link")
	must(t, os.Symlink(target, link))
	if got, err := openState(filepath.Join(link, "state")); err != nil || got != filepath.Join(target, "state") {
		t.Errorf("our own link: %s, %v", got, err)
	}
	must(t, os.RemoveAll(filepath.Join(target, "state")))

	giveAway(t, link, stranger, stranger)
	theirs := makeDir(t, filepath.Join(shared, "theirs"), 0o755)
	giveAway(t, theirs, stranger, stranger)
	for name, want := range map[string]string{
		filepath.Join(link, "state"):   "the link " + link + " belongs to user 4321",
		filepath.Join(theirs, "state"): theirs + " belongs to user 4321",
	} {
		if _, err := openState(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, made := range []string{filepath.Join(target, "state"), filepath.Join(theirs, "state")} {
		if _, err := os.Lstat(made); !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", made, err)
		}
	}
}

// The sweep uses only directories of this user, and opens no links.
func TestSweepFollowsNoLinks(t *testing.T) {
	t.Parallel()
	dir := realTemp(t)
	state := makeDir(t, filepath.Join(dir, "state"), 0o700)
	outside := makeDir(t, filepath.Join(dir, "outside"), 0o700)
	must(t, os.Symlink(outside, filepath.Join(state, "server-link")))
	locked := makeDir(t, filepath.Join(state, "server-locked"), 0o700)
	must(t, os.Symlink(filepath.Join(outside, "made"), filepath.Join(locked, "lock")))
	if _, err := openState(state); err != nil {
		t.Error(err)
	}
	if made, err := os.ReadDir(outside); err != nil || len(made) > 0 {
		t.Errorf("a link was followed: %v, %v", made, err)
	}
}

func TestStateDirLoops(t *testing.T) {
	t.Parallel()
	loop := filepath.Join(realTemp(t), "loop")
	must(t, os.Symlink(loop, loop))
	if _, err := openState(loop); err == nil || !strings.Contains(err.Error(), "too many levels of symbolic links") {
		t.Error(err)
	}
}

// If a state directory cannot be made, the error says how to choose another one.
func TestStateDirThatCannotBeMade(t *testing.T) {
	name := filepath.Join(t.TempDir(), strings.Repeat("x", 300))
	_, err := statedir.Trusted(name)
	if want := "lstat " + name + ": file name too long; name a directory of your own with XDG_STATE_HOME"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
