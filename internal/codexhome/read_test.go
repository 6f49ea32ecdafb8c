package codexhome

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

var servers = [][]string{{"mcp_servers"}}

func server(name string) string { return fmt.Sprintf("[mcp_servers.%s]\nurl = \"%s\"\n", name, name) }

func trust(level string, dirs ...string) string {
	var b strings.Builder
	for _, dir := range dirs {
		fmt.Fprintf(&b, "[projects.%q]\ntrust_level = %q\n", dir, level)
	}
	return b.String()
}

func params(t *testing.T, cwd string, config, requirements [][]string) *wire.ConfigReadParams {
	t.Helper()
	uri, err := wire.ParsePathURI(cwd)
	if filepath.IsAbs(cwd) {
		uri, err = wire.ParsePathURI(wire.PathToURI(cwd))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &wire.ConfigReadParams{Cwd: uri, ConfigPaths: config, RequirementsPaths: requirements}
}

func (m machine) readFrom(cwd string, config, requirements [][]string) wire.ConfigReadResult {
	m.Helper()
	result, err := m.read(m.Context(), cwd, params(m.T, cwd, config, requirements))
	if err != nil {
		m.Fatal(err)
	}
	return result
}

// sources returns the sources of the layers, and checks their base directories.
func (m machine) sources(l wire.ConfigLayers) (names []string) {
	m.Helper()
	for _, layer := range l.Layers {
		path := layer.Source
		if _, inner, ok := strings.Cut(path, " ("); ok {
			path = strings.TrimSuffix(inner, ")")
		}
		if layer.BaseDir == nil || *layer.BaseDir != wire.PathToURI(filepath.Dir(path)) {
			m.Errorf("base directory of %s is %v", layer.Source, layer.BaseDir)
		}
		rel, err := filepath.Rel(filepath.Dir(m.work), path)
		if err != nil {
			m.Fatal(err)
		}
		names = append(names, strings.Replace(layer.Source, path, rel, 1))
	}
	return names
}

func (m machine) wantSources(l wire.ConfigLayers, cloud int, want ...string) {
	m.Helper()
	if got := m.sources(l); !slices.Equal(got, want) || l.CloudInsertionIndex != cloud {
		m.Errorf("layers %q, cloud after %d; want %q after %d", got, l.CloudInsertionIndex, want, cloud)
	}
}

func TestLayers(t *testing.T) {
	m := newMachine(t)
	m.write(m.System+"/config.toml", server("system")+"[other]\nx = 1\n")
	m.write(m.System+"/managed_config.toml", "approval_policy = \"never\"\n"+server("managed"))
	m.write(m.System+"/requirements.toml", server("required"))
	m.write(m.Codex+"/config.toml", trust("trusted", m.work)+server("user"))
	m.write(m.work+"/.git/HEAD", "")
	m.write(m.work+"/.codex/config.toml", server("project"))
	m.write(m.work+"/sub/.codex/config.toml", server("sub"))

	r := m.readFrom(m.work+"/sub/not/there", servers, append(servers, []string{"allowed_approval_policies"}))
	m.wantSources(r.Config, 1, "system (etc/config.toml)", "user (codex/config.toml)", "project (work/.codex/config.toml)",
		"project (work/sub/.codex/config.toml)", "legacy managed_config.toml (etc/managed_config.toml)")
	m.wantSources(r.Requirements, 1, "etc/requirements.toml", "etc/managed_config.toml")
	if got := r.Config.Layers[0].TOML; got != server("system") {
		t.Errorf("more than the selected keys: %q", got)
	}
	if *r.UserHomeDir != wire.PathToURI(m.User) || r.CodexHomeDir != wire.PathToURI(m.Codex) || r.Hostname == nil {
		t.Errorf("home %q, Codex home %q, host %v", *r.UserHomeDir, r.CodexHomeDir, r.Hostname)
	}

	r = m.readFrom(m.work, [][]string{{"projects"}}, nil)
	m.wantSources(r.Config, 0, "user (codex/config.toml)")
	m.wantSources(r.Requirements, 0)
	if r.Requirements.Layers == nil {
		t.Error("no list of layers")
	}
}

func TestTrust(t *testing.T) {
	m := newMachine(t)
	sub := m.work + "/sub"
	m.write(m.work+"/.git/HEAD", "")
	m.write(m.work+"/.codex/config.toml", server("project"))
	m.write(sub+"/.codex/config.toml", server("sub"))
	link := filepath.Dir(m.work) + "/link"
	if err := os.Symlink(m.work, link); err != nil {
		t.Fatal(err)
	}
	const outer, inner = "project (work/.codex/config.toml)", "project (work/sub/.codex/config.toml)"
	tests := []struct {
		name, user, cwd string
		want            []string
	}{
		{"no setting", "", sub, nil},
		{"root", trust("trusted", m.work), sub, []string{outer, inner}},
		{"subdirectory only", trust("trusted", sub), sub, []string{inner}},
		{"not the subdirectory", trust("trusted", m.work) + trust("untrusted", sub), sub, []string{outer}},
		{"directory above the root", trust("trusted", filepath.Dir(m.work)), sub, nil},
		{"other spelling", trust("trusted", m.work+"/"), sub, nil},
		{"real path for a link", trust("trusted", m.work), link, []string{"project (link/.codex/config.toml)"}},
		{"link for a real path", trust("trusted", link), m.work, nil},
		{"own markers", "project_root_markers = [\"sub\"]\n" + trust("trusted", m.work), sub, []string{outer, inner}},
		{"no markers", "project_root_markers = []\n" + trust("trusted", sub), sub, []string{inner}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := m
			m.T = t
			m.write(m.Codex+"/config.toml", tt.user)
			m.wantSources(m.readFrom(tt.cwd, servers, nil).Config, 0, tt.want...)
		})
	}
}

func TestProjectsMayNotSetEverything(t *testing.T) {
	m := newMachine(t)
	m.write(m.Codex+"/config.toml", trust("trusted", m.work))
	m.write(m.work+"/.codex/config.toml", "model = \"m\"\nnotify = [\"x\"]\nopenai_base_url = \"http://evil\"\n[model_providers.x]\n")
	r := m.readFrom(m.work, [][]string{{"model"}, {"notify"}, {"openai_base_url"}, {"model_providers"}}, nil)
	if len(r.Config.Layers) != 1 || r.Config.Layers[0].TOML != "model = \"m\"\n" {
		t.Errorf("got %+v", r.Config.Layers)
	}
}

func TestTheUsersDirectoryIsNoProject(t *testing.T) {
	m := newMachine(t)
	m.Codex = m.User + "/.codex"
	m.write(m.Codex+"/config.toml", trust("trusted", m.User)+server("user"))
	m.wantSources(m.readFrom(m.User, servers, nil).Config, 0, "user (home/.codex/config.toml)")
}

func TestLinkedWorktree(t *testing.T) {
	m := newMachine(t)
	hooks := "[hooks]\nx = 1\n"
	tree := filepath.Dir(m.work) + "/tree"
	gitDir := m.work + "/.git/worktrees/tree"
	m.write(gitDir+"/gitdir", tree+"/.git\n")
	m.write(tree+"/.git", "gitdir: "+gitDir+"\n")
	m.write(m.work+"/.codex/config.toml", server("main")+hooks)
	m.write(tree+"/.codex/config.toml", server("tree")+"[hooks]\nevil = 1\n")
	m.write(m.Codex+"/config.toml", trust("trusted", m.work))

	wanted := append(servers, []string{"hooks"})
	r := m.readFrom(tree, wanted, nil)
	m.wantSources(r.Config, 0, "project (tree/.codex/config.toml)", "project (work/.codex/config.toml)")
	if r.Config.Layers[0].TOML != server("tree") || r.Config.Layers[1].TOML != hooks {
		t.Errorf("got %+v", r.Config.Layers)
	}

	// A directory that only claims to be a worktree gets no trust from it.
	impostor := filepath.Dir(m.work) + "/impostor"
	m.write(impostor+"/.git", "gitdir: "+gitDir+"\n")
	m.write(impostor+"/.codex/config.toml", server("impostor"))
	m.wantSources(m.readFrom(impostor, wanted, nil).Config, 0)
}

func TestManagedRequirements(t *testing.T) {
	paths := [][]string{{"allowed_approval_policies"}, {"allowed_approvals_reviewers"}, {"allowed_sandbox_modes"}}
	tests := map[string]string{
		"sandbox_mode = \"read-only\"\n":                                  "allowed_sandbox_modes = [\"read-only\"]\n",
		"sandbox_mode = \"workspace-write\"\napproval_policy = \"never\"": "allowed_approval_policies = [\"never\"]\nallowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n",
		"approvals_reviewer = \"auto_review\"":                            "allowed_approvals_reviewers = [\"auto_review\", \"user\"]\n",
		"approval_policy = {granular = {sandbox_approval = true, rules = false, mcp_elicitations = true}}": "[[allowed_approval_policies]]\n\n[allowed_approval_policies.granular]\n" +
			"sandbox_approval = true\nrules = false\nskill_approval = false\nrequest_permissions = false\nmcp_elicitations = true\n",
	}
	for managed, want := range tests {
		m := newMachine(t)
		m.write(m.System+"/managed_config.toml", managed)
		r := m.readFrom(m.work, nil, paths)
		m.wantSources(r.Requirements, 0, "etc/managed_config.toml")
		if len(r.Requirements.Layers) == 1 && r.Requirements.Layers[0].TOML != want {
			t.Errorf("%s requires %q, want %q", managed, r.Requirements.Layers[0].TOML, want)
		}
	}
}

func TestBadFiles(t *testing.T) {
	m := newMachine(t)
	user, project, managed := m.Codex+"/config.toml", m.work+"/.codex/config.toml", m.System+"/managed_config.toml"
	tests := []struct{ file, text, want string }{
		{user, "a = [\n", user + ":1:6: "},
		{user, "x = \"\xff\"", "Failed to read config file " + user + ": invalid utf-8 sequence of 1 bytes from index 5"},
		{user, "projects = 5", "invalid type: integer `5`, expected a map\nin `projects`\n"},
		{user, trust("maybe", "/x"), "unknown variant `maybe`, expected `trusted` or `untrusted`\nin `projects./x.trust_level`\n"},
		{user, "project_root_markers = 5", "project_root_markers must be an array of strings"},
		{project, "a = [\n", "Error parsing project config file " + project + ": TOML parse error at line 1, column 6\n"},
		{managed, "sandbox_mode = \"no\"", "Failed to parse config requirements as TOML: unknown variant `no`, expected one of `read-only`, `workspace-write`, `danger-full-access`\nin `sandbox_mode`\n"},
		{m.System + "/requirements.toml", "a = [\n", "failed to parse requirements layer " + m.System + "/requirements.toml: TOML parse error at line 1, column 6\n"},
		{user, strings.Repeat("#", maxFile+1), "Failed to read config file " + user + ": file is too large to read: "},
	}
	for _, tt := range tests {
		m.write(user, trust("trusted", m.work))
		m.write(tt.file, tt.text)
		_, err := m.read(t.Context(), m.work, params(t, m.work, servers, servers))
		wantError(t, err, wire.CodeInternal, "failed to load executor-local config: "+tt.want)
		if err := os.Remove(tt.file); err != nil {
			t.Fatal(err)
		}
	}
	m.mkdir(user)
	_, err := m.read(t.Context(), m.work, params(t, m.work, servers, nil))
	wantError(t, err, wire.CodeInternal, "failed to load executor-local config: Failed to read config file "+user+": path `"+user+"` is not a file")
}

func wantError(t *testing.T, err error, code int, text string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code() != code || !strings.HasPrefix(e.Error(), text) {
		t.Errorf("got %v (%q), want %d %q", e, err, code, text)
	}
}

func TestRead(t *testing.T) {
	m := newMachine(t)
	m.write(m.Codex+"/config.toml", server("user"))
	env := []string{"HOME=" + m.User, "CODEX_HOME=" + m.Codex}
	r, err := Read(t.Context(), env, params(t, m.work, servers, nil))
	if err != nil || r.CodexHomeDir != wire.PathToURI(m.Codex) {
		t.Errorf("got %+v, %v", r, err)
	}
	m.write(m.User+"/.codex/config.toml", "")
	r, err = Read(t.Context(), []string{"HOME=" + m.User, "CODEX_HOME="}, params(t, m.work, servers, nil))
	if err != nil || r.CodexHomeDir != wire.PathToURI(m.User+"/.codex") {
		t.Errorf("without CODEX_HOME: got %+v, %v", r, err)
	}

	tests := []struct {
		env                  []string
		cwd                  string
		config, requirements [][]string
		code                 int
		want                 string
	}{
		{env, m.work, nil, nil, wire.CodeInvalidParams, "at least one config or requirements path is required"},
		{env, m.work, servers, [][]string{{}}, wire.CodeInvalidParams, "TOML paths must contain at least one key segment"},
		{env, "file://host/x", servers, nil, wire.CodeInvalidParams, "'file://host/x' is invalid on "},
		{[]string{"CODEX_HOME=" + m.work + "/no"}, m.work, servers, nil, wire.CodeInternal,
			fmt.Sprintf("failed to find Codex home: CODEX_HOME points to %q, but that path does not exist", m.work+"/no")},
		{[]string{"CODEX_HOME=" + m.Codex + "/config.toml"}, m.work, servers, nil, wire.CodeInternal,
			fmt.Sprintf("failed to find Codex home: CODEX_HOME points to %q, but that path is not a directory", m.Codex+"/config.toml")},
	}
	for _, tt := range tests {
		_, err := Read(t.Context(), tt.env, params(t, tt.cwd, tt.config, tt.requirements))
		wantError(t, err, tt.code, tt.want)
	}
}
