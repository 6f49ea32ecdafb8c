package conformance

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// The adversary tests attack a sandbox from inside. Each checks that the attack fails in the sandbox. Where possible, it also
// shows that the attack works without one.

// buildAdversary builds a static program for attacks that need more than a shell,
// when the first test asks for it.
var buildAdversary = sync.OnceValues(func() (string, error) {
	name := filepath.Join(suite.dir, "bin", "adversary")
	gcc := exec.Command("gcc", "-O1", "-static", "-o", name, "testdata/adversary/adversary.c")
	if out, err := gcc.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the adversary: %w\n%s", err, out)
	}
	return name, nil
})

// programCopies has one copy of each program per account, which workspaces link to. The account owns the copy, so that
// attacks do not touch the program of the server.
var programCopies struct {
	sync.Mutex
	made map[string]bool
}

// copyFor returns the account's copy of a program.
func (a *account) copyFor(file string) (string, error) {
	programCopies.Lock()
	defer programCopies.Unlock()
	name := filepath.Join(a.dir, "copy-"+filepath.Base(file))
	if programCopies.made[name] {
		return name, nil
	}
	if err := executable.Copy(file, name); err != nil {
		return "", err
	}
	if programCopies.made == nil {
		programCopies.made = map[string]bool{}
	}
	programCopies.made[name] = true
	return name, os.Lchown(name, a.uid, a.gid)
}

// addAttackPrograms links the adversary ($ADV) and the probe ($PROBE) into the workspace: not every sandbox shows them elsewhere.
func (fx *fixture) addAttackPrograms() {
	fx.t.Helper()
	adversary, err := buildAdversary()
	fx.check(err)
	for name, program := range map[string]string{"adversary": adversary, "probe": suite.probe} {
		program, err := fx.account.copyFor(program)
		fx.check(err)
		fx.check(os.Link(program, fx.ws+"/"+name))
	}
}

// attackEnv returns the environment of attacks.
func (fx *fixture) attackEnv(more map[string]string) map[string]string {
	env := fx.env()
	env["ADV"], env["PROBE"] = fx.ws+"/adversary", fx.ws+"/probe be-child probe"
	env["HOST_PIDS"] = ownNamespace(fx.t, "pid") // attacks that would harm the host do not run in this namespace
	env["HOST_NAMESPACES"] = hostNamespaces()
	maps.Copy(env, more)
	return env
}

// A policyCase is a policy under which attacks run.
type policyCase struct {
	name   string
	policy policy
}

// policyCases returns policies that stop attacks by different means. None of them lets a command write to $OUT, and all but
// the first two hide it.
func policyCases() []policyCase {
	return []policyCase{
		{"workspace", workspaceOnly()},
		{"network", workspaceOnly().net()},
		{"root-deny", rootWrite().deny("$OUT")},
		{"minimal", minimalWrite()},
	}
}

// eachPolicyCase runs a test as every user under every policy.
func eachPolicyCase(t *testing.T, test func(*testing.T, *account, policyCase)) {
	t.Helper()
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		for _, c := range policyCases() {
			t.Run(c.name, func(t *testing.T) { test(t, a, c) })
		}
	})
}

// A scriptRunner runs the commands of a fixture on one server, each with an id of its own.
type scriptRunner struct {
	*instance
	fx *fixture
	n  int
}

// script starts a shell in the workspace.
func (s *scriptRunner) script(t *testing.T, p policy, script string, more ...map[string]any) *process {
	t.Helper()
	c, err := s.try(p, script, more...)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return c
}

// try is like script, for starts that may be refused.
func (s *scriptRunner) try(p policy, script string, more ...map[string]any) (*process, error) {
	s.n++
	params := map[string]any{"processId": fmt.Sprintf("%s-%d", s.fx.mark, s.n)}
	for _, m := range more {
		maps.Copy(params, m)
	}
	return s.start(row{policy: p, script: script, env: s.fx.attackEnv(nil), params: params}.start(s.fx))
}

// output runs a script to its end.
func (s *scriptRunner) output(t *testing.T, p policy, script string) outcome {
	t.Helper()
	return s.script(t, p, script).finish(t)
}

// attackServer returns a fixture for attacks and a server for it.
func attackServer(t *testing.T, a *account, setup ...func(*fixture)) (*fixture, *scriptRunner) {
	t.Helper()
	fx := attackFixture(t, a, setup...)
	return fx, &scriptRunner{instance: a.acquire(t), fx: fx}
}

// attackFixture returns a fixture with the programs for attacks.
func attackFixture(t *testing.T, a *account, setup ...func(*fixture)) *fixture {
	t.Helper()
	fx := newFixture(t, a)
	for _, f := range setup {
		f(fx)
	}
	fx.addAttackPrograms()
	fx.handOver()
	return fx
}

// wants checks the output of a command: each expression of match must match it, none of never may. Lines of the two
// streams can be mixed, so each stream is also checked alone.
func wants(t *testing.T, fx *fixture, o outcome, match []string, never ...string) {
	t.Helper()
	text := o.stdout + "\n" + o.stderr + "\n" + o.all
	for _, m := range match {
		if !fx.pattern(m).MatchString(text) {
			t.Errorf("no output matches %s", m)
		}
	}
	for _, n := range append(never, "ESCAPED") {
		if fx.pattern(n).MatchString(text) {
			t.Errorf("output matches %s", n)
		}
	}
	if t.Failed() {
		t.Logf("exit %d, output: %.3000s", o.exit, o.all)
	}
}

// intact checks that nothing was written to $OUT and that the secret is unchanged.
func (fx *fixture) intact(t *testing.T) {
	t.Helper()
	names, err := os.ReadDir(fx.out)
	if err != nil {
		t.Error(err)
	}
	for _, n := range names {
		if n.Name() != "secret.txt" {
			t.Errorf("%s is on the host", filepath.Join(fx.out, n.Name()))
		}
	}
	if text, err := os.ReadFile(fx.out + "/secret.txt"); err != nil || string(text) != secretText {
		t.Errorf("the secret is %q (%v)", text, err)
	}
}

// errRefused marks a start that the server refused. It may do so when files change during the start.
var errRefused = errors.New("refused")

// refusedOr turns a refusal by the server into errRefused, with the server's reason.
func refusedOr(err error) error {
	if e, ok := errors.AsType[*tethertest.RPCError](err); ok && (e.Code == invalidParams || e.Code == internalError) && e.Message != "" {
		return fmt.Errorf("%w: %s", errRefused, e.Message)
	}
	return err
}

// sections splits the output of a script that prints "== NAME" before each part.
func sections(text string) map[string]string {
	parts := map[string]string{}
	for _, part := range strings.Split(text, "== ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		parts[name] = strings.TrimSpace(rest)
	}
	return parts
}

// hostCommand runs a program on the host as root.
func hostCommand(t *testing.T, fx *fixture, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = os.Environ()
	for name, value := range fx.attackEnv(nil) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", strings.Join(argv, " "), err)
	}
	return string(out)
}
