package conformance

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A busyHost is a mount namespace with a server in it, in which all mounts are shared, as on most machines.
type busyHost struct {
	fx  *fixture
	pid int // a process in it
}

// shareAll is run as root in a new mount namespace; $0 is the user of the server.
const shareAll = `mount --make-rshared / && exec setpriv --reuid "$0" --regid "$0" --clear-groups -- "$@"`

// startBusyHost starts a server of the account in a mount namespace of its own.
func startBusyHost(t *testing.T, a *account, fx *fixture) (*busyHost, *scriptRunner) {
	t.Helper()
	starter := &account{name: a.name, dir: a.dir} // root at first
	argv := append([]string{"unshare", "--mount", "--propagation", "shared", "/bin/sh", "-c", shareAll, fmt.Sprint(a.uid)}, a.argv()...)
	s := &scriptRunner{instance: starter.own(t, argv, nil), fx: fx}
	return &busyHost{fx: fx, pid: s.cmd.Process.Pid}, s
}

// run runs a script as root on the busy host.
func (h *busyHost) run(t *testing.T, script string) {
	t.Helper()
	hostCommand(t, h.fx, "nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", h.pid), "/bin/sh", "-ec", script)
}

// plantMounts is a script that mounts a file system with a file "planted" on each directory that a command can see.
const plantMounts = `for dir in "$WS/sub" "$FX/mnt" "$OUT" "$WS/new"; do mkdir -p "$dir"; mount -t tmpfs none "$dir"; echo planted > "$dir/planted"; done
mkdir -p "$FX/bound"; mount --bind "$FX/mnt" "$FX/bound"
mkdir -p "$WS/deep"; mount --rbind "$FX/mnt" "$WS/deep"`

// findPlanted is a script that looks for these files. It prints "look" when it begins.
const findPlanted = `echo ready; read line; echo look
for dir in $WS/sub $WS/new $WS/deep $FX/mnt $FX/bound $OUT; do ls $dir/planted; done
cat $FX/mnt/planted $WS/sub/planted $OUT/planted; grep -c -E '(shared|master):' /proc/self/mountinfo; echo x > $FX/mnt/n; true`

// A mount that is made on the host while a command runs does not appear in its sandbox.
func TestAdversaryPropagation(t *testing.T) {
	notForReference(t, "it is not attacked")
	if len(suite.accounts) < 2 || !canMount(t) {
		t.Skip("needs root with the right to mount")
	}
	eachAccount(t, func(t *testing.T, a *account) {
		for _, c := range policyCases() {
			t.Run(c.name, func(t *testing.T) {
				fx := newFixture(t, a)
				fx.addAttackPrograms()
				fx.mkdir("$FX/mnt")
				fx.handOver()
				host, s := startBusyHost(t, a, fx)
				p := s.script(t, c.policy, findPlanted, map[string]any{"pipeStdin": true})
				p.says(t, "ready")
				host.run(t, plantMounts)
				p.write(t, "go\n")
				o := p.finish(t)
				wants(t, fx, o, []string{"^look$", "^0$"}, `^planted$`, `^/.*planted$`)
				late := s.output(t, workspaceOnly(), `cat $FX/mnt/planted`) // a later sandbox shows the mount
				wants(t, fx, late, []string{"^planted$"})
				row{}.checkHost(t, fx, s.instance)
			})
		}
	})
}

// With bubblewrap alone, new mounts appear in the sandbox, so the test above can fail.
func TestAdversaryPropagationControl(t *testing.T) {
	notForReference(t, "it is not attacked")
	if len(suite.accounts) < 2 || !canMount(t) {
		t.Skip("needs root with the right to mount")
	}
	fx := newFixture(t, suite.accounts[0])
	fx.mkdir("$FX/mnt")
	cmd := exec.Command("unshare", "--mount", "--propagation", "shared", "/bin/sh", "-c", `mount --make-rshared / && echo ready && cat > /dev/null`)
	in, err := cmd.StdinPipe()
	fx.check(err)
	out, err := cmd.StdoutPipe()
	fx.check(err)
	fx.check(cmd.Start())
	defer cmd.Wait()
	defer in.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	host := &busyHost{fx: fx, pid: cmd.Process.Pid}
	inside := exec.Command("nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", host.pid), "bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/sh", "-c", findPlanted)
	for name, value := range fx.attackEnv(nil) {
		inside.Env = append(inside.Env, name+"="+value)
	}
	var said lockedBuffer
	inside.Stdout, inside.Stderr = &said, &said
	input, err := inside.StdinPipe()
	fx.check(err)
	fx.check(inside.Start())
	tethertest.Eventually(t, func() error {
		if !strings.Contains(said.String(), "ready") {
			return fmt.Errorf("it is not ready: %q", said.String())
		}
		return nil
	})
	host.run(t, plantMounts)
	fmt.Fprintln(input, "go")
	input.Close()
	if err := inside.Wait(); err != nil || !strings.Contains(said.String(), "\nplanted\n") {
		t.Errorf("bubblewrap alone: %v, %s", err, said.String())
	}
}
