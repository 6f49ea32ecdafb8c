package discover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

func TestPluginWithSkills(t *testing.T) {
	d := newTree(t)
	d.write(".codex-plugin/plugin.json", `{"mcpServers": "./mcp.json", "apps": "././apps.json"}`)
	d.write(".claude-plugin/plugin.json", "{}")
	d.write("mcp.json", "m")
	d.write(".mcp.json", "not this one")
	d.write("apps.json", "a")
	d.write("skills/b/SKILL.md", "b")
	d.write("skills/a/SKILL.md", "a")
	d.write("skills/a/agents/openai.yaml", "y")
	d.write("skills/a b/SKILL.md", "a b")
	d.write("inner/.cursor-plugin/plugin.json", "{}")
	d.write("inner/.claude-plugin/plugin.json", "first")
	d.write("inner/x/SKILL.md", "x")
	r := d.discover(direct, d.root("id", "."))[0]
	if r.ID != "id" || r.Path != wire.PathToURI(d.dir) || r.Error != nil || len(r.Warnings) != 0 {
		t.Errorf("got %+v", r)
	}
	d.want("plugin", d.plugin(r.Plugin), ".codex-plugin/plugin.json mcp.json apps.json")
	d.want("skills", d.skills(r), "inner/x/SKILL.md skills/a%20b/SKILL.md skills/a/SKILL.md+ skills/b/SKILL.md")
	d.want("manifests", d.manifests(r), ".codex-plugin/plugin.json inner/.claude-plugin/plugin.json")
	if r.Plugin.MCPConfig.Contents != "m" || r.Skills[2].Instructions.Contents != "a" || r.Skills[2].Metadata.Contents != "y" {
		t.Errorf("wrong contents: %+v", r)
	}

	// A root inside a plugin is not a plugin itself. The manifest of the plugin around it is found.
	r = d.discover(direct, d.root("", "skills/a"))[0]
	d.want("plugin", d.plugin(r.Plugin), "")
	d.want("manifests", d.manifests(r), ".codex-plugin/plugin.json")
}

func TestManifestFields(t *testing.T) {
	const notRelative, notBelow = "path must start with `./`", "path must remain below the capability root"
	const here = "@/.claude-plugin/plugin.json: "
	tests := []struct{ manifest, files, warnings string }{
		{"{}", ".mcp.json -", ""},
		{"broken", ".mcp.json -", ""},
		{"[]", ".mcp.json -", ""},
		{`{"mcpServers": "./x", "mcpServers": "./x"}`, ".mcp.json -", ""},
		{`{"mcpServers": {}, "apps": {}}`, "- -", ""},
		{`{"mcpServers": [], "apps": 5}`, ".mcp.json -", ""},
		{`{"mcpServers": "./x", "apps": "./x"}`, "x x", ""},
		{`{"mcpServers": "./none", "apps": "./dir"}`, "- -", ""},
		{`{"mcpServers": "x", "apps": ""}`, ".mcp.json -", "ignoring mcpServers in " + here + notRelative + "\nignoring apps in " + here + notRelative},
		{`{"mcpServers": "./../x", "apps": "./dir/../x"}`, ".mcp.json -", "ignoring mcpServers in " + here + notBelow + "\nignoring apps in " + here + notBelow},
		{`{"mcpServers": "./", "apps": ".//x"}`, ".mcp.json -", "ignoring mcpServers in " + here + notBelow + "\nignoring apps in " + here + notBelow},
	}
	d := newTree(t)
	d.write("x", "")
	d.write(".mcp.json", "")
	d.mkdir("dir")
	for _, tt := range tests {
		d.write(".claude-plugin/plugin.json", tt.manifest)
		r := d.discover(direct, d.root("", "."))[0]
		d.want(tt.manifest, d.plugin(r.Plugin), ".claude-plugin/plugin.json "+tt.files)
		d.want("warnings for "+tt.manifest, d.warnings(r), tt.warnings)
	}
}

func TestBadFiles(t *testing.T) {
	d := newTree(t)
	d.write("big/SKILL.md", strings.Repeat("x", maxFile+1))
	d.write("full/SKILL.md", strings.Repeat("x", maxFile))
	d.write("latin/SKILL.md", "a\xff")
	d.write("short/SKILL.md", "a\xe2\x82")
	d.write("odd/SKILL.md", "a\xe2\x82(")
	d.write("meta/SKILL.md", "x")
	d.write("meta/agents/openai.yaml", "\xc3(")
	d.write("file/agents", "x")
	d.write("file/SKILL.md", "x")
	if err := syscall.Mkfifo(d.at("pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.write(".codex-plugin/plugin.json", `{"mcpServers": "./pipe"}`)
	r := d.discover(direct, d.root("", "."))[0]
	d.want("plugin", d.plugin(r.Plugin), ".codex-plugin/plugin.json - -")
	d.want("skills", d.skills(r), "file/SKILL.md full/SKILL.md meta/SKILL.md")
	d.want("warnings", d.warnings(r), `capability file @/big/SKILL.md exceeds the 1048576-byte limit
failed to inspect capability file @/file/agents/openai.yaml: Not a directory (os error 20)
capability file @/latin/SKILL.md is not UTF-8: invalid utf-8 sequence of 1 bytes from index 1
capability file @/meta/agents/openai.yaml is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0
capability file @/odd/SKILL.md is not UTF-8: invalid utf-8 sequence of 2 bytes from index 1
capability file @/short/SKILL.md is not UTF-8: incomplete utf-8 byte sequence from index 1`)
}

func TestUnreadableManifestIsSkipped(t *testing.T) {
	d := newTree(t)
	d.write("a/.codex-plugin/plugin.json", "\xff")
	d.write("a/.claude-plugin/plugin.json", "{}")
	d.write("b/.codex-plugin/plugin.json", "\xff")
	r := d.discover(direct, d.root("", "a"), d.root("", "b"))
	d.want("a", d.manifests(r[0]), "a/.claude-plugin/plugin.json")
	d.want("b", d.manifests(r[1]), "")
}

func TestBundleLimit(t *testing.T) {
	d := newTree(t)
	for i := range maxBundle/maxFile + 1 {
		d.write(fmt.Sprintf("%02d/SKILL.md", i), strings.Repeat("x", maxFile))
	}
	d.write("05/agents/openai.yaml", "y")
	d.write("z/SKILL.md", "z") // a small file may still fit
	r := d.discover(direct, d.root("", "."))[0]
	if len(r.Skills) != maxBundle/maxFile {
		t.Errorf("%d skills", len(r.Skills))
	}
	d.want("last skill", d.short(&r.Skills[len(r.Skills)-1].Instructions), "z/SKILL.md")
	d.want("warnings", d.warnings(r), strings.TrimSuffix(strings.Repeat("capability root bundle exceeds the 16777216-byte limit\n", 2), "\n"))
}

func TestTotalLimit(t *testing.T) {
	d := newTree(t)
	var roots []wire.DiscoverRoot
	for i := range maxBundle / maxFile {
		d.write(fmt.Sprintf("%02d/SKILL.md", i), strings.Repeat("x", maxFile))
	}
	for range 6 {
		roots = append(roots, d.root("", "."))
	}
	skills, warnings := 0, 0
	for _, r := range d.discover(direct, roots...) {
		skills += len(r.Skills)
		warnings += strings.Count(d.warnings(r), "capability discovery size limit reached")
	}
	if most := maxTotal/maxFile + maxParallel; skills > most || skills < maxTotal/maxFile || skills+warnings != 6*maxBundle/maxFile {
		t.Errorf("%d skills and %d warnings", skills, warnings)
	}
}

func TestTraversalLimits(t *testing.T) {
	d := newTree(t)
	d.write("1/2/3/4/5/6/SKILL.md", "x")
	d.write("1/2/3/4/5/6/agents/openai.yaml", "x")
	d.write("1/2/3/4/5/6/7/SKILL.md", "x")
	r := d.discover(direct, d.root("", "."))[0]
	d.want("skills", d.skills(r), "1/2/3/4/5/6/SKILL.md+")
	d.want("warnings", d.warnings(r), "") // nothing is searched that deep

	for i := range maxDirectories {
		d.mkdir(fmt.Sprint(i))
	}
	r = d.discover(direct, d.root("", "."))[0]
	d.want("warnings", d.warnings(r), "capability scan reached its traversal limit (root: @)")
}

func TestLinks(t *testing.T) {
	d := newTree(t)
	d.write("elsewhere/s/SKILL.md", "x")
	d.link(d.at("elsewhere"), "root/linked")
	d.link(".", "root/loop")
	d.link(d.at("elsewhere/s/SKILL.md"), "root/file/SKILL.md") // a link to a file is no skill
	d.write("root/manifest", "{}")
	d.link("../manifest", "root/.codex-plugin/plugin.json")
	r := d.discover(direct, d.root("", "root"))[0]
	d.want("skills", d.skills(r), "root/linked/s/SKILL.md")
	d.want("plugin", d.plugin(r.Plugin), "root/.codex-plugin/plugin.json - -")
}

func TestOneBadRootHarmsNoOther(t *testing.T) {
	d := newTree(t)
	d.write("good/SKILL.md", "x")
	d.write("file", "x")
	foreign := d.root("foreign", ".")
	foreign.Path, _ = wire.ParsePathURI("file:///C:/x")
	boxed := d.root("boxed", "good")
	boxed.Sandbox = new(wire.Sandbox)
	open := func(_ context.Context, s *wire.Sandbox) (files.Files, error) {
		if s != nil {
			return nil, errors.New("no such sandbox")
		}
		return files.Direct{}, nil
	}
	roots := d.discover(open, d.root("missing", "none"), d.root("file", "file"), foreign, boxed, d.root("good", "good"))
	for i, want := range []string{
		"failed to inspect capability root " + d.uri("none") + ": No such file or directory (os error 2)",
		"capability root " + d.uri("file") + " is not a directory",
		"failed to inspect capability root file:///C:/x: 'file:///C:/x' is invalid on 'linux'",
		"failed to inspect capability root " + d.uri("good") + ": no such sandbox",
	} {
		r := roots[i]
		if r.Error == nil || *r.Error != want || r.Skills == nil || r.NamespaceManifests == nil || r.Warnings == nil {
			t.Errorf("%s: got %+v, want error %q", r.ID, r, want)
		}
	}
	d.want("good root", d.skills(roots[4]), "good/SKILL.md")

	none := d.discover(direct)
	if none == nil {
		t.Error("no list of roots")
	}
	_, err := Roots(t.Context(), &wire.DiscoverRootsParams{Roots: make([]wire.DiscoverRoot, MaxRoots+1)}, direct, nil)
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Code != wire.CodeInvalidRequest || e.Message != "capability root discovery accepts at most 128 roots" {
		t.Errorf("got %v", err)
	}
}

func TestDeniedFiles(t *testing.T) {
	d := newTree(t)
	d.write("a/SKILL.md", "x")
	d.write("b/SKILL.md", "x")
	d.write("b/agents/openai.yaml", "x")
	open := func(context.Context, *wire.Sandbox) (files.Files, error) {
		return denying{files.Direct{}, map[string]bool{d.at("a/SKILL.md"): true, d.at("b/agents"): true}}, nil
	}
	r := d.discover(open, d.root("", "."))[0]
	d.want("skills", d.skills(r), "b/SKILL.md")
	d.want("warnings", d.warnings(r), `failed to read capability file @/a/SKILL.md: Permission denied (os error 13)
failed to inspect capability file @/b/agents/openai.yaml: Permission denied (os error 13)`)
}

func TestRootsInParallel(t *testing.T) {
	d := newTree(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var running, most atomic.Int32
	open := func(context.Context, *wire.Sandbox) (files.Files, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n) // exact enough: all wait for each other
		}
		defer running.Add(-1)
		entered <- struct{}{}
		<-leave
		return files.Direct{}, nil
	}
	var roots []wire.DiscoverRoot
	for i := range 2 * maxParallel {
		roots = append(roots, d.root(fmt.Sprint(i), "."))
	}
	done := make(chan []wire.DiscoveredRoot)
	go func() { done <- d.discover(open, roots...) }()
	for range maxParallel {
		<-entered
	}
	select {
	case <-entered:
		t.Errorf("more than %d at a time", maxParallel)
	default:
	}
	close(leave)
	for range maxParallel {
		<-entered
	}
	for i, r := range <-done {
		if r.ID != fmt.Sprint(i) {
			t.Errorf("root %d is %s", i, r.ID)
		}
	}
	if most.Load() > maxParallel {
		t.Errorf("%d at a time", most.Load())
	}
}

// If there is no more room, the answer has what was found so far, and a warning.
func TestNoRoomForFiles(t *testing.T) {
	d := newTree(t)
	for i := range 4 {
		d.write(fmt.Sprintf("%d/SKILL.md", i), strings.Repeat("x", 1000))
	}
	left := int64(2500)
	root, err := wire.ParsePathURI(d.uri("."))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Roots(t.Context(), &wire.DiscoverRootsParams{Roots: []wire.DiscoverRoot{{ID: "r", Path: root}}}, direct, func(n int64) error {
		if left < n {
			return errors.New("no room")
		}
		left -= n
		return nil
	})
	if err != nil || len(r.Roots[0].Skills) != 2 || len(r.Roots[0].Warnings) != 2 || r.Roots[0].Warnings[0] != "capability discovery size limit reached" {
		t.Errorf("%d skills, warnings %q, %v", len(r.Roots[0].Skills), r.Roots[0].Warnings, err)
	}
}
