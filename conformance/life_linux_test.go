package conformance

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// survivor checks that the process whose pid was printed still runs, and ends it.
func survivor(t *testing.T, _ *fixture, o outcome) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(o.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Error("the background process is gone")
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// hostSleep starts a process on the host and writes its pid into a file that the row reads.
func hostSleep(fx *fixture) {
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = fx.account.credential()
	fx.check(cmd.Start())
	fx.t.Cleanup(func() {
		if !alive(cmd.Process.Pid) {
			fx.t.Error("the process of the host is gone")
		}
		cmd.Process.Kill()
		cmd.Wait()
	})
	fx.write("$WS/pid", fmt.Sprint(cmd.Process.Pid))
}

// ignoresSignals is a tree of processes that ignore requests to end, some in sessions
// of their own.
const ignoresSignals = `trap '' TERM INT HUP
sh -c 'trap "" TERM INT HUP; while :; do sleep 1; done' &
setsid sh -c 'trap "" TERM INT HUP; while :; do sleep 1; done' &
(setsid sh -c 'trap "" TERM; sleep 1000' &)
echo ready; while :; do sleep 1; done`

func lifeRows() []row {
	const sessionsLive = "processes in sessions of their own may live on"
	background := `sleep 1000 < /dev/null > /dev/null 2>&1 & echo $!`
	end := func(t *testing.T, p *process) {
		p.says(t, "ready")
		p.terminate(t)
	}
	return []row{
		{id: "K01", policy: workspaceOnly(), setup: hostSleep, script: `kill -9 $(cat pid)`, exit: 1, denied: no, out: []string{"No such process"}},
		probeRow("K02", workspaceOnly(), "kill-all", "ESRCH"),
		{id: "K03", policy: workspaceOnly(), script: `kill -9 1; echo still; kill -TERM 1; exit 9`, exit: 9, denied: no, out: []string{"still"}, Reference: "TERM reaches the command: exit 143"},
		{id: "K04", policy: workspaceOnly(), script: `sleep 1000 & echo started`, out: []string{"started"}},
		{id: "K05", policy: unconfined(), script: background, survives: true, check: survivor},
		{id: "K06", policy: unrestricted(), script: background, survives: true, check: survivor},
		{id: "K10", policy: workspaceOnly(), script: ignoresSignals, drive: end, exit: 137, denied: no, Reference: "placeholders are left behind"},
		{id: "K10-net", policy: workspaceOnly().net(), script: ignoresSignals, drive: end, exit: 137, denied: no, Reference: "placeholders are left behind"},
		{id: "K10-tty", policy: workspaceOnly(), script: ignoresSignals, params: map[string]any{"tty": true}, drive: end, exit: 137, denied: no, Reference: "placeholders are left behind"},
		{id: "K10-un", policy: unrestricted(), script: ignoresSignals, drive: end, exit: 137, denied: no, Reference: sessionsLive},
		{id: "K11", policy: unconfined(), script: ignoresSignals, drive: end, exit: 137, denied: no, Reference: sessionsLive},
		{id: "O03", policy: workspaceOnly().also("policyContext", map[string]any{"cwd": "file://$FX/ws2", "workspaceRoots": []string{"file://$FX/ws2"}}),
			setup: func(fx *fixture) { fx.mkdir("$FX/ws2") }, script: `echo x > n; echo x > $FX/ws2/n`, host: []string{"-$WS/n", "+$FX/ws2/n"}},
		{id: "O05", policy: workspaceOnly().also("userHomeDir", "file://$OUT"), script: `echo x > $OUT/n`, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n"}},
		{id: "O06", policy: rootWrite().deny("$OUT"), setup: func(fx *fixture) { fx.write("$WS/.git/config", "c\n") }, script: `echo x > .git/config`,
			check: holds("$WS/.git/config", "x\n"), Reference: "the server of an ordinary user cannot build the sandbox"},
		{id: "L01", policy: readOnly().also("useLegacyLandlock", true), script: `true`, fails: &failure{invalidParams, "requires bubblewrap"},
			Reference: "the command is started and exits 101"},
		{id: "L04", policy: unrestricted().also("useLegacyLandlock", true), script: `echo x > $OUT/n; $PROBE socket inet stream`,
			exit: 1, denied: no, out: []string{"EPERM"}, host: []string{"+$OUT/n"}},
	}
}

// A command cannot rename a directory above a hidden one, so the next command does not find the hidden files elsewhere.
// Scenario RN01.
func TestHiddenDirectoryCannotBeRenamedAway(t *testing.T) {
	if suite.server.Reference {
		t.Skip("the reference lets the directory be renamed")
	}
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := newFixture(t, a), a.acquire(t)
		fx.write("$WS/x/secret/k", "key text\n")
		fx.handOver()
		denying := workspaceOnly().deny("$WS/x/secret")
		o := s.mustStart(t, fx, row{policy: denying, script: `mv x y; ls`}).finish(t)
		if !strings.Contains(o.stderr, textBUSY) {
			t.Errorf("mv of a directory above a hidden one: %+v", o)
		}
		o = s.mustStart(t, fx, row{policy: denying, script: `cat x/secret/k y/secret/k`, params: map[string]any{"processId": fx.mark + "-next"}}).finish(t)
		if o.exit == 0 || strings.Contains(o.all, "key text") {
			t.Errorf("the next command reads it: %+v", o)
		}
		row{host: []string{"+$WS/x/secret/k", "-$WS/y"}}.checkHost(t, fx, s)
	})
}

// The next server removes the placeholders of a killed one.
// Scenario K12.
func TestPlaceholdersOfKilledServer(t *testing.T) {
	if suite.server.Reference {
		t.Skip("the reference leaves placeholders behind")
	}
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.handOver()
		s := a.own(t, a.argv(), nil)
		p := s.mustStart(t, fx, row{policy: workspaceOnly(), script: ignoresSignals})
		p.says(t, "ready")
		if fx.clean() == nil {
			t.Error("no placeholder is there while the command runs")
		}
		s.kill()
		tethertest.Eventually(t, func() error { return s.leftovers(fx) })
		next := a.own(t, a.argv(), nil)
		if o := next.mustStart(t, fx, row{policy: unconfined(), script: `true`}).finish(t); o.exit != 0 {
			t.Errorf("the next server: %+v", o)
		}
		row{}.checkHost(t, fx, next)
	})
}

// The next server ends the commands that a killed one has left.
// Scenario K13.
func TestCommandsOfKilledServer(t *testing.T) {
	notForReference(t, "it leaves them running")
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.handOver()
		s := a.own(t, a.argv(), nil)
		t.Cleanup(func() { s.endLeftovers(fx) })
		p := s.mustStart(t, fx, row{policy: unconfined(), script: ignoresSignals})
		p.says(t, "ready")
		q := s.mustStart(t, fx, row{policy: unconfined(), script: `sh -c 'trap "" TERM; echo ready; exec >/dev/null 2>&1; while :; do sleep 1; done' & wait`,
			params: map[string]any{"processId": fx.mark + "-grandchild"}})
		q.says(t, "ready")
		s.kill()
		a.own(t, a.argv(), nil)
		tethertest.Eventually(t, func() error { return s.leftovers(fx) })
	})
}

// Commands of two users hold the same protected names in /tmp.
func TestSharedTmp(t *testing.T) {
	if len(suite.accounts) < 2 {
		t.Skip("needs two users")
	}
	sharedTmp.Lock()
	defer sharedTmp.Unlock()
	ownTmp()
	script := `echo ready; read line; mkdir /tmp/.git; echo inner $?; rmdir /tmp/.git 2>/dev/null; true`
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		first, second := suite.accounts[order[0]], suite.accounts[order[1]]
		t.Run(first.name+"-before-"+second.name, func(t *testing.T) {
			start := func(a *account) (*process, func()) {
				fx, s := newFixture(t, a), a.acquire(t)
				fx.handOver()
				p := s.mustStart(t, fx, row{policy: workspaceWrite(), script: script, params: map[string]any{"pipeStdin": true}})
				p.says(t, "ready")
				return p, func() { row{}.checkHost(t, fx, s) }
			}
			p1, check1 := start(first)
			p2, check2 := start(second)
			for _, p := range []*process{p1, p2} {
				p.write(t, "go\n")
				if o := p.finish(t); !strings.Contains(o.stdout, "inner 1") {
					t.Errorf("/tmp/.git could be created: %+v", o)
				}
			}
			check1()
			check2()
			if t.Failed() {
				return
			}
			gone("/tmp/.git")(t, &fixture{}, outcome{})
		})
	}
}

// Two servers of one user in the same workspace leave each other's placeholders alone, with one state directory and with two.
func TestTwoServers(t *testing.T) {
	notForReference(t, "it has no state directory")
	for _, shared := range []bool{true, false} {
		name := map[bool]string{true: "one-state", false: "two-states"}[shared]
		t.Run(name, func(t *testing.T) {
			eachAccount(t, func(t *testing.T, a *account) {
				fx := newFixture(t, a)
				fx.mkdir("$FX/state1")
				fx.mkdir("$FX/state2")
				fx.handOver()
				second := "$FX/state1"
				if !shared {
					second = "$FX/state2"
				}
				script := `echo ready; read line; mkdir .git; echo inner $?`
				var running []*process
				for _, state := range []string{"$FX/state1", second} {
					s := a.own(t, append(a.argv(), "--state-dir", fx.path(state)), nil)
					p := s.mustStart(t, fx, row{policy: workspaceOnly(), script: script, params: map[string]any{"pipeStdin": true}})
					p.says(t, "ready")
					running = append(running, p)
				}
				for _, p := range running {
					p.write(t, "go\n")
					if o := p.finish(t); !strings.Contains(o.stdout, "inner 1") {
						t.Errorf(".git could be created: %+v", o)
					}
				}
				if !t.Failed() {
					gone("$WS/.git")(t, fx, outcome{})
				}
			})
		})
	}
}
