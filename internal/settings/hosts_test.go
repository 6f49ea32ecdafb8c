package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func anything(string) error { return nil }

// Hosts are added once each, after what the user has written.
func TestHostsAreAdded(t *testing.T) {
	f := HostsFile{filepath.Join(t.TempDir(), "tether", "allowed-hosts")}
	if got, err := f.Read(anything); got != nil || err != nil {
		t.Errorf("a file that does not exist has %q, %v", got, err)
	}
	if err := os.Mkdir(filepath.Dir(f.Path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Path, []byte("# mine"), 0o600); err != nil { // without a newline
		t.Fatal(err)
	}
	for _, host := range []string{"a.example:443", "example:443", "a.example:443"} {
		if err := f.Add(host); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(f.Path)
	if string(text) != "# mine\na.example:443\nexample:443\n" || err != nil {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// Several programs add hosts at the same time, and none is lost. The file is the user's alone.
func TestHostsAreAddedTogether(t *testing.T) {
	f := HostsFile{filepath.Join(t.TempDir(), "tether", "allowed-hosts")}
	var all sync.WaitGroup
	hosts := []string{"a.example:1", "b.example:1", "c.example:1", "d.example:1", "e.example:1", "f.example:1"}
	for _, host := range hosts {
		all.Go(func() {
			if err := f.Add(host); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := f.Read(anything)
	if slices.Sort(got); !slices.Equal(got, hosts) || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
	for path, want := range map[string]os.FileMode{f.Path: 0o600, filepath.Dir(f.Path): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// A file with a bad line, or one that other users can change, is refused as a whole.
func TestHostsFileIsRefused(t *testing.T) {
	f := HostsFile{filepath.Join(t.TempDir(), "allowed-hosts")}
	if err := os.WriteFile(f.Path, []byte("# comment\n\n a.example \nbad\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Read(anything); !slices.Equal(got, []string{"a.example", "bad"}) || err != nil {
		t.Errorf("the file has %q, %v", got, err)
	}
	_, err := f.Read(func(pattern string) error {
		if pattern == "bad" {
			return errors.New("is bad")
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), `line 4: "bad": is bad`) {
		t.Errorf("a bad line: %v", err)
	}
	if err := os.Chmod(f.Path, 0o622); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"read": second(f.Read(anything)), "add": f.Add("c.example")} {
		if err == nil || !strings.Contains(err.Error(), "other users can change") {
			t.Errorf("%s a file that other users can change: %v", name, err)
		}
	}
}

func second[T, U any](_ T, u U) U { return u }

// A file that commands may change is found to be below their directory, also if it does not exist, and through links.
func TestHostsFileIsBelow(t *testing.T) {
	top := t.TempDir()
	inside, outside := filepath.Join(top, "work"), filepath.Join(top, "config")
	for _, dir := range []string{inside, outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Skip(err)
	}
	for _, row := range []struct {
		file, dir string
		want      bool
	}{
		{filepath.Join(outside, "tether", "allowed-hosts"), inside, false},
		{filepath.Join(inside, "tether", "allowed-hosts"), inside, true},
		{filepath.Join(link, "allowed-hosts"), inside, true},
		{filepath.Join(inside, "allowed-hosts"), link, true},
		{filepath.Join(outside, "allowed-hosts"), link, false},
		{filepath.Join(outside, "allowed-hosts"), top, true},
		{filepath.Join(outside, "allowed-hosts"), filepath.Join(top, "missing"), true},
	} {
		if got := (HostsFile{row.file}).IsBelow(row.dir); got != row.want {
			t.Errorf("%s below %s: %v", row.file, row.dir, got)
		}
	}
}
