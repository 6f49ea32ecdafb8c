package confine

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/sandbox/stage"
	"github.com/tetherexec/tether/wire"
)

// A testGate answers every connection with "out".
type testGate struct {
	listeners int
	ports     []stage.Port
	got       []net.Listener
	serving   sync.WaitGroup
}

func (g *testGate) Ports() (int, []stage.Port) { return g.listeners, g.ports }

func (g *testGate) Serve(listeners []net.Listener) {
	g.got = listeners
	for _, l := range listeners {
		g.serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, "out\n")
				c.Close()
			}
		})
	}
}

func (g *testGate) close() {
	for _, l := range g.got {
		l.Close()
	}
	g.serving.Wait()
}

// A command in a network of its own reaches only the listeners of the gate, and its
// environment has their port numbers.
func TestGate(t *testing.T) {
	host, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	b := newFixture(t, nil)
	gate := &testGate{listeners: 2, ports: []stage.Port{
		{Variable: "ONE", Prefix: "", Listener: 0}, {Variable: "TWO", Prefix: "<", Suffix: ">", Listener: 1},
	}}
	defer gate.close()
	r := b.request(intent(t, wire.NetworkRestricted, "read :root"), "bash", "-c", fmt.Sprintf(
		`exec 2>&1; cat </dev/tcp/127.0.0.1/$ONE; two=${TWO#<}; cat </dev/tcp/127.0.0.1/${two%%>}; cat </dev/tcp/127.0.0.1/%d; ls /proc/self/fd`,
		host.Addr().(*net.TCPAddr).Port))
	r.EnforceManagedNetwork, r.Gate = true, gate
	r.Spec.Env = append(r.Spec.Env, "ONE=", "TWO=")
	o := b.must(r)
	if got := o.text.String(); !strings.HasPrefix(got, "out\nout\n") || !strings.Contains(got, "Connection refused") || !strings.HasSuffix(got, "\n0\n1\n2\n3\n") {
		t.Errorf("ended with %d: %s", o.code, got)
	}
	for _, l := range gate.got {
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil { // another process may have that port
			c.SetReadDeadline(time.Now().Add(time.Second))
			if text, _ := io.ReadAll(c); string(text) == "out\n" {
				t.Errorf("a listener inside is at %v of the host", l.Addr())
			}
			c.Close()
		}
	}
	gate.serving.Wait() // the listeners end with the command; else they would keep its network alive
}

// Without a gate the command is not executed, and prints the refusal.
func TestGateRefused(t *testing.T) {
	b := newFixture(t, nil)
	r := b.request(intent(t, wire.NetworkRestricted, "read :root"), "sh", "-c", "echo executed")
	r.EnforceManagedNetwork, r.Refusal = true, "no candidate out"
	if o := b.must(r); o.code != stage.ExitRefused || o.text.String() != "no candidate out\n" {
		t.Errorf("ended with %d: %s", o.code, o.text.String())
	}
}

// If a variable of the gate is missing, nothing runs.
func TestGateWithMissingVariableIsRefused(t *testing.T) {
	b := newFixture(t, nil)
	gate := &testGate{listeners: 1, ports: []stage.Port{{Variable: "NOT_THERE"}}}
	r := b.request(intent(t, wire.NetworkRestricted, "read :root"), "true")
	r.EnforceManagedNetwork, r.Gate = true, gate
	if _, err := b.run(r); err == nil || !strings.Contains(err.Error(), "NOT_THERE") {
		t.Errorf("started: %v", err)
	}
	if gate.got != nil {
		t.Error("the gate was opened")
	}
}

// A sandbox in the network of the server is refused, and nothing runs in it.
func TestGateInServersNetworkIsRefused(t *testing.T) {
	outside, err := ownNetwork()
	if err != nil || outside == 0 {
		t.Skipf("this kernel has no names for networks (%v)", err)
	}
	config := &stage.Config{Argv: []string{"/bin/echo", "executed"}, Dir: "/", Listen: 1, Outside: outside}
	channel, theirs, err := stage.NewChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer channel.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Write(config.Encode()); err != nil {
		t.Fatal(err)
	}
	argv := reexec.Argv(os.Args[0], reexec.Sandbox, "6", "7")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.ExtraFiles = []*os.File{os.Stdin, os.Stdout, os.Stderr, file, theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	_, _, err = channel.Await(t.Context(), nil)
	cmd.Wait()
	if err == nil || !strings.Contains(err.Error(), "network of the server") {
		t.Errorf("executed: %v", err)
	}
}
