//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A finder sends discovery requests and records the answers.
type finder struct {
	*userDirs
	p *player
	c *caller
}

func newFinder(p *player) *finder { return &finder{newUserDirs(p.t), p, p.caller()} }

// reset empties the directories of the user.
func (f *finder) reset() { f.userDirs = newUserDirs(f.p.t) }

// note records an answer; long contents are shortened.
func (f *finder) note(label, reply string) {
	var m any
	if json.Unmarshal([]byte(reply), &m) == nil {
		reply = canonical(shortened(m))
	}
	f.p.note(label, f.plain(reply))
}

func shortened(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = shortened(v[k])
		}
	case []any:
		for i := range v {
			v[i] = shortened(v[i])
		}
	case string:
		return shorten(v)
	}
	return v
}

// roots records discoverV1 of directories of the user; "root" if none is named.
func (f *finder) roots(label string, names ...string) {
	if names == nil {
		names = []string{"@/root"}
	}
	list := []any{}
	for i, name := range names {
		if !strings.HasPrefix(name, "file:") {
			name = "file://" + f.expand(name)
		}
		list = append(list, map[string]any{"id": fmt.Sprint(i), "path": name})
	}
	f.note(label, f.c.call("capabilityRoots/discoverV1", map[string]any{"roots": list}))
}

// confinedRoot records discoverV1 of root under a policy.
func (f *finder) confinedRoot(label, sandbox string) {
	f.note(label, f.c.call("capabilityRoots/discoverV1", map[string]any{"roots": []any{
		map[string]any{"id": "r", "path": "file://" + f.path("root"), "sandbox": json.RawMessage(f.expand(sandbox))}}}))
}

// capabilities records discoverV2. The reference gets a new server for that: it keeps its
// first answer for as long as it runs.
func (f *finder) capabilities(label string) {
	if f.p.who == ref {
		f.restart()
	}
	f.again(label)
}

func (f *finder) restart() {
	f.p.server.stop()
	f.p.server = inUserDirs()(f.p.t, f.p.who)
	f.c = f.p.caller()
}

// again records discoverV2 from the same server.
func (f *finder) again(label string) {
	f.note(label, f.c.call("capabilities/discoverV2", map[string]any{"cwd": "file://" + f.path("ws")}))
}

func (f *finder) confined(label, sandbox string) {
	f.note(label, f.c.call("capabilities/discoverV2", map[string]any{"cwd": "file://" + f.path("ws"), "sandbox": json.RawMessage(f.expand(sandbox))}))
}

// confinement is a sandbox with the user's workspace.
func confinement(e entries) string {
	return strings.ReplaceAll(e.intent("restricted", ""), "$WS", "@/ws")
}

func (f *finder) skillAt(dir string) { f.put(dir+"/SKILL.md", "---\nname: x\n---\n") }

func TestDiscoverRoots(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(p *player){"roots plugins": playRootPlugins, "roots trees": playRootTrees, "roots limits": playRootLimits} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playBoth(t, exchange{name: "discover " + name, compares: whatWasRead, play: play, differs: rootDifferences}, inUserDirs())
		})
	}
}

var rootDifferences = []difference{
	{"names not for URLs", "every directory can be named in a path URI and is searched", `{"result":{"roots":[{"error":null,"id":"0","namespaceManifests":[],` +
		`"path":"file://@/root","plugin":null,"skills":[` + foundSkill("a") + "," + foundSkill("n%FF") + "," + foundSkill("t%09b") + `],"warnings":[]}]}}`},
}

func foundSkill(dir string) string {
	return `{"instructions":{"contents":"---\nname: x\n---\n","path":"file://@/root/` + dir + `/SKILL.md"},"metadata":null}`
}

func playRootPlugins(p *player) {
	f := newFinder(p)
	f.roots("empty")
	f.put("other", "x")
	f.roots("four that are none", "/nonexistent", "@/other", "file:///C:/x", "@/root/")
	f.note("none", f.c.call("capabilityRoots/discoverV1", map[string]any{"roots": []any{}}))
	f.roots("128", strings.Split(strings.TrimSuffix(strings.Repeat("/nonexistent,", 128), ","), ",")...)
	f.roots("129", strings.Split(strings.TrimSuffix(strings.Repeat("/nonexistent,", 129), ","), ",")...)
	f.put("root/.codex-plugin/plugin.json", `{"mcpServers":"./m.json","apps":"./a.json"}`)
	for _, name := range []string{"m.json", "a.json", ".mcp.json"} {
		f.put("root/"+name, "{}")
	}
	for _, name := range []string{"b", "a", "A", "a b"} {
		f.skillAt("root/skills/" + name)
	}
	f.put("root/skills/a/agents/openai.yaml", "x: 1")
	f.roots("plugin")
	f.put("root/.claude-plugin/plugin.json", "{}")
	f.remove("root/.codex-plugin")
	for _, manifest := range []string{`{}`, `{"mcpServers":{}}`, `{"mcpServers":[]}`, `{"mcpServers":null}`, `{"mcpServers":5}`, `broken`, `[]`,
		`{"mcpServers":"m.json","apps":"a.json"}`, `{"mcpServers":"./../x","apps":"./a/../a.json"}`, `{"mcpServers":"./none","apps":"./none"}`,
		`{"mcpServers":"./","apps":"."}`, `{"mcpServers":"","apps":""}`, `{"mcpServers":" ./m.json","apps":{}}`, `{"mcpServers":".//m.json","apps":"././a.json"}`,
		`{"mcpServers":"./skills","apps":"./skills/a/SKILL.md"}`, `{"mcpServers":"./a%20b","apps":"./a\\b"}`, `{"mcpServers":"./m.json","mcpServers":"./a.json"}`,
		`{"mcp_servers":"./m.json"}`, "\ufeff" + `{"mcpServers":"./m.json"}`, `{"mcpServers":"./m.json"} x`, "\xff"} {
		f.put("root/.claude-plugin/plugin.json", manifest)
		f.roots(fmt.Sprintf("manifest %q", manifest))
	}
}

func playRootTrees(p *player) {
	f := newFinder(p)
	f.put("root/n1/.codex-plugin/plugin.json", "{}")
	f.put("root/n1/.claude-plugin/plugin.json", "{}")
	f.put("root/n0/d/.cursor-plugin/plugin.json", "{}")
	for _, name := range []string{"root/n1/skills/s", "root/n1", "root"} {
		f.skillAt(name)
	}
	f.roots("nested")
	f.put("root/.claude-plugin/plugin.json", "{}")
	f.skillAt("root/x/y/s")
	f.roots("nested and above")
	f.roots("two below", "@/root/x/y", "@/root/n1")
	f.reset()
	for i, dir := 1, "root"; i < 9; i++ {
		dir += fmt.Sprintf("/%d", i)
		f.skillAt(dir)
		f.put(dir+"/agents/openai.yaml", "{}")
		f.put(dir+"/.codex-plugin/plugin.json", "{}")
	}
	f.roots("depth")
	f.reset()
	for _, name := range []string{".h/a", "node_modules/b", "m", "sp ace#/x"} {
		f.skillAt("root/" + name)
	}
	f.put("root/lc/skill.md", "x")
	f.dir("root/dir/SKILL.md")
	f.put("root/bad/SKILL.md", "a\xff")
	f.put("root/m/agents/openai.yaml", "\xc3(")
	f.roots("files")
	f.roots("odd root", "file://"+f.path("root")+"/sp%20ace%23")
	f.put("root/n/.codex-plugin/plugin.json", "\xff")
	f.put("root/n/.claude-plugin/plugin.json", "{}")
	f.roots("bad manifest below")
	f.reset()
	f.skillAt("root/a")
	f.skillAt("root/n\xff")
	f.skillAt("root/t\tb")
	f.roots("names not for URLs")
	f.reset()
	f.skillAt("root/a")
	f.put("other/e/SKILL.md", "x")
	f.link("root/l", "@/root/a")
	f.link("root/ext", "@/other")
	f.link("root/f/SKILL.md", "@/root/a/SKILL.md")
	f.link("root/loop", ".")
	f.put("root/a/agents/o.yaml", "x")
	f.link("root/a/agents/openai.yaml", "o.yaml")
	f.put("root/pj", `{"mcpServers":"./ml"}`)
	f.put("root/mm", "{}")
	f.link("root/ml", "mm")
	f.link("root/.codex-plugin/plugin.json", "../pj")
	f.roots("links")
	f.put("root/.claude-plugin/plugin.json", `{"mcpServers":"./ml"}`)
	f.roots("link and manifest")
	f.remove("root/.codex-plugin")
	f.roots("linked configuration")
	f.link("link", "@/root")
	f.roots("root is a link", "@/link")
	f.reset()
	f.skillAt("root/a")
	f.dir("root/a/agents")
	f.dir("root/.codex-plugin")
	f.must(syscall.Mkfifo(f.path("root/a/agents/openai.yaml"), 0o600))
	f.must(syscall.Mkfifo(f.path("root/.codex-plugin/plugin.json"), 0o600))
	f.roots("pipes")
	f.reset()
	f.link("root/.codex-plugin/plugin.json", "plugin.json")
	f.roots("loop")
}

func playRootLimits(p *player) {
	f := newFinder(p)
	full := strings.Repeat("x", 1<<20)
	f.put("root/big/SKILL.md", full+"x")
	f.put("root/exact/SKILL.md", full)
	f.roots("file")
	f.reset()
	for i := range 18 {
		f.put(fmt.Sprintf("root/%02d/SKILL.md", i), full)
	}
	f.put("root/05/agents/openai.yaml", "y")
	f.put("root/18/SKILL.md", "")
	f.put("root/.codex-plugin/plugin.json", "{}")
	f.roots("bundle")
	f.reset()
	for i := range 2100 {
		f.dir(fmt.Sprintf("root/%05d", i))
	}
	f.skillAt("root/02050")
	f.skillAt("root/00001")
	f.roots("directories")
}

// denials are policies that can read everything except for one path.
func denials(paths ...string) map[string]string {
	m := map[string]string{"root read": confinement(readOnly), "nothing": confinement(entries{}), "minimal": confinement(minimalRead),
		"no sandbox": "null", "full access": strings.ReplaceAll(intentFor(`{"type":"disabled"}`, ""), "$WS", "@/ws")}
	for _, path := range paths {
		m["denied "+path] = confinement(readOnly.and(at("@/"+path, "deny")))
	}
	return m
}

func TestDiscoverConfinedRoots(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	for name, sandbox := range denials("root", "root/a", "root/a/SKILL.md", "root/m", "root/.codex-plugin/plugin.json", "other") {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			playBoth(t, exchange{name: "discover confined roots " + name, compares: whatWasRead, play: func(p *player) {
				f := newFinder(p)
				f.skillAt("root/a")
				f.skillAt("root/b")
				f.put("root/.codex-plugin/plugin.json", `{"mcpServers":"./m"}`)
				f.put("root/m", "{}")
				f.put("other/e/SKILL.md", "x")
				f.link("root/ext", "@/other")
				f.confinedRoot("root", sandbox)
			}}, inUserDirs())
		})
	}
}

func TestDiscoverConfinedCapabilities(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	for name, sandbox := range denials("codex/skills", "codex/plugins", "codex/skills/a/SKILL.md", "home") {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			playBoth(t, exchange{name: "discover confined capabilities " + name, compares: whatWasRead, play: func(p *player) {
				f := newFinder(p)
				f.skill("codex/skills/a", "name: a\ndescription: d")
				f.skill("codex/skills/.system/s", "name: s\ndescription: d")
				f.skill("home/.agents/skills/b", "name: b\ndescription: d")
				f.plugin("mkt/plug/1.0.0", `{"name":"plug"}`)
				f.restart()
				f.confined("capabilities", sandbox)
			}}, inUserDirs())
		})
	}
}

// skill writes a skill with this front matter.
func (f *finder) skill(dir, front string) { f.put(dir+"/SKILL.md", "---\n"+front+"\n---\nbody\n") }

// plugin writes an installed plugin with one skill and returns its directory.
func (f *finder) plugin(where, manifest string) string {
	dir := "codex/plugins/cache/" + where
	f.put(dir+"/.codex-plugin/plugin.json", manifest)
	f.skill(dir+"/skills/ps", "name: ps\ndescription: d")
	return dir
}

func TestDiscoverCapabilities(t *testing.T) {
	t.Parallel()
	for _, x := range []exchange{
		{name: "capabilities skills", play: playSkills, differs: skillDifferences, varies: []string{"later"}}, // the reference keeps its first answer, for some time
		{name: "capabilities metadata", play: playSkillMetadata},
		{name: "capabilities plugins", play: playPlugins},
		{name: "capabilities places", play: playSkillPlaces},
	} {
		x.compares = whatWasRead
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			playBoth(t, x, inUserDirs())
		})
	}
}

var skillDifferences = []difference{
	{"later", "nothing is kept: a skill that was installed is found", `{"result":{"plugins":[],"skills":[{"dependencies":null,"description":"d",` +
		`"discoveryRoot":{"id":"codex-home-skills","path":"file://@/codex/skills"},"name":"late","path":"file://@/codex/skills/late/SKILL.md",` +
		`"policy":null,"shortDescription":null}],"warnings":[]}}`},
}

func playSkills(p *player) {
	f := newFinder(p)
	f.capabilities("empty")
	f.note("Windows", f.c.call("capabilities/discoverV2", map[string]any{"cwd": "file:///C:/x"}))
	f.note("cwd missing", f.c.call("capabilities/discoverV2", map[string]any{"cwd": "file:///nonexistent/x"}))
	f.skill("codex/skills/late", "name: late\ndescription: d")
	f.again("later")
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, front := range []string{"name: x", "name: x\ndescription: \"\"", "name: \"\"\ndescription: d", "name: 5\ndescription: d", "name: [a]\ndescription: d",
		"description: noname  desc\n   continued", "name: ml\ndescription: |\n  a\n  b\n", "name: \"a b  c\"\ndescription: d", "name: " + a(64) + "\ndescription: d",
		"name: " + a(65) + "\ndescription: d", "name: d\ndescription: " + a(1024), "name: d\ndescription: " + a(2000),
		"name: d\ndescription: d\nmetadata:\n  short-description: " + a(2000), "name: s\ndescription: d\nmetadata:\n  short-description: \"\"",
		"name: s\ndescription: d\nmetadata:\n  short-description: s: t", "name: u\ndescription: d\nfoo: bar", "name: c: d\ndescription: a: b: c",
		"name:\ttt\ndescription: d", "name: a\nname: b\ndescription: d", "name: ml\ndescription: d\nmetadata: [a]", "name: 1.5\ndescription: true",
		"name: \"é\\u0007\"\ndescription: d", "name: a\ndescription: >\n  x: y\n  z", "name: a\ndescription: x # y", "name: a\ndescription: 'it's: x'",
		"name: \"a\ndescription: d", "name: a\ndescription: - x", "name: a\ndescription: @x: y", "name: a\ndescription: [x]", "name: a\ndescription: %x",
		"name: a\n# c\ndescription: d", "name : a\ndescription: d", "Name: a\ndescription: d", "name: a\ndescription: null", "name: ~\ndescription: d",
		"name: a\ndescription: *x", "name: a\ndescription: !tag x", "name: a\ndescription: 2020-01-01", "name: a\ndescription: 0x1F", "name: a\ndescription: yes",
		"name: a\ndescription: 007", "name: a\ndescription: d\nallowed-tools: [a, b]\nx: {y: [1,2]}", "name: a\ndescription: d\nmetadata: null",
		"name: a\n<<: {description: d}", "name: a\r\ndescription: b: c"} {
		f.reset()
		f.skill("codex/skills/n", front)
		f.capabilities(fmt.Sprintf("front %q", shorten(front)))
	}
	const good = "name: x\ndescription: d\n"
	for _, text := range []string{"\n---\n" + good + "---\n", "---\r\nname: x\r\ndescription: d\r\n---\r\nb", "\xef\xbb\xbf---\n" + good + "---\n", "---\n" + good,
		"---\n" + good + "...\n", "--- \n" + good + " ---  \nx", "---\n" + good + "----\n---\n", "", "---\n" + good + "---\n\xff", "---\n---\n", "body only\n",
		"---\n" + good + "---\n" + strings.Repeat("x", 1<<20)} {
		f.reset()
		f.put("codex/skills/raw/SKILL.md", text)
		f.capabilities(fmt.Sprintf("file %q", shorten(text)))
	}
}

func playSkillMetadata(p *player) {
	f := newFinder(p)
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	for _, text := range []string{"", "[", "policy: {}", "policy: 5", "policy: {products: [chatgpt, CODEX, atlas, bogus]}", "policy: {products: [chatgpt, CODEX, atlas]}",
		"policy: {products: []}", "policy: {products: null}", "policy: null", "policy: {allow_implicit_invocation: true}", "policy: {allow_implicit_invocation: \"x\"}",
		"policy: {allow_implicit_invocation: null}", "dependencies: {}", "dependencies: {tools: []}", "dependencies: {tools: null}", "dependencies: {tools: 5}",
		"dependencies: {tools: [{type: mcp},{value: x},{type: \"\", value: y},{type: cli, value: z, command: c}]}",
		"dependencies: {tools: [{type: mcp, value: x, oauth: {callback_port: 8}}]}", "dependencies: {tools: [{type: mcp, value: x, transport: stdio, oauth: {callbackPort: 8}}]}",
		"dependencies: {tools: [{type: a, value: b, oauth: {callback_port: 70000}}]}", "dependencies: {tools: [{type: 5, value: true}]}",
		"dependencies: {tools: [{type: a, value: b, transport: \"" + many("t", 65) + "\", command: \"" + many("c", 1025) + "\", url: \"" + many("u", 1025) + "\"}]}",
		"interface: {short_description: hello, display_name: Disp}", "policy: {allowImplicitInvocation: false}\ninterface: {shortDescription: x}",
		"- a", "interface: 5\npolicy: {}", "interface: {brand_color: 5, icon_small: [a]}\npolicy: {}", "policy: {}\npolicy: {}", "unknown: 1\npolicy: {unknown: 2}"} {
		f.reset()
		f.skill("codex/skills/a", "name: a\ndescription: d")
		f.put("codex/skills/a/agents/openai.yaml", text)
		f.capabilities(fmt.Sprintf("yaml %q", shorten(text)))
	}
}

func playPlugins(p *player) {
	f := newFinder(p)
	f.plugin("mkt/plug/1.0.0", `{"name":"plug"}`)
	f.capabilities("no configuration")
	const enabled = "[plugins.\"plug@mkt\"]\nenabled=true\n"
	for _, config := range []string{"[plugins.\"plug@mkt\"]\n", enabled, enabled + "[features]\nplugins=false\n", "[plugins.\"plug@mkt\"]\nenabled=false\n", "broken=[\n"} {
		f.put("codex/config.toml", config)
		f.capabilities(fmt.Sprintf("config %q", config))
	}
	for _, manifest := range []string{`{}`, `{"name":""}`, `{"name":"other"}`, `{"name":5}`, `{"name":"plug","version":5}`, `{"name":"plug","version":"9"}`, `broken{`, `[]`,
		`{"name":"plug","skills":"./sk2"}`, `{"name":"plug","skills":["./skills","./sk2"]}`, `{"name":"plug","skills":"sk2"}`, `{"name":"plug","skills":5}`,
		`{"name":"plug","interface":{"displayName":" "}}`, `{"name":"plug","interface":{"displayName":" A  B "}}`, `{"name":"plug","interface":{"displayName":5}}`,
		`{"name":"plug","interface":5}`, `{"name":"plug","interface":null}`, `{"name":"plug","displayName":"DN"}`, `{"name":"plug","mcpServers":{"a":{}}}`,
		`{"name":"plug","mcpServers":"../x"}`, `{"name":"plug","mcpServers":"./none.json"}`, `{"name":"plug","apps":"x"}`, `{"name":"a b"}`, `{"name":" p "}`,
		`{"name":"a/b"}`, `{"name":"a","name":"b"}`, `{"name":"plug","description":5}`, `{"name":"plug","keywords":5}`, `{"name":"plug","hooks":5}`} {
		f.reset()
		dir := f.plugin("mkt/plug/1.0.0", manifest)
		f.skill(dir+"/sk2/z", "name: z\ndescription: d")
		f.put(dir+"/.mcp.json", "{}")
		f.put(dir+"/.app.json", "{}")
		f.capabilities("manifest " + manifest)
	}
	for _, versions := range []string{"1.0.0 1.10.0 1.9.0", "1.0.0 local", "1.0.0 2.0.0-beta abc", "1.10.0 1.9.0 zzz", "1.0.0-beta 1.0.0", "1.0.0-beta.10 1.0.0-beta.9",
		"1.0 1.0.0", "10 9", "v2.0.0 1.0.0", "01.0.0 0.9.0", "1.0.0+a 1.0.0+b", "1.10 1.9", "1_0", "a~b", ".v", "é"} {
		f.reset()
		for v := range strings.FieldsSeq(versions) {
			f.plugin("mkt/plug/"+v, `{"name":"plug"}`)
		}
		f.capabilities("versions " + versions)
	}
	f.reset()
	for _, where := range []string{"mkt/a b/1.0.0", "mkt/x@y/1.0.0", "mkt/é/1.0.0", "m k/plug/1.0.0", "mkt/v/1 0", "mkt/.hid/1.0.0", ".m/plug/1.0.0", "mkt/OK_a-1/1.0.0"} {
		f.plugin(where, `{"name":"plug"}`)
	}
	f.capabilities("odd names")
	for _, text := range []string{`{"remote_plugin_id":"r1"}`, `{"remotePluginId":"r2"}`, `{"remote_plugin_id":5}`, `broken`} {
		f.reset()
		dir := f.plugin("mkt/plug/1.0.0", `{"name":"plug"}`)
		f.put(filepath.Dir(dir)+"/.codex-remote-plugin-install.json", text)
		f.put(dir+"/.codex-remote-plugin-install.json", text)
		f.capabilities("remote " + text)
	}
}

func playSkillPlaces(p *player) {
	f := newFinder(p)
	f.skill("codex/skills/a", "name: same\ndescription: d")
	f.skill("home/.agents/skills/b", "name: same\ndescription: d2")
	f.skill("codex/skills/.hidden/h", "name: h\ndescription: d")
	f.skill("codex/skills/1/2/3/4/5/6", "name: d6\ndescription: d")
	f.skill("codex/skills/1/2/3/4/5/6/7", "name: d7\ndescription: d")
	f.skill("codex/skills", "name: rootskill\ndescription: d")
	f.skill("ws/ext", "name: ext\ndescription: d")
	f.link("codex/skills/lnk", "@/ws/ext")
	f.skill("codex/skills/B", "name: Z\ndescription: d")
	f.skill("codex/skills/a/nested", "name: A0\ndescription: d")
	f.link("codex/skills/fl/SKILL.md", "@/ws/ext/SKILL.md")
	f.put("codex/skills/lc/skill.md", "---\nname: lc\ndescription: d\n---\n")
	f.put("ws/.git/x", "")
	f.skill("ws/.codex/skills/p", "name: p\ndescription: proj")
	f.capabilities("structure")
	f.put("codex/config.toml", "[skills.bundled]\nenabled=false\n[[skills.config]]\nname=\"h\"\nenabled=false\n")
	f.skill("codex/skills/.system/s", "name: s\ndescription: d")
	f.capabilities("switched off")
	f.reset()
	f.skill("codex/skills/a", "name: x\ndescription: d")
	f.link("home/.agents/skills", "@/codex/skills")
	f.capabilities("one place twice")
	f.reset()
	f.skill("codex/skills/p/skills/s", "name: s\ndescription: d")
	f.put("codex/skills/p/.codex-plugin/plugin.json", `{"name":"pp"}`)
	f.capabilities("plugin among skills")
	f.reset()
	f.put("codex/.codex-plugin/plugin.json", `{"name":"chplug"}`)
	f.skill("codex/skills/a", "name: a\ndescription: d")
	f.capabilities("manifest above")
	f.reset()
	f.put("codex/skills", "x")
	f.capabilities("skills is a file")
	f.reset()
	f.must(os.Remove(f.path("home")))
	f.capabilities("no home")
	f.dir("home")
	for i := range 2100 {
		f.dir(fmt.Sprintf("codex/skills/%05d", i))
	}
	f.capabilities("many directories")
}
