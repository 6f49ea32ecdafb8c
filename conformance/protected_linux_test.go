package conformance

import (
	"os/exec"
	"testing"
)

func protectedRows() []row {
	repository := func(fx *fixture) { fx.write("$WS/.git/config", "old config\n"); fx.mkdir("$WS/.git/hooks") }
	create := func(id, dir, name string) row {
		return row{id: id, policy: workspaceOnly(), script: `mkdir ` + dir + `; echo x > ` + dir + `/` + name,
			exit: 2, denied: yes, out: []string{textEXIST, textROFS}, check: gone("$WS/" + dir)}
	}
	crossing := func(id, name, target string) row {
		return row{id: id, policy: workspaceOnly(), setup: func(fx *fixture) { fx.mkdir("$WS/real"); fx.symlink(target, "$WS/"+name) }, script: `true`,
			fails: &failure{invalidParams, "crosses writable symlink"}, Reference: "the command is started and exits 1, denied"}
	}
	return []row{
		{id: "G01", policy: workspaceWrite(), setup: repository, script: `cat .git/config; echo x > .git/hooks/h; echo x > .git/config`,
			exit: 2, denied: yes, out: []string{"old config", "hooks/h: " + textROFS, "config: " + textROFS}, check: holds("$WS/.git/config", "old config\n")},
		{id: "G02", policy: workspaceWrite(), setup: repository, probe: "rename $WS/.git $WS/moved", exit: 1, denied: no, out: []string{"EBUSY"}, host: []string{"+$WS/.git/config"}},
		{id: "G03", policy: workspaceWrite(), setup: repository, script: `rm -rf .git; ls -A .git`, denied: no, out: []string{textROFS, "^config$"}, host: []string{"+$WS/.git/config"}},
		create("G04", ".git", "config"),
		{id: "G05", policy: workspaceOnly(), script: `git init .; echo inner $?`, out: []string{textROFS, "inner (1|128)$"}, check: gone("$WS/.git")},
		create("G06", ".codex", "config.toml"),
		create("G07", ".agents", "skill.md"),
		create("G08", ".aws", "credentials"),
		{id: "G09", policy: workspaceOnly(), script: `mkdir sub/.git sub/.codex && echo x > sub/.git/config && echo x > sub/.codex/c`,
			host: []string{"+$WS/sub/.git/config", "+$WS/sub/.codex/c"}},
		{id: "G10", policy: workspaceOnly(), setup: func(fx *fixture) { fx.write("$WS/.git", "gitdir: real.git\n"); fx.mkdir("$WS/real.git") },
			script: `echo x > .git; echo x > real.git/config`, exit: 2, denied: yes, out: []string{"create .git: " + textROFS, "create real.git/config: " + textROFS}},
		{id: "G11", policy: workspaceOnly().with(special("project_roots", "write", ".git")), setup: repository,
			script: `echo x > .git/config; mkdir .codex`, exit: 1, denied: no, out: []string{textEXIST}, check: holds("$WS/.git/config", "x\n")},
		{id: "G12", policy: workspaceOnly(), setup: func(fx *fixture) { fx.mkdir("$WS/.git") }, script: `echo x > .git/f; true`,
			denied: no, out: []string{textROFS}, host: []string{"+$WS/.git", "-$WS/.git/f"}},
		crossing("G13", ".git", "real"),
		crossing("G14", ".codex", "$OUT"),
		{id: "G15", policy: workspaceWrite(), script: `mkdir /tmp/.git`, exit: 1, out: []string{textEXIST}, check: gone("/tmp/.git")},
		{id: "G16", policy: files(special("root", "read"), special("project_roots", "write")), setup: repository, script: `echo x > .git/config; mkdir .agents`,
			exit: 1, denied: yes, out: []string{textROFS, textEXIST}},
		{id: "G17", policy: workspaceOnly().in("$FX"), probe: "rename $FX $FX-moved", exit: 1, denied: no, out: []string{"EROFS"}, host: []string{"+$FX", "-$FX-moved"}},
		{id: "G18", policy: rootWrite(), setup: repository, script: `echo x > .git/config`, check: holds("$WS/.git/config", "x\n")},
		{id: "G19", policy: workspaceOnly().in("$WS/pkg").from("$WS/pkg"), cwd: "$WS/pkg", setup: func(fx *fixture) {
			fx.mkdir("$WS/pkg")
			fx.check(exec.Command("git", "init", "-q", fx.ws).Run())
		}, script: `git rev-parse --show-toplevel`, out: []string{"^$WS$"}},
	}
}

// Two commands in one workspace share the placeholders of protected names.
func TestCommandsShareProtectedNames(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := newFixture(t, a), a.acquire(t)
		fx.handOver()
		script := `mkdir .git; echo inner $?; read line; mkdir .git; echo inner $?`
		first := s.mustStart(t, fx, row{policy: workspaceOnly(), script: script, params: map[string]any{"pipeStdin": true, "processId": fx.mark + "-first"}})
		second := s.mustStart(t, fx, row{policy: workspaceOnly(), script: script, params: map[string]any{"pipeStdin": true, "processId": fx.mark + "-second"}})
		first.says(t, "inner 1")
		second.says(t, "inner 1")
		first.write(t, "go\n")
		if o := first.finish(t); o.exit != 0 || o.stdout != "inner 1\ninner 1\n" {
			t.Errorf("the first command: %+v", o)
		}
		second.write(t, "go\n") // the first has released the names, the second still needs them
		if o := second.finish(t); o.exit != 0 || o.stdout != "inner 1\ninner 1\n" {
			t.Errorf("the second command: %+v", o)
		}
		row{}.checkHost(t, fx, s)
		gone("$WS/.git")(t, fx, outcome{})
	})
}

// A repository that the host makes while a placeholder exists stays, and is read-only for the command.
func TestHostMakesProtectedName(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := newFixture(t, a), a.acquire(t)
		fx.handOver()
		p := s.mustStart(t, fx, row{policy: workspaceOnly(), script: `echo ready; read line; ls -A .git | wc -l; echo x > .git/config`, params: map[string]any{"pipeStdin": true}})
		p.says(t, "ready")
		if out, err := exec.Command("git", "init", "-q", fx.ws).CombinedOutput(); err != nil {
			t.Fatalf("git init: %v %s", err, out)
		}
		p.write(t, "go\n")
		o := p.finish(t)
		row{exit: 2, denied: yes, out: []string{textROFS}}.checkOutcome(t, fx, o)
		row{host: []string{"+$WS/.git/HEAD"}}.checkHost(t, fx, s)
	})
}
