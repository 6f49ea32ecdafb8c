package discover

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A tree is a directory that tests search.
type tree struct {
	*testing.T
	dir string
}

func newTree(t *testing.T) tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return tree{t, dir}
}

func (t tree) at(name string) string { return filepath.Join(t.dir, name) }
func (t tree) uri(name string) string {
	if name == "" {
		return ""
	}
	return wire.PathToURI(t.at(name))
}

func (t tree) mkdir(name string) {
	t.Helper()
	if err := os.MkdirAll(t.at(name), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (t tree) write(name, text string) {
	t.Helper()
	t.mkdir(filepath.Dir(name))
	if err := os.WriteFile(t.at(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (t tree) link(target, name string) {
	t.Helper()
	t.mkdir(filepath.Dir(name))
	if err := os.Symlink(target, t.at(name)); err != nil {
		t.Fatal(err)
	}
}

// direct returns the files as this process sees them.
func direct(context.Context, *wire.Sandbox) (files.Files, error) { return files.Direct{}, nil }

func (t tree) root(id, name string) wire.DiscoverRoot {
	t.Helper()
	path, err := wire.ParsePathURI(t.uri(name))
	if err != nil {
		t.Fatal(err)
	}
	return wire.DiscoverRoot{ID: id, Path: path}
}

func (t tree) discover(open Opener, roots ...wire.DiscoverRoot) []wire.DiscoveredRoot {
	t.Helper()
	result, err := Roots(t.Context(), &wire.DiscoverRootsParams{Roots: roots}, open, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Roots) != len(roots) {
		t.Fatalf("%d roots, want %d", len(result.Roots), len(roots))
	}
	return result.Roots
}

// short returns a file's path relative to the tree.
func (t tree) short(f *wire.CapabilityFile) string {
	if f == nil {
		return "-"
	}
	return strings.TrimPrefix(f.Path, wire.PathToURI(t.dir)+"/")
}

func (t tree) plugin(p *wire.DiscoveredPlugin) string {
	if p == nil {
		return ""
	}
	return t.short(&p.Manifest) + " " + t.short(p.MCPConfig) + " " + t.short(p.AppsConfig)
}

func (t tree) manifests(r wire.DiscoveredRoot) string {
	var names []string
	for _, f := range r.NamespaceManifests {
		names = append(names, t.short(&f))
	}
	return strings.Join(names, " ")
}

func (t tree) skills(r wire.DiscoveredRoot) string {
	var names []string
	for _, s := range r.Skills {
		name := t.short(&s.Instructions)
		if s.Metadata != nil {
			name += "+"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// warnings returns the warnings of a root, with the tree's URI shortened.
func (t tree) warnings(r wire.DiscoveredRoot) string {
	return strings.ReplaceAll(strings.Join(r.Warnings, "\n"), wire.PathToURI(t.dir), "@")
}

func (t tree) want(what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// denying refuses to open some files.
type denying struct {
	files.Files
	denied map[string]bool
}

func (d denying) Open(ctx context.Context, path string, follow bool) (*os.File, error) {
	if d.denied[path] {
		return nil, &files.Error{Err: syscall.EACCES}
	}
	return d.Files.Open(ctx, path, follow)
}

func (d denying) Metadata(ctx context.Context, path string, follow bool) (wire.MetadataResult, error) {
	if d.denied[filepath.Dir(path)] {
		return wire.MetadataResult{}, &files.Error{Err: syscall.EACCES}
	}
	return d.Files.Metadata(ctx, path, follow)
}
