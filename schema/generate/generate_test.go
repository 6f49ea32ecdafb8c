package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The generated files describe package wire as it is now.
func TestFilesAreUpToDate(t *testing.T) {
	if err := generate("../..", true); err != nil {
		t.Error(err)
	}
}

// A file that differs is an error that says what to do.
func TestOutdatedFile(t *testing.T) {
	root := t.TempDir()
	for _, out := range outputs {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(out.name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(root, "wire"), os.DirFS("../../wire")); err != nil {
		t.Fatal(err)
	}
	if err := generate(root, false); err != nil {
		t.Fatal(err)
	}
	if err := generate(root, true); err != nil {
		t.Fatalf("after it was generated: %v", err)
	}
	file := filepath.Join(root, "wire", "extra.go")
	if err := os.WriteFile(file, []byte("package wire\n\n// MaxNew is new.\nconst MaxNew = 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := generate(root, true); err == nil || !strings.Contains(err.Error(), "run `make schema`") {
		t.Errorf("a new constant: %v", err)
	}
	if err := os.WriteFile(file, []byte("package wire\n\nconst MethodNew = \"tether/new\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := generate(root, true); err == nil || !strings.Contains(err.Error(), "wire.MethodNew (tether/new) is in no table: add a row") {
		t.Errorf("a method without a row: %v", err)
	}
}
