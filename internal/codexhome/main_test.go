package codexhome

import (
	"os"
	"path/filepath"
	"testing"
)

// A machine is a set of directories with configuration files.
type machine struct {
	*testing.T
	Home
	work string // a working directory
}

func newMachine(t *testing.T) machine {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := machine{T: t, work: filepath.Join(dir, "work")}
	m.Home = Home{User: filepath.Join(dir, "home"), Codex: filepath.Join(dir, "codex"), System: filepath.Join(dir, "etc")}
	for _, d := range []string{m.work, m.User, m.Codex, m.System} {
		m.mkdir(d)
	}
	return m
}

func (m machine) mkdir(dir string) {
	m.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.Fatal(err)
	}
}

// write makes a file and its directories.
func (m machine) write(path, text string) {
	m.Helper()
	m.mkdir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.Fatal(err)
	}
}
