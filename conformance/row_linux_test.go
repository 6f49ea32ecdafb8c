package conformance

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// A row is one behaviour. Fields without a value are not checked, except for the exit code, which must be 0 then.
type row struct {
	id     string
	policy policy

	// setup prepares the host.
	setup func(*fixture)

	// The command: a script for the shell, a command line, or a probe.
	script string
	argv   []string
	probe  string
	env    map[string]string // instead of that of the fixture; cwd: instead of $WS
	cwd    string
	params map[string]any // more parameters of the start

	// drive acts as the client while the command runs; decide answers the server's questions about hosts.
	drive  func(*testing.T, *process)
	decide func(question) any

	// The expected outcome. out and not are regular expressions over all output in order of arrival. host lists files that
	// must (+) or must not (-) exist afterwards.
	fails  *failure // of the start; nil: it succeeds
	kind   string   // sandboxType; empty: that of the policy
	exit   int
	denied verdict
	out    []string
	not    []string
	host   []string
	check  func(*testing.T, *fixture, outcome)

	only      string // "root" or "user": run the row only as this account; empty: as all
	survives  bool   // the command may leave a process behind; check ends it
	Reference string // what the reference does, if it differs
}

// A failure is an error as the answer to a start.
type failure struct {
	code int
	text string // a regular expression
}

// Codes of failures.
const (
	invalidParams = -32602
	internalError = -32603
)

// verdict is the expected value of sandboxDenied.
type verdict int

const (
	either verdict = iota
	yes
	no
)

func (v verdict) accepts(denied bool) bool { return v == either || denied == (v == yes) }

func (v verdict) String() string { return [...]string{"either", "true", "false"}[v] }

// TestTable runs every row as every user, on every backend.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, rows := range [][]row{
		readRows(), globRows(), writeRows(), protectedRows(), identityRows(), deviceRows(), networkRows(), systemRows(),
		lifeRows(), exitRows(), denialRows(), terminalRows(), environRows(), refusalRows(), draftRows(), managedRows(), proxyRows(),
	} {
		for _, r := range rows {
			if seen[r.id] {
				t.Fatalf("two rows are called %s", r.id)
			}
			seen[r.id] = true
			t.Run(scenario.Name(r.id), func(t *testing.T) {
				for _, a := range slices.Concat(suite.accounts, suite.others) {
					if r.only != "" && (r.only == "root") != a.root() {
						continue
					}
					t.Run(a.name, func(t *testing.T) {
						t.Parallel()
						r.run(t, a)
					})
				}
			})
		}
	}
}

func (r row) run(t *testing.T, a *account) {
	if r.Reference != "" && suite.server.Reference {
		t.Skip("the reference differs: " + r.Reference)
	}
	if r.policy.opensShared() {
		sharedTmp.Lock()
		t.Cleanup(sharedTmp.Unlock)
		ownTmp()
	}
	fx := newFixture(t, a)
	if r.setup != nil {
		r.setup(fx)
	}
	fx.handOver()
	s := a.acquire(t)
	t.Cleanup(func() {
		if t.Failed() {
			s.endLeftovers(fx)
		}
	})
	if r.decide != nil {
		s.decideBy(t, r.decide)
	}
	p, err := s.start(r.start(fx))
	if r.fails != nil {
		r.checkFailure(t, err)
	} else if err != nil {
		t.Fatalf("start: %v", err)
	} else {
		r.checkType(t, p)
		if r.drive != nil {
			r.drive(t, p)
		}
		o := p.finish(t)
		r.checkOutcome(t, fx, o)
		p.checkRead(t, o)
	}
	r.checkHost(t, fx, s)
}

// start returns the parameters of process/start.
func (r row) start(fx *fixture) map[string]any {
	argv := r.argv
	switch {
	case r.script != "":
		argv = []string{"/bin/sh", "-c", r.script}
	case r.probe != "":
		argv = append([]string{suite.probe, "be-child", "probe"}, strings.Fields(r.probe)...)
	}
	env := r.env
	if env == nil {
		env = fx.env()
	}
	cwd := "$WS"
	if r.cwd != "" {
		cwd = r.cwd
	}
	params := map[string]any{
		"processId": fx.mark, "argv": fx.expand(argv), "cwd": "file://" + fx.path(cwd), "env": fx.expand(env),
		"tty": false, "pipeStdin": false, "arg0": nil,
	}
	if r.script != "" { // the shell has the names in its environment
		params["argv"] = argv
	}
	if sandbox := r.policy.wire(); sandbox != nil {
		params["sandbox"] = fx.expand(sandbox)
	}
	maps.Copy(params, r.params)
	if sandbox, given := r.params["sandbox"]; given {
		params["sandbox"] = fx.expand(sandbox)
	}
	return params
}

func (r row) checkType(t *testing.T, p *process) {
	t.Helper()
	want := r.policy.sandboxType()
	if r.kind != "" {
		want = r.kind
	}
	if p.SandboxType != want {
		t.Errorf("sandboxType %q, want %q", p.SandboxType, want)
	}
}

func (r row) checkFailure(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*tethertest.RPCError](err)
	if !ok {
		t.Fatalf("the start gave %v, want error %d", err, r.fails.code)
	}
	if e.Code != r.fails.code || !regexp.MustCompile(r.fails.text).MatchString(e.Message) {
		t.Errorf("the start failed with %v, want %d %s", e, r.fails.code, r.fails.text)
	}
}

func (r row) checkOutcome(t *testing.T, fx *fixture, o outcome) {
	t.Helper()
	if o.exit != r.exit {
		t.Errorf("exit code %d, want %d", o.exit, r.exit)
	}
	if !o.deniedSaid {
		t.Error("the exit does not say sandboxDenied")
	} else if !r.denied.accepts(o.denied) {
		t.Errorf("sandboxDenied %v, want %v", o.denied, r.denied)
	}
	for _, want := range r.out {
		// Lines of the two streams can be mixed, so each stream is also checked alone.
		if p := fx.pattern(want); !p.MatchString(o.all) && !p.MatchString(o.stdout) && !p.MatchString(o.stderr) {
			t.Errorf("no output matches %s", want)
		}
	}
	for _, never := range r.not {
		if fx.pattern(never).MatchString(o.all) {
			t.Errorf("output matches %s", never)
		}
	}
	if r.check != nil {
		r.check(t, fx, o)
	}
	if t.Failed() {
		t.Logf("stdout: %.2000q\nstderr: %.2000q", o.stdout, o.stderr)
	}
}

// pattern compiles an expression over lines, with the real names in it.
func (fx *fixture) pattern(text string) *regexp.Regexp {
	names := []string{"$WS", regexp.QuoteMeta(fx.ws), "$OUT", regexp.QuoteMeta(fx.out), "$FX", regexp.QuoteMeta(fx.dir)}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(fx.vars))) { // longer ones first
		names = append(names, "$"+name, regexp.QuoteMeta(fx.vars[name]))
	}
	return regexp.MustCompile("(?m)" + strings.NewReplacer(names...).Replace(text))
}

// checkHost checks the files of the host, that no placeholder is left, and that no process is.
func (r row) checkHost(t *testing.T, fx *fixture, s *instance) {
	t.Helper()
	for _, name := range r.host {
		_, err := os.Lstat(fx.path(name[1:]))
		if there := err == nil; there != (name[0] == '+') {
			t.Errorf("%s: it exists on the host: %v", name, there)
		}
	}
	tethertest.Eventually(t, fx.clean)
	if !r.survives {
		tethertest.Eventually(t, func() error { return s.leftovers(fx) })
	}
}
