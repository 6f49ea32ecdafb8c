//go:build interop

package interop_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A userDirs has the directories of a server's user: home, configuration and workspace, and the directory that stands for
// /etc/codex.
type userDirs struct {
	t   testing.TB
	top string
}

// newUserDirs empties the directories. Files that the reference keeps in its home while it runs stay.
func newUserDirs(t testing.TB) *userDirs {
	h := &userDirs{t, ownDir(t, "house")}
	for _, name := range []string{"home", "ws", "other", "repo", "wt", "root", "link"} {
		h.remove(name)
	}
	for _, name := range []string{"codex", "etc"} { // in use by servers that run
		entries, _ := os.ReadDir(h.path(name))
		for _, e := range entries {
			if e.Name() != "tmp" {
				h.remove(name + "/" + e.Name())
			}
		}
	}
	for _, name := range []string{"home", "codex", "ws", "etc", "root"} {
		h.dir(name)
	}
	return h
}

func (h *userDirs) path(name string) string { return filepath.Join(h.top, name) }

// expand replaces @ by the directory.
func (h *userDirs) expand(s string) string { return strings.ReplaceAll(s, "@", h.top) }

func (h *userDirs) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *userDirs) dir(name string) { h.must(os.MkdirAll(h.path(name), 0o755)) }

func (h *userDirs) remove(name string) { h.must(os.RemoveAll(h.path(name))) }

// put writes a file in which @ stands for the directory.
func (h *userDirs) put(name, content string) {
	h.t.Helper()
	h.dir(filepath.Dir(name))
	h.must(os.WriteFile(h.path(name), []byte(h.expand(content)), 0o644))
}

func (h *userDirs) link(name, target string) {
	h.dir(filepath.Dir(name))
	h.must(os.Symlink(h.expand(target), h.path(name)))
}

// plain replaces the directory in an observation by @.
func (h *userDirs) plain(s string) string { return strings.ReplaceAll(s, h.top, "@") }

// inUserDirs starts servers with these home directories. Variables override the environment.
func inUserDirs(variables ...string) func(t testing.TB, who product) *server {
	return serverWith(func(t testing.TB, cmd *exec.Cmd) {
		top := ownDir(t, "house")
		for _, d := range []string{"home", "codex", "ws"} {
			os.MkdirAll(filepath.Join(top, d), 0o755)
		}
		var env []string
		for _, v := range cmd.Env {
			if !strings.HasPrefix(v, "HOME=") && !strings.HasPrefix(v, "CODEX_HOME=") {
				env = append(env, v)
			}
		}
		if variables == nil {
			variables = []string{"HOME=@/home", "CODEX_HOME=@/codex"}
		}
		for _, v := range variables {
			env = append(env, strings.ReplaceAll(v, "@", top))
		}
		cmd.Env, cmd.Dir = env, top
	})
}

// withEtcCodex starts servers that see the directory etc of the user as /etc/codex.
func withEtcCodex(t testing.TB, who product) *server {
	tethertest.NeedBubblewrap(t)
	top := ownDir(t, "house")
	os.MkdirAll(filepath.Join(top, "etc"), 0o755)
	args := []string{"bwrap", "--die-with-parent", "--dev-bind", "/", "/", "--tmpfs", "/etc"}
	for _, f := range []string{"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf"} {
		args = append(args, "--ro-bind-try", f, f)
	}
	args = append(args, "--bind", filepath.Join(top, "etc"), "/etc/codex", "--")
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, who, "--listen", "ws://127.0.0.1:0")
	cmd.Args = append(args, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	cmd.Path, cmd.Dir = bwrap, top
	cmd.Env = append(cmd.Env, "HOME="+top+"/home", "CODEX_HOME="+top+"/codex")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s := startCommand(t, who, cmd)
	t.Cleanup(s.stop)
	return s
}

// A configReader reads configuration and records it.
type configReader struct {
	*userDirs
	p *player
	c *caller
}

func newConfigReader(p *player) *configReader {
	h := newUserDirs(p.t)
	return &configReader{h, p, p.caller()}
}

// keys turns "a.b c" into the paths a.b and c.
func keys(s string) [][]string {
	paths := [][]string{}
	for path := range strings.FieldsSeq(s) {
		paths = append(paths, strings.Split(path, "."))
	}
	return paths
}

// read records environmentConfig/read for the keys mcp_servers.
func (r *configReader) read(label, cwd string) {
	r.paths(label, cwd, keys("mcp_servers"), keys("mcp_servers"))
}

func (r *configReader) paths(label, cwd string, config, requirements [][]string) {
	if !strings.HasPrefix(cwd, "file:") {
		cwd = "file://" + r.expand(cwd)
	}
	reply := r.c.call("environmentConfig/read", map[string]any{"cwd": cwd, "configPaths": config, "requirementsPaths": requirements})
	r.p.note(label, withoutHost(r.plain(withParsedTOML(reply))))
}

// withoutHost removes the names of the machine and of the user's home from an answer.
func withoutHost(reply string) string {
	if host, err := os.Hostname(); err == nil {
		reply = strings.ReplaceAll(reply, fmt.Sprintf(`"hostname":%q`, host), `"hostname":"HOST"`)
	}
	if u, err := user.Current(); err == nil {
		reply = strings.ReplaceAll(reply, fmt.Sprintf(`"userHomeDir":"file://%s"`, u.HomeDir), `"userHomeDir":"USERHOME"`)
	}
	return reply
}

// withParsedTOML replaces the text of each layer by its parsed content: the same TOML can be written in many ways (quotes, order,
// inline tables), and clients parse it.
func withParsedTOML(reply string) string {
	var m map[string]any
	if json.Unmarshal([]byte(reply), &m) != nil {
		return reply
	}
	result, _ := m["result"].(map[string]any)
	for _, part := range []string{"config", "requirements"} {
		of, _ := result[part].(map[string]any)
		for _, l := range asList(of["layers"]) {
			layer := l.(map[string]any)
			parsed := map[string]any{}
			if err := toml.Unmarshal([]byte(layer["toml"].(string)), &parsed); err != nil {
				layer["bad"] = err.Error()
				continue
			}
			layer["toml"] = spelled(parsed)
		}
	}
	return canonical(m)
}

// spelled turns parsed TOML into JSON that distinguishes dates, floats and integers, and has a word for infinity.
func spelled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = spelled(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = spelled(v[i])
		}
		return v
	case string, bool:
		return v
	case float64:
		if v == 0 && math.Signbit(v) {
			return "float -0"
		}
	}
	return fmt.Sprintf("%T %v", v, v)
}

const trust = "[projects.\"%s\"]\ntrust_level = \"trusted\"\n"

func trusted(path string) string { return fmt.Sprintf(trust, path) }

// projects makes a workspace with two project files.
func (r *configReader) projects() {
	r.userDirs = newUserDirs(r.p.t)
	r.put("ws/.git/HEAD", "x")
	r.put("ws/.codex/config.toml", "[mcp_servers.p]\nurl=\"p\"\n")
	r.put("ws/sub/.codex/config.toml", "[mcp_servers.s]\nurl=\"s\"\n")
}

func (r *configReader) user(text string) { r.put("codex/config.toml", text) }

// parserWords is the reason why texts of TOML errors differ. Position and file are the same.
const parserWords = "the parser of TOML has its own words for what is wrong"

func badConfig(message string) string {
	return canonical(map[string]any{"error": map[string]any{"code": -32603, "message": "failed to load executor-local config: " + message}})
}

func TestEnvironmentConfig(t *testing.T) {
	t.Parallel()
	for _, x := range []exchange{
		{name: "config trust", play: playTrust},
		{name: "config selection", play: playSelection, differs: []difference{
			{"params []", "a list never stands for an object", `{"error":{"code":-32602,"message":"invalid type: sequence, expected struct EnvironmentConfigReadParams"}}`},
		}},
		{name: "config errors", play: playConfigErrors, differs: []difference{
			{"broken user", parserWords, badConfig("@/codex/config.toml:1:11: array is incomplete")},
			{"key twice", parserWords, badConfig("@/codex/config.toml:2:1: key a is already defined")},
			{"broken project", parserWords, badConfig("Error parsing project config file @/ws/.codex/config.toml: TOML parse error at line 1, column 11\n  |\n1 | broken = [\n  |           ^\narray is incomplete\n")},
		}},
		{name: "config values", play: playConfigValues},
		{name: "config links", play: playConfigLinks},
	} {
		x.compares = whatWasRead
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			playBoth(t, x, inUserDirs())
		})
	}
}

func playTrust(p *player) {
	r := newConfigReader(p)
	r.projects()
	r.read("nothing trusted", "@/ws")
	r.user(trusted("@/ws"))
	r.read("root trusted, cwd below", "@/ws/sub")
	r.read("cwd missing", "@/ws/sub/none/none2")
	r.read("cwd elsewhere", "/nonexistent/x")
	r.read("cwd is the root of the machine", "file:///")
	r.user(trusted("@/ws/"))
	r.read("slash at the end", "@/ws")
	r.user(trusted("@/ws/sub"))
	r.read("below trusted, cwd there", "@/ws/sub")
	r.read("below trusted, cwd above", "@/ws")
	r.user(trusted("@/ws") + strings.ReplaceAll(trusted("@/ws/sub"), `"trusted"`, `"untrusted"`))
	r.read("root trusted, below untrusted", "@/ws/sub")
	r.user(trusted("@"))
	r.read("parent trusted", "@/ws")
	r.user("project_root_markers=[\"M\"]\n" + trusted("@/ws/sub"))
	r.put("ws/sub/M", "")
	r.put("ws/sub/deep/.codex/config.toml", "[mcp_servers.d]\nurl=\"d\"")
	r.read("marker", "@/ws/sub/deep")
	r.user("project_root_markers=[]\n" + trusted("@/ws"))
	r.read("no markers", "@/ws/sub/deep")
	r.user("project_root_markers=5\n" + trusted("@/ws"))
	r.read("bad markers", "@/ws/sub/deep")
	r.remove("ws/.git")
	r.put("ws/.git", "gitdir: /x\n")
	r.user(trusted("@/ws"))
	r.read("git file", "@/ws/sub")
	r.put("ws/.git", "gitdir: @/other/.git/worktrees/a\n")
	r.user(trusted("@/other"))
	r.read("worktree of nothing", "@/ws/sub")
	r.put("home/.codex/config.toml", "[mcp_servers.h]\nurl=\"h\"\n"+trusted("@/home"))
	r.put("home/.git/x", "")
	r.read("cwd is home", "@/home")
	r.user(trusted("@/home"))
	r.read("cwd is home, trusted", "@/home")
	r.worktree()
}

// worktree reads below a linked worktree.
func (r *configReader) worktree() {
	script := `git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git worktree add -q ../wt 2>/dev/null`
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = r.top
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git: %v\n%s", err, out)
	}
	r.put("wt/.codex/config.toml", "[mcp_servers.wt]\nurl=\"wt\"\n")
	r.put("repo/.codex/config.toml", "[mcp_servers.repo]\nurl=\"repo\"\n[hooks]\nr=1")
	r.put("wt/d/.codex/config.toml", "[mcp_servers.d]\nurl=\"d\"\n[hooks]\nd=1")
	both := keys("mcp_servers hooks")
	r.user(trusted("@/repo"))
	r.paths("worktree, repository trusted", "@/wt/d", both, nonePaths)
	r.user(trusted("@/wt"))
	r.paths("worktree trusted", "@/wt/d", both, nonePaths)
	r.user(trusted("@/repo") + strings.ReplaceAll(trusted("@/wt"), `"trusted"`, `"untrusted"`))
	r.paths("worktree untrusted", "@/wt/d", both, nonePaths)
	r.remove("wt/.codex")
	r.remove("wt/d/.codex")
	r.put("repo/d/.codex/config.toml", "[hooks]\nz=1\n")
	r.user(trusted("@/repo"))
	r.paths("worktree without files", "@/wt/d", both, nonePaths)
	r.dir("wt/d/.codex")
	r.paths("worktree with an empty directory", "@/wt/d", both, nonePaths)
}

// nonePaths is an empty list of paths.
var nonePaths = [][]string{}

func playSelection(p *player) {
	r := newConfigReader(p)
	r.projects()
	r.user(trusted("@/ws") + "[mcp_servers.u]\nurl=\"u\"\n[mcp_servers.v]\nurl=\"v\"\nx=1\n[a]\nb=1\n[[arr]]\nq=1\n[profiles.p]\nmodel=\"x\"\n")
	for _, s := range []string{"mcp_servers.u", "mcp_servers.v.x mcp_servers.u a", "mcp_servers mcp_servers.u", "a.b.c arr.q arr.0", "arr",
		"projects", "profiles", "nothing", ""} {
		r.paths("config "+s, "@/ws", keys(s), keys("a"))
	}
	r.paths("nothing at all", "@/ws", nonePaths, nonePaths)
	r.paths("no segment", "@/ws", [][]string{{}}, nonePaths)
	r.paths("no segment in the second", "@/ws", keys("a"), [][]string{{}})
	r.paths("empty key", "@/ws", [][]string{{""}}, nonePaths)
	r.read("Windows", "file:///C:/x")
	r.read("another host", "file://h/x")
	r.paths("nothing at all, Windows", "file:///C:/x", nonePaths, nonePaths)
	r.read("not a file", "http://x/")
	for _, params := range []string{`{}`, `{"cwd":"file:///"}`, `{"cwd":"file:///","configPaths":5,"requirementsPaths":[]}`, `{"cwd":"file:///","configPaths":[["a"]],"requirementsPaths":null}`, `[]`, `null`} {
		p.note("params "+params, r.c.call("environmentConfig/read", json.RawMessage(params)))
	}
	names := "model review_model model_provider approval_policy sandbox_mode notify mcp_servers model_providers profile profiles history sqlite_home log_dir " +
		"chatgpt_base_url openai_base_url experimental_realtime_ws_base_url experimental_realtime_webrtc_call_base_url web_search tools agents skills " +
		"plugins features analytics otel windows apps_mcp_product_sku bogus_key shell_environment_policy desktop"
	var b strings.Builder
	for name := range strings.FieldsSeq(names) {
		b.WriteString(name + "=1\n")
	}
	r.put("ws/.codex/config.toml", b.String())
	r.paths("what a project may say", "@/ws", keys(names), nonePaths)
	r.put("codex/managed_config.toml", "[mcp_servers.m]\nurl=\"m\"\n")
	r.put("codex/requirements.toml", "[mcp_servers.m]\nurl=\"m\"\n")
	r.read("managed files of the user", "@/ws")
}

func playConfigErrors(p *player) {
	r := newConfigReader(p)
	r.projects()
	for _, row := range [][2]string{{"broken user", "broken = [\n"}, {"key twice", "a=1\na=2\n"}, {"types of the user", "model = 5\n[mcp_servers.u]\nurl=5\nbogus=true\n"},
		{"trust unknown", "[projects.\"@/ws\"]\ntrust_level = \"bogus\"\n"}, {"trust a number", "[projects.\"/x\"]\ntrust_level=5\n"},
		{"projects a number", "projects=5\n[mcp_servers.u]\nurl=\"1\""}, {"project a number", "projects={\"/x\"=5}\n"}} {
		r.user(row[1])
		r.read(row[0], "@/ws")
	}
	r.put("ws/.codex/config.toml", "broken = [\n")
	r.user("")
	r.read("broken project, not trusted", "@/ws")
	r.user(trusted("@/ws"))
	r.read("broken project", "@/ws")
	r.put("ws/.codex/config.toml", "model=5\n[mcp_servers.p]\nurl=5\n")
	r.read("types of the project", "@/ws")
	r.put("ws/.codex/config.toml", "[mcp_servers.p]\nurl=\"\xff\"\n")
	r.read("project not UTF-8", "@/ws")
	r.remove("ws/.codex/config.toml")
	r.dir("ws/.codex/config.toml")
	r.read("project file is a directory", "@/ws")
	r.remove("codex/config.toml")
	r.dir("codex/config.toml")
	r.read("user file is a directory", "@/ws")
}

func playConfigValues(p *player) {
	r := newConfigReader(p)
	r.projects()
	r.user("[z.sub]\na = 1\n[y]\nk = {a={b={}}, c=[{x=1},{y=[{z=1}]}]}\n\"k.k\" = -0.0\n\"\" = +1\nl = [[1,2],[{a=1}]]\n" +
		"m = [1.5, 1e-7, 1e300, -inf, 123456789012345680.0, 1e16,1e15,0.1]\nq = [nan]\nh = [0xff, 0o17, 0b11, 1_000, 9223372036854775807]\n" +
		"n = [1979-05-27, 07:32:00.5, 1979-05-27 07:32:00, 1979-05-27T07:32:00.123456789-07:00, 1979-05-27T07:32:00Z]\n" +
		"s = [\"\", \"'\", '\"', \"\\\\\", \"a\\u0001b\", \"\\n\", \"a'\\\"b\", \"\\u007f\\b\\f\\r\", \"tab\\tx\\\\\", \"a\\r\\nb\", \"é\"]\n" +
		"t = \"\"\"x\n'\\\\\"\"\"\nmixed = [1, \"a\", {b=1}]\n[z]\nb = 2\n[x]\na.b.c = 1\na.d = 2\nt = true\n[[x.q]]\n[[x.q]]\n[[x.q.r]]\nv=1\n")
	r.paths("all kinds", "@/ws", keys("z y x"), nonePaths)
	names := "model_instructions_file log_dir sqlite_home experimental_compact_prompt_file mcp_servers agents skills"
	r.user("model_instructions_file=\"rel.md\"\nlog_dir=\"~/x\"\nsqlite_home=\"./s\"\nexperimental_compact_prompt_file=\"c.md\"\n[mcp_servers.a]\n" +
		"command=\"./x\"\ncwd=\"y\"\n[agents.r]\nconfig_file=\"r.toml\"\n[[skills.config]]\npath=\"sk\"\nenabled=true\n" + trusted("@/ws"))
	r.put("ws/.codex/config.toml", "model_instructions_file=\"rel.md\"\n[mcp_servers.a]\ncommand=\"./x\"\ncwd=\"y\"\n[[skills.config]]\npath=\"sk\"\nenabled=true\n")
	r.paths("relative paths", "@/ws", keys(names), nonePaths)
}

func playConfigLinks(p *player) {
	r := newConfigReader(p)
	r.projects()
	r.link("link", "@/ws")
	r.user(trusted("@/ws"))
	r.read("cwd through a link", "@/link/sub")
	r.user(trusted("@/link"))
	r.read("link trusted, cwd through it", "@/link/sub")
	r.read("link trusted, cwd real", "@/ws")
	r.user(trusted("@/ws"))
	r.remove("ws/.codex")
	r.put("ws/.codex", "x")
	r.read("directory is a file", "@/ws")
	r.remove("ws/.codex")
	r.put("etc/config.toml", "[mcp_servers.l]\na=1\n")
	r.link("ws/.codex", "@/etc")
	r.read("directory is a link", "@/ws")
	r.remove("ws/.codex")
	r.link("ws/.codex/config.toml", "@/etc/config.toml")
	r.read("file is a link", "@/ws")
	r.remove("ws/.codex/config.toml")
	r.link("ws/.codex/config.toml", "nowhere")
	r.read("file is a dangling link", "@/ws")
	r.remove("ws/.codex/config.toml")
	r.link("ws/.codex/config.toml", "config.toml")
	r.read("file is a loop", "@/ws")
}

// TestEnvironmentConfigHomes starts servers with other homes.
func TestEnvironmentConfigHomes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		label     string
		variables []string
	}{
		{"codex home is a link", []string{"HOME=@/home", "CODEX_HOME=@/root/l"}},
		{"codex home empty", []string{"HOME=@/home", "CODEX_HOME="}},
		{"codex home unset", []string{"HOME=@/home"}},
		{"home empty", []string{"HOME=", "CODEX_HOME=@/codex"}},
		{"home unset", []string{"CODEX_HOME=@/codex"}},
		{"home relative", []string{"HOME=rel", "CODEX_HOME=@/codex"}},
	} {
		t.Run(row.label, func(t *testing.T) {
			t.Parallel()
			start := func(t testing.TB, who product) *server {
				h := newUserDirs(t)
				h.put("codex/config.toml", "[mcp_servers.a]\nurl=\"x\"\n")
				h.put("home/.codex/config.toml", "[mcp_servers.h]\nurl=\"h\"\n")
				h.link("root/l", "@/codex")
				return inUserDirs(row.variables...)(t, who)
			}
			playBoth(t, exchange{name: "config homes " + row.label, compares: whatWasRead, play: func(p *player) {
				r := &configReader{&userDirs{p.t, ownDir(p.t, "house")}, p, p.caller()}
				r.read("read", "@/ws")
				r.read("cwd is home", "@/home")
			}}, start)
		})
	}
}

// TestEnvironmentConfigManaged reads the configuration of an administrator in /etc/codex.
func TestEnvironmentConfigManaged(t *testing.T) {
	t.Parallel()
	playBoth(t, exchange{name: "config managed", compares: whatWasRead, differs: []difference{
		{"system broken", parserWords, badConfig("/etc/codex/config.toml:1:9: array is incomplete")},
		{"managed broken", parserWords, badConfig("/etc/codex/managed_config.toml:1:9: array is incomplete")},
		{"requirements broken", parserWords, badConfig("failed to parse requirements layer /etc/codex/requirements.toml: TOML parse error at line 1, column 9\n  |\n1 | broken=[\n  |         ^\narray is incomplete\n")},
	}, play: playManaged}, withEtcCodex)
}

func playManaged(p *player) {
	r := newConfigReader(p)
	only := func(files ...string) {
		for _, f := range []string{"config", "managed_config", "requirements"} {
			r.remove("etc/" + f + ".toml")
		}
		for i := 0; i+1 < len(files); i += 2 {
			r.put("etc/"+files[i]+".toml", files[i+1])
		}
	}
	r.put("ws/.git/HEAD", "x")
	r.put("ws/.codex/config.toml", "[mcp_servers.p]\nurl=\"p\"\n")
	r.user(trusted("@/ws") + "[mcp_servers.a]\nurl=\"x\"\n")
	requirements := keys("allowed_approval_policies allowed_sandbox_modes allowed_approvals_reviewers rules mcp_servers features unknown permissions default_permissions")
	only("config", "[mcp_servers.sys]\na=1", "managed_config", "[mcp_servers.managed]\nurl=\"m\"\n", "requirements", "[mcp_servers.req]\nidentity={command=\"x\"}\n")
	r.read("all layers", "@/ws")
	r.paths("only projects", "@/ws", keys("projects"), nonePaths)
	r.paths("nothing", "@/ws", keys("approval_policy"), nonePaths)
	only("config", "broken=[\n")
	r.read("system broken", "@/ws")
	only("managed_config", "broken=[\n")
	r.read("managed broken", "@/ws")
	only("requirements", "broken=[\n")
	r.read("requirements broken", "@/ws")
	only("requirements", "allowed_approval_policies=5\n[mcp_servers.m]\nx=1\n")
	r.read("requirements of a wrong type", "@/ws")
	r.paths("of a wrong type, not asked for", "@/ws", keys("a"), keys("z"))
	r.paths("of a wrong type, none asked for", "@/ws", keys("a"), nonePaths)
	only("requirements", "unknown=1\nallowed_approval_policies=[\"never\"]\n[mcp_servers.m.identity]\ncommand=\"c\"\n")
	r.paths("requirements", "@/ws", nonePaths, requirements)
	for _, text := range []string{`sandbox_mode="workspace-write"`, `sandbox_mode="danger-full-access"`, `sandbox_mode="bogus"`, `approval_policy="on-request"`,
		`approval_policy="bogus"`, `approval_policy=5`, `approval_policy={granular={sandbox_approval=true,rules=true,mcp_elicitations=true}}`,
		`approval_policy={granular={rules=true}}`, `approvals_reviewer="user"`, `approvals_reviewer="auto_review"`, `approvals_reviewer="x"`,
		`features={a=true}`, "sandbox_mode=\"workspace-write\"\napprovals_reviewer=\"user\"\napproval_policy=\"never\""} {
		only("managed_config", text)
		r.paths("managed "+text, "@/ws", keys("approval_policy"), requirements)
	}
	only("managed_config", "project_root_markers=[\"sub\"]\n")
	r.read("managed markers", "@/ws")
	r.user("")
	only("managed_config", trusted("@/ws"))
	r.read("managed trust", "@/ws")
	for _, f := range []string{"config", "managed_config", "requirements"} {
		only(f, "\xff")
		r.read(f+" not UTF-8", "@/ws")
		only()
		r.dir("etc/" + f + ".toml")
		r.read(f+" is a directory", "@/ws")
	}
}
