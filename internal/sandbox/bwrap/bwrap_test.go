package bwrap

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// everything uses each operation once.
var everything = &sandbox.Plan{
	Shape:      sandbox.ShapeNamespaces,
	Namespaces: sandbox.Namespaces{User: true, PID: true, IPC: true, Net: true},
	Filter:     sandbox.FilterRestricted,
	Cwd:        "/ws",
	Ops: []sandbox.Op{
		{Kind: sandbox.OpScratch, Path: "/"},
		{Kind: sandbox.OpDev, Path: "/dev"},
		{Kind: sandbox.OpProc, Path: "/proc"},
		{Kind: sandbox.OpFreeze, Path: "/proc/sys"},
		{Kind: sandbox.OpFreeze, Path: "/proc/irq"},
		{Kind: sandbox.OpDir, Path: "/tmp", Mode: 0o777 | os.ModeSticky},
		{Kind: sandbox.OpSymlink, Path: "/bin", Target: "usr/bin"},
		{Kind: sandbox.OpBindRO, Path: "/usr"},
		{Kind: sandbox.OpBindRW, Path: "/ws"},
		{Kind: sandbox.OpPin, Path: "/ws/a"},
		{Kind: sandbox.OpPlaceholder, Path: "/ws/.git", Mode: os.ModeDir},
		{Kind: sandbox.OpMaskDir, Path: "/ws/.git", Mode: 0o555},
		{Kind: sandbox.OpSeal, Path: "/ws/.git"},
		{Kind: sandbox.OpMaskFile, Path: "/ws/a/hidden", Mode: 0},
		{Kind: sandbox.OpMaskFile, Path: "/ws/a/empty", Mode: 0o444},
	},
}

func TestArguments(t *testing.T) {
	layout := Layout{Filter: 7, HiddenFile: "/state/hidden", EmptyFile: "/state/empty"}
	args, err := Arguments(everything, layout)
	if err != nil {
		t.Fatal(err)
	}
	// One option and its values per line.
	got := strings.ReplaceAll(strings.Join(args, " "), " --", "\n--") + "\n"
	golden := filepath.Join("testdata", "everything.args")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestArgumentsWithDescriptors(t *testing.T) {
	args, err := Arguments(everything, Layout{Sources: map[string]int{"/ws": 11, "/usr": 12}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(args, " ")
	for _, want := range []string{"--bind-fd 11 /ws ", "--ro-bind-fd 12 /usr ", "--bind /ws/a /ws/a "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

func TestArgumentsWithoutUserNamespace(t *testing.T) {
	args, err := Arguments(everything, Layout{NoUserSpace: true})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.Join(args, " "), "--unshare-user") {
		t.Errorf("got %q", args)
	}
}

func TestTooManyArguments(t *testing.T) {
	plan := *everything
	for range maxArguments / 3 {
		plan.Ops = append(plan.Ops, sandbox.Op{Kind: sandbox.OpMaskFile, Path: "/ws/x"})
	}
	if _, err := Arguments(&plan, Layout{}); err == nil || !strings.Contains(err.Error(), "fewer entries") {
		t.Errorf("refused: %v", err)
	}
}

// An operation that bubblewrap cannot do is refused, never left out.
func TestArgumentsRefuse(t *testing.T) {
	for _, plan := range []*sandbox.Plan{
		{Shape: sandbox.ShapeFilter},
		{Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{{Kind: sandbox.OpScratch, Path: "/tmp"}}},
		{Shape: sandbox.ShapeNamespaces, Ops: []sandbox.Op{{Kind: -1, Path: "/tmp"}}},
	} {
		func() {
			defer func() { _ = recover() }() // an operation that does not exist has no name either
			if args, err := Arguments(plan, Layout{}); err == nil {
				t.Errorf("%v became %q", plan, args)
			}
		}()
	}
}

// place writes a program called bwrap into a directory that only this user can
// write to.
func place(t *testing.T, script string, mode os.FileMode) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, Name)
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFind(t *testing.T) {
	empty := t.TempDir()
	good, writable, dead := place(t, "", 0o755), place(t, "", 0o777), place(t, "", 0o644)
	shared := place(t, "", 0o755)
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	linked := t.TempDir()
	if err := os.Symlink(filepath.Join(good, Name), filepath.Join(linked, Name)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		dirs []string
		path string
		err  error
	}{
		{"first", []string{empty, good, writable}, filepath.Join(good, Name), nil},
		{"link", []string{linked}, filepath.Join(good, Name), nil},
		{"none", []string{empty, filepath.Join(empty, "missing")}, "", ErrMissing},
		{"no program", []string{dead, good}, "", ErrMissing},
		{"writable", []string{writable, good}, "", ErrUnsafe},
		{"in a writable directory", []string{shared, good}, "", ErrUnsafe},
	} {
		t.Run(row.name, func(t *testing.T) {
			path, err := Find(row.dirs)
			if !errors.Is(err, row.err) || row.err == nil && path != row.path {
				t.Errorf("found %q, %v; want %q, %v", path, err, row.path, row.err)
			}
		})
	}
}

// PATH has no influence on where bubblewrap is found.
func TestFindIgnoresPath(t *testing.T) {
	t.Setenv("PATH", place(t, "", 0o755))
	if _, err := Find([]string{t.TempDir()}); !errors.Is(err, ErrMissing) {
		t.Errorf("found: %v", err)
	}
}

func TestCheck(t *testing.T) {
	all := strings.Join(needed, " X\\n")
	for _, row := range []struct {
		name, script string
		version      string
		err          error
	}{
		{"good", `case $1 in --help) printf -- "` + all + ` X\n";; --version) echo bubblewrap 9;; esac`, "bubblewrap 9", nil},
		{"new", `case $1 in --help) printf -- "` + all + ` X\n--bind-fd F\n--ro-bind-fd F\n";; --version) echo bubblewrap 10;; esac`, "bubblewrap 10", nil},
		{"old", `echo "--ro-bind X"`, "", ErrOld},
		{"broken", `exit 1`, "", errors.ErrUnsupported},
	} {
		t.Run(row.name, func(t *testing.T) {
			tool, err := Check(t.Context(), filepath.Join(place(t, row.script, 0o755), Name))
			switch {
			case row.err == nil && (err != nil || tool.Version != row.version || tool.Descriptors != (row.name == "new")):
				t.Errorf("checked: %+v, %v", tool, err)
			case row.err == ErrOld && !errors.Is(err, ErrOld), row.err != nil && err == nil:
				t.Errorf("checked: %+v, %v", tool, err)
			}
		})
	}
}
