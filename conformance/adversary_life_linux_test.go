package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// hostProcess starts a process on the host that the account may signal.
func hostProcess(t *testing.T, a *account) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = a.credential()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !alive(cmd.Process.Pid) {
			t.Error("the process of the host is gone")
		}
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// A command can signal neither the server nor any other process of the host.
func TestAdversarySignals(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		own := hostProcess(t, a)
		script := fmt.Sprintf(`"$ADV" signal %d %d`, own, s.cmd.Process.Pid)
		o := s.output(t, c.policy, script)
		var reached []string
		for line := range strings.Lines(o.stdout) {
			if !strings.Contains(line, "ESRCH") {
				reached = append(reached, line)
			}
		}
		if n := strings.Count(o.stdout, "ESRCH"); n != 14 || len(reached) > 0 {
			t.Errorf("%d calls found nothing, the others: %q", n, reached)
		}
		free := s.output(t, unconfined(), script)
		wants(t, fx, free, []string{"^kill: ok", "^tgkill: ok", "^pidfd_open: ok", "^setpriority: ok"})
	})
}

// stillServes checks that the server still runs commands, and that no process of earlier commands is left.
func stillServes(t *testing.T, fx *fixture, s *scriptRunner) {
	t.Helper()
	if o := s.output(t, workspaceOnly(), `echo alive`); o.stdout != "alive\n" {
		t.Errorf("the next command: %+v", o)
	}
	row{}.checkHost(t, fx, s.instance)
}

// zombies reports a child of the process that has ended and was not waited for.
func zombies(parent int) error {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return err
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(children)) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if err == nil && strings.Contains(string(stat), ") Z ") {
				return fmt.Errorf("a zombie is left: %s", stat)
			}
		}
	}
	return nil
}

// Terminate ends all processes of a command, whatever the command did to hide them.
func TestAdversaryTerminate(t *testing.T) {
	attacks := []struct{ name, script string }{
		{"bomb", `exec "$ADV" bomb 200`},
		{"freeze", `exec "$ADV" freeze`},
		{"frozen-parents", `"$ADV" freeze & wait`},
		{"orphans", `for i in 1 2 3; do (setsid sh -c 'trap "" TERM INT HUP; (setsid sleep 1000 &) ; sleep 1000' &) ; done; echo ready; exec sleep 1000`},
		{"deaf", `trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU CONT; echo ready; while :; do sleep 1; done`},
		{"closed", `echo ready; exec < /dev/null > /dev/null 2>&1; trap '' TERM; while :; do sleep 1; done`},
		{"stopped", `trap '' TERM; echo ready; kill -STOP $$; while :; do sleep 1; done`},
	}
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		for _, attack := range attacks {
			for _, params := range []map[string]any{{"tty": false}, tty} {
				t.Run(fmt.Sprintf("%s/tty-%v", attack.name, params["tty"]), func(t *testing.T) {
					fx, s := attackServer(t, a)
					p := s.script(t, c.policy, attack.script, params)
					p.says(t, "ready")
					p.terminate(t)
					if o := p.finish(t); o.exit != 137 && o.exit != 143 {
						t.Errorf("exit %d", o.exit)
					}
					stillServes(t, fx, s)
				})
			}
		}
	})
}

// When a confined command ends, the processes that it left running end too.
func TestAdversaryLeftRunning(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		p := s.script(t, c.policy, `"$ADV" bomb 200 > said & while ! test -s said; do :; done; cat said; exit 7`)
		o := p.finish(t)
		if o.exit != 7 || !strings.Contains(o.stdout, "ready 200") {
			t.Errorf("%+v", o)
		}
		stillServes(t, fx, s)
	})
}

// The exit of a command is reported even if another process of it has stopped or damaged process 1, or traces the command.
func TestAdversaryHidesTheExit(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		for _, how := range []string{"attach", "spoil", "seize"} {
			// The shell starts no other process, whose end would be a signal that stops a traced shell.
			p := s.script(t, c.policy, `"$ADV" hide `+how+` > said-`+how+` & while ! read line < said-`+how+`; do :; done 2> /dev/null; echo "$line"; exit 7`)
			o := p.finish(t)
			unknown := how == "spoil" && o.exit == -1 // process 1 has collected the exit code and does not report it
			if o.exit != 7 && !unknown || !strings.HasPrefix(o.stdout, how+": ") {
				t.Errorf("%s: %+v", how, o)
			}
			// What works is a matter of the kernel's settings, and process 1 of a native sandbox cannot be opened.
			if c.name == "network" && !slices.Contains([]string{": ok\n", ": EPERM\n", ": EACCES\n"}, strings.TrimPrefix(o.stdout, how)) {
				t.Errorf("the attack went wrong: %s", o.stdout)
			}
			stillServes(t, fx, s)
		}
	})
}

// Process 1 of the sandbox can neither be killed nor stopped from inside.
func TestAdversaryKillInit(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		p := s.script(t, c.policy, `for s in KILL STOP HUP SEGV ABRT USR1 PIPE ALRM; do kill -$s 1; done; kill -STOP $PPID; kill -KILL $PPID; echo still here; exit 4`)
		if o := p.finish(t); o.exit != 4 || !strings.Contains(o.stdout, "still here") {
			t.Errorf("%+v", o)
		}
		stillServes(t, fx, s)
	})
}

// When a server is killed, its confined commands end, even those that ignore all signals.
func TestAdversaryServerKilled(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		for _, c := range policyCases() {
			fx := newFixture(t, a)
			fx.addAttackPrograms()
			fx.handOver()
			s := &scriptRunner{instance: a.own(t, a.argv(), nil), fx: fx}
			p := s.script(t, c.policy, `exec "$ADV" bomb 50`)
			p.says(t, "ready")
			s.kill()
			tethertest.Eventually(t, func() error { return s.leftovers(fx) })
			next := a.own(t, a.argv(), nil) // takes placeholders away
			row{}.checkHost(t, fx, next)
		}
	})
}

// Terminate ends all of the 200 processes that a command has forked.
func TestAdversaryForkBomb(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := attackServer(t, a)
		p := s.script(t, workspaceOnly(), `exec "$ADV" bomb 200`)
		p.says(t, "ready 200")
		tethertest.Eventually(t, func() error { // they are counted while some still fork
			if n := len(s.family(fx.mark, fx.made)); n < 200 {
				return fmt.Errorf("only %d processes are seen", n)
			}
			return nil
		})
		p.terminate(t)
		p.finish(t)
		stillServes(t, fx, s)
		for _, pid := range s.pids() {
			tethertest.Eventually(t, func() error { return zombies(pid) })
		}
	})
}
