package conformance

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sibling runs another tether of the same user until the test ends. It sends the input and returns when that tether has
// printed a line.
func (a *account) sibling(t *testing.T, fx *fixture, input, script string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "umask 077; "+script)
	cmd.Dir, cmd.SysProcAttr = a.dir, a.credential()
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "HOME=" + a.home(), "FX=" + fx.dir, "TETHER=" + suite.tether}
	var stderr lockedBuffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	fx.check(err)
	out, err := cmd.StdoutPipe()
	fx.check(err)
	fx.check(cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	if _, err := in.Write([]byte(input)); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%s: %q, %v: %s", script, line, err, stderr.String())
	}
}

// Other servers of the same user would start unconfined commands for a client. A confined command with the network cannot
// become such a client, whether it sees the socket or not.
func TestAdversarySiblings(t *testing.T) {
	notForReference(t, "it is not attacked")
	const (
		hello  = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n"
		serve  = `exec "$TETHER" serve --state-dir "$FX/other" --listen unix://`
		attack = `for socket in "$VISIBLE" "$RUNTIME" "$STATE" $(find "$FX/tmp" -type s); do
			"$TETHER" run --url "unix://$socket" -- sh -c 'echo out >> "$0"; echo reached' "$OUT/$1" 2>&1
		done`
	)
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		for _, dir := range []string{"$FX/run", "$FX/tmp", "$FX/home"} {
			fx.mkdir(dir)
		}
		fx.set("VISIBLE", fx.dir+"/visible")
		fx.set("RUNTIME", fx.dir+"/run/tether/server.sock")
		fx.set("STATE", filepath.Join(a.dir, "state/tether/home", filepath.Base(fx.dir), "server.sock"))
		fx.handOver()
		a.sibling(t, fx, "", serve+fx.path("$VISIBLE"))
		for _, name := range []string{"$RUNTIME", "$STATE"} {
			path := fx.path(name)
			a.sibling(t, fx, "", "mkdir -p "+filepath.Dir(path)+"; "+serve+path)
		}
		a.sibling(t, fx, hello, `TMPDIR="$FX/tmp" XDG_STATE_HOME="$FX/other" exec "$TETHER" mcp`)

		argv := append([]string{"env", "XDG_RUNTIME_DIR=" + fx.dir + "/run"}, a.argv()...)
		s := &scriptRunner{instance: a.own(t, append(argv, "--state-dir", fx.dir+"/own"), nil), fx: fx}
		allUnix := map[string]any{"managedNetwork": map[string]any{"dangerouslyAllowAllUnixSockets": true}}
		for _, c := range []managedCase{
			{name: "read-only", policy: readOnly().net()},
			{name: "workspace", policy: workspaceOnly().net()},
			{name: "root-deny", policy: rootWrite().deny("$FX/home").net()},
			{name: "managed", policy: workspaceOnly(), params: enforce(networkProxy(nil), allUnix)},
		} {
			name := c.name
			o := s.script(t, c.policy, "set -- inside; "+attack, c.params).finish(t)
			wants(t, fx, o, []string{`client refused: it is in another container or sandbox`}, `^reached$`)
			if n := strings.Count(o.all, "unix://"); n != 3 {
				t.Errorf("%s: %d sockets were tried", name, n)
			}
			for _, hidden := range []string{fx.path("$RUNTIME"), fx.path("$STATE")} {
				failed := "cannot connect to unix://" + hidden + ": "
				if !strings.Contains(o.all, failed+"permission denied") && !strings.Contains(o.all, failed+"no server listens there") {
					t.Errorf("%s: %s is not hidden", name, hidden)
				}
			}
			fx.intact(t)
		}
		// Without a sandbox the servers can be reached.
		o := s.output(t, unconfined(), `set -- outside; export OUT="$WS"; `+attack)
		if n := strings.Count(o.stdout, "reached\n"); n != 3 {
			t.Errorf("without a sandbox, %d of 3 servers were reached: %s", n, o.all)
		}
	})
}

// A socket of another program of the user is hidden, unless a flag of the server or an entry of the client opens it. The
// server learns the path of this socket from its environment.
func TestAdversaryUserSockets(t *testing.T) {
	notForReference(t, "it is not attacked")
	const attack = `$PROBE connect-unix-type "$SOCK" stream`
	eachAccount(t, func(t *testing.T, a *account) {
		fx := attackFixture(t, a, (*fixture).socket)
		shared(t, fx.path("$SOCK"))
		env := []string{"env", "SSH_AUTH_SOCK=" + fx.path("$SOCK")}
		start := func(flags ...string) *scriptRunner {
			argv := append(append([]string{}, env...), a.argv()...)
			return &scriptRunner{instance: a.own(t, append(argv, flags...), nil), fx: fx}
		}
		closed, open := start(), start("--user-sockets")
		for name, p := range map[string]policy{"read-only": readOnly(), "workspace": workspaceOnly(), "writable": workspaceOnly().with(at("$FX", "write"))} {
			o := closed.output(t, p.net(), attack)
			wants(t, fx, o, []string{`^connect-unix-type: E`}, "^ok$")
			o = closed.output(t, p.with(at("$SOCK", "write")).net(), attack)
			if o.stdout != "ok\n" {
				t.Errorf("%s, with an entry for the socket: %s", name, o.all)
			}
			if o := open.output(t, p.net(), attack); o.stdout != "ok\n" {
				t.Errorf("%s, with --user-sockets: %s", name, o.all)
			}
		}
	})
}
