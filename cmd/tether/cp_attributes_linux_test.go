package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// directions are upload, download, and a copy within the server's machine.
var directions = map[string]func(from, to string) []string{
	"upload":        func(from, to string) []string { return []string{from, ":" + to} },
	"download":      func(from, to string) []string { return []string{":" + from, to} },
	"on the server": func(from, to string) []string { return []string{":" + from, ":" + to} },
}

// writeTree makes files with permissions, independent of the umask. A name that ends in a slash is a
// directory. Directories get their permissions and times last.
func writeTree(t *testing.T, dir string, tree map[string]fs.FileMode) {
	t.Helper()
	names := make([]string, 0, len(tree))
	for name := range tree {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		path := filepath.Join(dir, name)
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(name), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(names)
	for i, name := range names {
		path := filepath.Join(dir, name)
		at := time.Date(2001, 2, 3, 4, 5, i, 678_000_000, time.UTC)
		if err := os.Chmod(path, tree[name]); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// readTree returns the permissions of all files below a directory, and their times if times is set.
func readTree(t *testing.T, dir string, times bool) map[string]string {
	t.Helper()
	seen := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		seen[name] = info.Mode().String()
		if times && info.Mode()&fs.ModeSymlink == 0 {
			seen[name] += info.ModTime().UTC().Format(" 15:04:05.000")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestCopyKeepsTimesAndPermissions(t *testing.T) {
	t.Parallel()
	tree := map[string]fs.FileMode{"./": 0o750, "run.sh": 0o755, "secret": 0o600, "old": 0o444, "locked/": 0o500, "locked/deep/": 0o711, "locked/deep/x": 0o741}
	for name, sides := range directions {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			from, to := filepath.Join(b.work, "from"), filepath.Join(t.TempDir(), "to")
			writeTree(t, from, tree)
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(to, "old"), []byte("of before"), 0o666); err != nil { // keeps nothing of this
				t.Fatal(err)
			}
			line := cableToServer(t)
			lost := line.On(cable.FromServer, cable.Answer("tether/fs/setAttributes"), cable.SeverBefore)
			args := append([]string{"cp", "-q", "-p", "--verify", "--url", line.URL()}, sides(from+"/.", to)...)
			if got := b.tether(nil, args...); got != (end{}) {
				t.Fatalf("%+v", got)
			}
			want, got := readTree(t, from, true), readTree(t, to, true)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if name != "download" && lost.Count() == 0 {
				t.Error("no answer was lost")
			}
		})
	}
}

// Without -p, a new file gets the permissions of its source, so that programs stay executable; a
// local file without those of the umask. A file that is replaced keeps its permissions.
func TestNewFilesGetPermissionsOfTheSource(t *testing.T) {
	t.Parallel()
	tree := map[string]fs.FileMode{"./": 0o755, "run.sh": 0o755, "open": 0o777, "secret": 0o600, "old": 0o755}
	for name, want := range map[string]string{
		"upload":   "map[old:-rw-r----- open:-rwxrwxrwx run.sh:-rwxr-xr-x secret:-rw-------]",
		"download": "map[old:-rw-r----- open:-rwxr-x--- run.sh:-rwxr-x--- secret:-rw-------]",
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			from, to := filepath.Join(b.work, "from"), t.TempDir()
			writeTree(t, from, tree)
			if err := os.WriteFile(filepath.Join(to, "old"), []byte("of before"), 0o640); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"cp", "-q", "--url", tethertest.StartServer(t, server.Config{}).URL}, directions[name](from+"/.", to)...)
			cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `umask 027; exec "$0" "$@"`, b.self}, args...)...)
			cmd.Dir, cmd.Env = b.work, b.env
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%v, %s", err, out)
			}
			got := readTree(t, to, false)
			delete(got, ".")
			if fmt.Sprint(got) != want {
				t.Errorf("got %v, want %s", got, want)
			}
		})
	}
}

// If a server does not report permissions, -p is refused before anything is copied, and without -p
// the umask decides about new files.
func TestCopyToServerWithoutPermissions(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	line.On(cable.FromServer, cable.Answer("initialize").Always(), cable.Amend(func(members map[string]any) {
		delete(members["result"].(map[string]any), "tether")
	}))
	from, to := filepath.Join(b.work, "from"), t.TempDir()
	writeTree(t, from, map[string]fs.FileMode{"./": 0o755, "run.sh": 0o751})
	for name, sides := range directions {
		got := b.tether(nil, append([]string{"cp", "-p", "--url", line.URL()}, sides(from+"/.", to)...)...)
		if got.code != exitError || !strings.Contains(got.stderr, "copy without -p") {
			t.Errorf("%s: %+v", name, got)
		}
		onlyFiles(t, to)
	}
	args := append([]string{"-c", `umask 022; exec "$0" "$@"`, b.self, "cp", "-q", "--url", line.URL()}, directions["download"](from+"/.", to)...)
	cmd := exec.CommandContext(t.Context(), "sh", args...)
	cmd.Dir, cmd.Env = b.work, b.env
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v, %s", err, out)
	}
	if got := readTree(t, to, false); got["run.sh"] != "-rw-r--r--" {
		t.Errorf("got %v", got)
	}
}

func TestCopyExcludes(t *testing.T) {
	t.Parallel()
	url := tethertest.StartServer(t, server.Config{}).URL
	tree := map[string]fs.FileMode{"./": 0o755, "main.c": 0o644, "main.o": 0o644, "build/": 0o755, "build/x": 0o644, ".git/": 0o755, ".git/config": 0o644,
		"lib/": 0o755, "lib/a.o": 0o644, "lib/build/": 0o755, "lib/build/y": 0o644, "lib/log": 0o644, "log/": 0o755, "log/z": 0o644}
	for _, try := range []struct{ patterns, want string }{
		{"*.o .git", ". build build/x lib lib/build lib/build/y lib/log log log/z main.c"},                                // a name at any depth
		{"/build", ". .git .git/config lib lib/a.o lib/build lib/build/y lib/log log log/z main.c main.o"},                // only at the top
		{"lib/build", ". .git .git/config build build/x lib lib/a.o lib/log log log/z main.c main.o"},                     // from the top
		{"log/", ". .git .git/config build build/x lib lib/a.o lib/build lib/build/y lib/log main.c main.o"},              // only directories
		{"**/build/* {.git,log}", ". build lib lib/a.o lib/build main.c main.o"},                                          // the directories themselves stay
		{"from to", ". .git .git/config build build/x lib lib/a.o lib/build lib/build/y lib/log log log/z main.c main.o"}, // the source itself is no path below it
	} {
		for name, sides := range directions {
			b := newTestEnv(t)
			from, to := filepath.Join(b.work, "from"), filepath.Join(t.TempDir(), "to")
			writeTree(t, from, tree)
			args := []string{"cp", "-q", "--url", url}
			for p := range strings.FieldsSeq(try.patterns) {
				args = append(args, "--exclude", p)
			}
			if got := b.tether(nil, append(args, sides(from, to)...)...); got != (end{}) {
				t.Errorf("%s: %+v", name, got)
			}
			var names []string
			for name := range readTree(t, to, false) {
				names = append(names, name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != try.want {
				t.Errorf("%s, without %s: got %s, want %s", name, try.patterns, got, try.want)
			}
		}
	}
}

// Excluded files need not be readable, and excluded links may be broken.
func TestCopyExcludesBrokenLinks(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	from, to := filepath.Join(b.work, "from"), filepath.Join(t.TempDir(), "to")
	writeTree(t, from, map[string]fs.FileMode{"./": 0o755, "a": 0o644})
	if err := os.Symlink("nowhere", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	if got := b.tether(nil, "cp", "-q", "--exclude", "link", "--url", tethertest.StartServer(t, server.Config{}).URL, from, ":"+to); got != (end{}) {
		t.Errorf("%+v", got)
	}
	onlyFiles(t, to, "a")
}

func TestCopyRefusesFlags(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for _, try := range []struct{ args, want string }{
		{"cp --exclude / x :/y", "the pattern is empty"},
		{"cp --exclude ./x x :/y", "must not have . or .."},
		{"cp --exclude " + strings.Repeat("{a,b}", 9) + " x :/y", "too many alternatives"},
		{"fs put -p - /y", "-p cannot be used with standard input"},
		{"fs get -p /y -", "cannot be used with standard output"},
		{"fs get --exclude x /y -", "cannot be used with standard output"},
	} {
		if got := b.tether(nil, strings.Fields(try.args)...); got.code != exitUsage || !strings.Contains(got.stderr, try.want) {
			t.Errorf("%s: %+v", try.args, got)
		}
	}
}

func TestFsMkdir(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	dir := t.TempDir()
	mkdir := func(args ...string) end {
		return b.tether(nil, append([]string{"fs", "mkdir", "-q", "--url", line.URL()}, args...)...)
	}
	if got := mkdir(dir+"/a", ":"+dir+"/b"); got != (end{}) {
		t.Errorf("%+v", got)
	}
	if got := mkdir(dir+"/a", dir+"/c"); got.code != exitError || !strings.Contains(got.stderr, "/a: ") || strings.Contains(got.stderr, "/c") {
		t.Errorf("one that exists: %+v", got)
	}
	if got := mkdir(dir + "/x/y"); got.code != exitError {
		t.Errorf("one whose parent is missing: %+v", got)
	}
	if got := mkdir("-p", dir+"/x/y", dir+"/a"); got != (end{}) {
		t.Errorf("%+v", got)
	}
	lost := line.On(cable.FromServer, cable.Answer("fs/createDirectory"), cable.SeverBefore)
	if got := mkdir(dir + "/z"); got != (end{}) || lost.Count() == 0 {
		t.Errorf("after a lost answer: %+v", got)
	}
	onlyFiles(t, dir, "a", "b", "c", "x", "z")
	onlyFiles(t, dir+"/x", "y")
}

func TestFsShowsPermissions(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	url := tethertest.StartServer(t, server.Config{}).URL
	writeTree(t, b.work, map[string]fs.FileMode{"run.sh": 0o751})
	for args, want := range map[string]string{"ls -l": "-rwxr-x--x ", "ls --json": `"mode": "0751"`, "stat": "Mode      0751\n", "stat --json": `"mode": "0751"`} {
		got := b.tether(nil, append(append([]string{"fs"}, strings.Fields(args)...), "--url", url, b.work+"/run.sh")...)
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
