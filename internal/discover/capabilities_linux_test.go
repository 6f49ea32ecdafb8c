package discover

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

func (t tree) home() codexhome.Home {
	return codexhome.Home{User: t.at("home"), Codex: t.at("codex"), System: t.at("etc")}
}

func (t tree) capabilities() wire.DiscoverCapabilitiesResult {
	t.Helper()
	return capabilities(t.Context(), t.home(), files.Direct{}, nil)
}

// skill writes a skill with only the required fields.
func (t tree) skill(dir, name string) {
	t.Helper()
	t.write(dir+"/SKILL.md", "---\nname: "+name+"\ndescription: d\n---\n")
}

func names(skills []wire.InstalledSkill) string {
	var list []string
	for _, s := range skills {
		list = append(list, s.Name)
	}
	return strings.Join(list, " ")
}

func (t tree) wantWarnings(r wire.DiscoverCapabilitiesResult, want ...string) {
	t.Helper()
	if !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings %q, want %q", r.Warnings, want)
	}
}

func TestNoCapabilities(t *testing.T) {
	d := newTree(t)
	text, err := json.Marshal(d.capabilities())
	if want := `{"plugins":[],"skills":[],"warnings":[]}`; err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}

func TestSkillRoots(t *testing.T) {
	d := newTree(t)
	d.skill("codex/skills/b", "two")
	d.skill("codex/skills/.system/a", "one")
	d.skill("home/.agents/skills/c", "three")
	d.skill("etc/skills/d", "four")
	d.skill("codex/skills/p/skills/s", "inner")
	d.write("codex/skills/p/.codex-plugin/plugin.json", `{"name": "plug"}`)
	r := d.capabilities()
	d.want("skills", names(r.Skills), "one two plug:inner three four")
	d.wantWarnings(r)
	for i, want := range map[int]wire.SkillRoot{
		0: {ID: "codex-home-skills", Path: d.uri("codex/skills")},
		3: {ID: "user-agent-skills", Path: d.uri("home/.agents/skills")},
		4: {ID: "system-skills", Path: d.uri("etc/skills")},
	} {
		if got := r.Skills[i].DiscoveryRoot; got == nil || *got != want {
			t.Errorf("root of %s is %v, want %v", r.Skills[i].Name, got, want)
		}
	}
	d.write("codex/skills/bad/SKILL.md", "no front matter")
	d.wantWarnings(d.capabilities(), warnMetadata)
}

func TestInstalledPlugin(t *testing.T) {
	d := newTree(t)
	const dir = "codex/plugins/cache/market/plug/1.10.0"
	d.write(dir+"/.codex-plugin/plugin.json", `{"name": "Plug", "interface": {"displayName": " The Plug "}}`)
	d.write(dir+"/.mcp.json", "{}")
	d.write(dir+"/.app.json", "{}")
	d.skill(dir+"/skills/s", "s")
	d.write("codex/plugins/cache/market/plug/1.9.0/.codex-plugin/plugin.json", "{}")
	d.link("1.10.0", "codex/plugins/cache/market/plug/9.0.0") // a link is not a version
	d.write("codex/plugins/cache/market/plug/"+remoteFile, `{"schema_version": 1, "remote_plugin_id": "r"}`)
	d.write("codex/plugins/cache/not ok/plug/1.0.0/.codex-plugin/plugin.json", "{}")
	d.mkdir("codex/plugins/cache/market/empty")
	r := d.capabilities()
	d.wantWarnings(r)
	if len(r.Plugins) != 1 {
		t.Fatalf("got %+v", r.Plugins)
	}
	p := r.Plugins[0]
	if p.ID != "plug@market" || p.DisplayName != "The Plug" || p.Version != "1.10.0" || p.Root != d.uri(dir) ||
		p.RemotePluginID == nil || *p.RemotePluginID != "r" {
		t.Errorf("got %+v", p)
	}
	d.want("files", d.plugin(&p.Files), dir+"/.codex-plugin/plugin.json "+dir+"/.mcp.json "+dir+"/.app.json")
	d.want("skills", names(p.Skills), "Plug:s")
	text, err := json.Marshal(p.Skills[0])
	if err != nil || strings.Contains(string(text), "discoveryRoot") {
		t.Errorf("a plugin's skill is %s, %v", text, err)
	}

	d.write("codex/plugins/cache/market/plug/"+remoteFile, "{}")
	d.wantWarnings(d.capabilities(), warnLocations)
}

func TestInstalledManifests(t *testing.T) {
	const dir = "codex/plugins/cache/market/plug/1.0.0"
	manifestPath := dir + "/.codex-plugin/plugin.json"
	usual := manifestPath + " " + dir + "/.mcp.json " + dir + "/.app.json"
	tests := []struct {
		manifest, display, files string // no display name: no plugin
		complete                 bool
	}{
		{`{}`, "1.0.0", usual, true},
		{`{"name": "n", "interface": {"displayName": " "}}`, "n", usual, true},
		{`{"name": "n", "interface": null, "apps": null, "mcpServers": 5}`, "n", usual, true},
		{`{"name": "n", "mcpServers": {"a": {}}}`, "n", manifestPath + " " + manifestPath + " " + dir + "/.app.json", true},
		{`{"name": "n", "mcpServers": "../x"}`, "n", usual, false},
		{`{"name": "n", "mcpServers": "./none", "apps": "./none"}`, "n", manifestPath + " - -", false},
		{`{"name": 5}`, "", "", false},
		{`{"name": "n", "apps": {}}`, "", "", false},
		{`{"name": "n", "interface": {"displayName": 5}}`, "", "", false},
		{`{"name": "n", "name": "m"}`, "", "", false},
		{`{"name": null}`, "", "", false},
		{`{"name": "\ud800"}`, "", "", false},
		{`{"name": "n"} ]`, "", "", false},
		{`{"name": "n", "interface": {"DisplayName": "d"}, "x": 1, "x": 2}`, "n", usual, true},
		{`{"name": "n", "mcpServers": "./a\\..\\b"}`, "n", usual, false},
		{`{"name": "n", "mcpServers": "./m\u0000"}`, "n", usual, false},
		{`broken`, "", "", false},
	}
	for _, tt := range tests {
		d := newTree(t)
		d.write(manifestPath, tt.manifest)
		d.write(dir+"/.mcp.json", "{}")
		d.write(dir+"/.app.json", "{}")
		r := d.capabilities()
		if complete := len(r.Warnings) == 0; complete != tt.complete {
			t.Errorf("%s: warnings %q", tt.manifest, r.Warnings)
		}
		if tt.display == "" {
			if len(r.Plugins) != 0 {
				t.Errorf("%s: got %+v", tt.manifest, r.Plugins)
			}
			continue
		}
		if len(r.Plugins) != 1 || r.Plugins[0].DisplayName != tt.display {
			t.Errorf("%s: got %+v", tt.manifest, r.Plugins)
			continue
		}
		d.want(tt.manifest, d.plugin(&r.Plugins[0].Files), tt.files)
	}
}

// Of a manifest only its servers are reported. A broken manifest of an inner plugin
// does not let another manifest take its place. Each broken file has a warning.
func TestManifestsOfPlugins(t *testing.T) {
	d := newTree(t)
	const dir = "codex/plugins/cache/market/plug/1.0.0"
	d.write(dir+"/.codex-plugin/plugin.json", `{"name": "n", "mcpServers": { "a": {} }}`)
	d.skill(dir+"/inner/s", "s")
	d.write(dir+"/inner/.codex-plugin/plugin.json", "\xff")
	d.write(dir+"/inner/.claude-plugin/plugin.json", `{"name": "second"}`)
	d.write("codex/skills/bad/SKILL.md", "no front matter")
	d.skill("codex/skills/p/s", "s")
	d.write("codex/skills/p/.codex-plugin/plugin.json", `{"name": "`+strings.Repeat("p", 2*maxName)+`"}`)
	d.skill("home/.agents/skills/q/s", "s")
	d.write("home/.agents/skills/q/.codex-plugin/plugin.json", `{"name": "q", "apps": 5, "interface": 5}`)
	r := d.capabilities()
	d.wantWarnings(r, warnMetadata, warnMetadata)
	if len(r.Plugins) != 1 || r.Plugins[0].Files.MCPConfig == nil {
		t.Fatalf("got %+v", r.Plugins)
	}
	d.want("servers", r.Plugins[0].Files.MCPConfig.Contents, `{"a":{}}`)
	d.want("skills", names(r.Plugins[0].Skills), "n:s")
	d.want("skills of directories", names(r.Skills), "q:s")
	for i := range 2 * maxWarnings {
		d.write(fmt.Sprintf("codex/plugins/cache/market/bad%d/1.0.0/.codex-plugin/plugin.json", i), "broken")
	}
	if n := len(d.capabilities().Warnings); n != maxWarnings {
		t.Errorf("%d warnings", n)
	}
}

func TestCapabilitiesErrors(t *testing.T) {
	d := newTree(t)
	_, err := Capabilities(t.Context(), []string{"CODEX_HOME=" + d.at("none")}, &wire.DiscoverCapabilitiesParams{}, direct, nil)
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Code != wire.CodeInternal || !strings.HasPrefix(e.Message, "CODEX_HOME points to ") {
		t.Errorf("got %v", err)
	}
	d.skill("skills/s", "s")
	r, err := Capabilities(t.Context(), []string{"CODEX_HOME=" + d.dir, "HOME=" + d.at("home")}, &wire.DiscoverCapabilitiesParams{}, direct, nil)
	if err != nil || len(r.Skills) == 0 || r.Skills[0].Name != "s" {
		t.Errorf("got %+v, %v", r, err)
	}
}
