package conformance

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func exitRows() []row {
	var rows []row
	for _, n := range []int{0, 1, 2, 42, 101, 125, 126, 127, 128, 255} {
		rows = append(rows, row{id: fmt.Sprint("exit-", n), policy: workspaceOnly(), script: fmt.Sprint("exit ", n), exit: n, denied: no})
	}
	for _, s := range []struct {
		name string
		exit int
	}{{"KILL", 137}, {"TERM", 143}, {"SEGV", 139}, {"ABRT", 134}, {"INT", 130}, {"HUP", 129}} {
		rows = append(rows, row{id: "E-SIG" + s.name, policy: workspaceOnly(), script: "kill -" + s.name + " $$; exit 7", exit: s.exit, denied: no})
	}
	notExecutable := func(fx *fixture) { fx.check(os.Chmod(fx.path("$WS/a.txt"), 0o644)) }
	notFound, notAllowed := &failure{internalError, `No such file or directory \(os error 2\)`}, &failure{internalError, `Permission denied \(os error 13\)`}
	const exits101 = "the command is started and exits 101, denied"
	return append(rows, []row{
		{id: "E-SIGSYS", policy: workspaceOnly(), script: `kill -SYS $$`, exit: 159, denied: yes},
		{id: "E-SIGSYS-un", policy: unrestricted(), script: `kill -SYS $$`, exit: 159, denied: yes},
		{id: "E-NSIGSYS", policy: unconfined(), script: `kill -SYS $$`, exit: 159, denied: no},
		{id: "E-SIGPIPE", policy: workspaceOnly(), script: `kill -PIPE $$; exit 7`, exit: 141, denied: no, Reference: "the signal is ignored"},
		{id: "E-SIGPIPE-un", policy: unrestricted(), script: `kill -PIPE $$; exit 7`, exit: 141, denied: no, Reference: "the signal is ignored"},
		{id: "E-PIPE2", policy: workspaceOnly(), script: `yes | head -n 1`, out: []string{"^y$"}, not: []string{"(?i)broken pipe"}, Reference: "yes complains about its pipe"},
		{id: "E01", policy: workspaceOnly(), argv: []string{"/no/such/program"}, fails: notFound, Reference: exits101},
		{id: "E01-name", policy: workspaceOnly(), argv: []string{"no-such-program"}, fails: notFound, Reference: exits101},
		{id: "E01-un", policy: unrestricted(), argv: []string{"/no/such/program"}, fails: notFound, Reference: exits101},
		{id: "E01-tty", policy: workspaceOnly(), argv: []string{"/no/such/program"}, params: map[string]any{"tty": true}, fails: notFound, Reference: exits101},
		{id: "E02", policy: workspaceOnly(), argv: []string{"$WS/a.txt"}, setup: notExecutable, fails: notAllowed, Reference: exits101},
		{id: "E02-dir", policy: workspaceOnly(), argv: []string{"$WS/sub"}, fails: notAllowed, Reference: exits101},
		{id: "E03", policy: unconfined(), argv: []string{"/no/such/program"}, fails: notFound},
		{id: "E04", policy: workspaceOnly(), script: `nope-cmd`, exit: 127, denied: no, out: []string{"not found"}},
	}...)
}

func denialRows() []row {
	const phrase = "Permission denied"
	// 1.2 MB in pieces, as a program would print them.
	flood := `head -c 1200000 /dev/zero | tr '\0' 'x'`
	// The second half of a phrase comes when the first has arrived.
	halves := func(t *testing.T, p *process) {
		p.says(t, "Permission")
		p.write(t, "go\n")
	}
	rows := []row{
		{id: "X01", policy: workspaceOnly(), script: `echo ` + phrase + `; exit 1`, exit: 1, denied: yes},
		{id: "X02", policy: workspaceOnly(), script: `echo ` + phrase, denied: no},
		{id: "X03", policy: workspaceOnly(), script: `echo ` + phrase + `; exit 2`, exit: 2, denied: yes},
		{id: "X04", policy: workspaceOnly(), script: `echo ` + phrase + `; exit 126`, exit: 126, denied: yes},
		{id: "X05", policy: workspaceOnly(), script: `echo ` + phrase + `; exit 127`, exit: 127, denied: yes},
		{id: "X06", policy: workspaceOnly(), script: `echo boom; exit 1`, exit: 1, denied: no},
		{id: "X07", policy: unconfined(), script: `echo ` + phrase + `; exit 1`, exit: 1, denied: no},
		{id: "X08", policy: workspaceOnly(), script: `echo PERMISSION DENIED; exit 1`, exit: 1, denied: yes},
		{id: "X10", policy: workspaceOnly(), script: `echo ` + phrase + `; ` + flood + `; exit 1`, exit: 1, denied: no},
		{id: "X11", policy: workspaceOnly(), script: flood + `; echo ` + phrase + `; exit 1`, exit: 1, denied: yes},
		{id: "X12", policy: workspaceOnly(), params: stdinPipe, script: `printf Permission; read go; printf ' denied'; exit 1`, drive: halves, exit: 1, denied: yes},
		{id: "X13", policy: workspaceOnly(), params: stdinPipe, script: `printf Permission; read go; printf ' denied' >&2; exit 1`, drive: halves, exit: 1, denied: yes},
		{id: "X14", policy: workspaceOnly(), script: `echo EPERM EACCES forbidden; exit 1`, exit: 1, denied: no},
		{id: "X15", policy: workspaceOnly(), script: `exit 159`, exit: 159, denied: yes},
		// The verdict is reached at the exit and does not depend on later output of a child. Here the child prints when the
		// client knows the verdict.
		{id: "X17", policy: unrestricted(), script: `echo "<$WS/go>"; (until [ -e go ]; do sleep 0.02; done; echo ` + phrase + `) & exit 1`,
			exit: 1, denied: no, out: []string{phrase}, drive: func(t *testing.T, p *process) {
				o := p.until(t, "exit", func(o outcome) bool { return o.exited && strings.Contains(o.stdout, ">") })
				name, _, _ := strings.Cut(strings.TrimPrefix(o.stdout, "<"), ">")
				if err := os.WriteFile(name, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}},
		{id: "X19", policy: workspaceOnly(), script: `printf 'read-only file sys'; printf 'tem\n'; exit 9`, exit: 9, denied: yes,
			check: func(t *testing.T, _ *fixture, o outcome) {
				if o.early != o.all {
					t.Errorf("output after the exit: %q", o.all[len(o.early):])
				}
			}},
	}
	for i, text := range []string{
		"operation not permitted", "permission denied", "read-only file system", "seccomp", "sandbox", "landlock", "failed to write file",
	} {
		rows = append(rows, row{id: fmt.Sprintf("X09-%c", 'a'+i), policy: workspaceOnly(), script: `echo "error: ` + text + `" >&2; exit 9`, exit: 9, denied: yes})
	}
	return rows
}

// Output of a child a moment after the exit counts for the verdict (X18). On a busy machine a child may be too late, but not
// in each of the attempts.
func TestDenialOfLateChild(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx, s := newFixture(t, a), a.acquire(t)
		fx.handOver()
		for i := range 20 {
			p := s.mustStart(t, fx, row{policy: unrestricted(), script: `(sleep 0.005; echo Permission denied >&2) & exit 1`, params: map[string]any{"processId": fmt.Sprintf("%s-%d", fx.mark, i)}})
			if o := p.finish(t); o.exit != 1 || o.stderr != "Permission denied\n" {
				t.Errorf("%+v", o)
			} else if o.denied {
				return
			}
		}
		t.Error("the late output was never taken into account")
	})
}
