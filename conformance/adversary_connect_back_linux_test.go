package conformance

import (
	"bufio"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// tokenText is the token that a client needs.
const tokenText = "token-that-opens-everything"

// listening starts a server that listens on an address, and connects to it.
func listening(t *testing.T, fx *fixture, flags ...string) (s *scriptRunner, url string) {
	t.Helper()
	a := fx.account
	cmd := exec.Command(suite.tether, append([]string{"serve", "--ws-auth", "capability-token"}, flags...)...)
	cmd.Dir, cmd.SysProcAttr = fx.dir, a.credential()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + a.home(), "XDG_STATE_HOME=" + fx.dir + "/xdg"}
	i := &instance{account: a, cmd: cmd, exited: make(chan struct{}), always: map[int]bool{}}
	cmd.Stderr = &i.stderr
	out, err := cmd.StdoutPipe()
	fx.check(err)
	fx.check(cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("the server said: %s", i.stderr.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no URL: %v, %s", err, i.stderr.String())
	}
	url = strings.TrimSpace(line)
	ctx, cancel := within()
	defer cancel()
	ws, err := tethertest.DialWS(ctx, url, http.Header{"Authorization": {"Bearer " + tokenText}})
	if err != nil {
		t.Fatal(err)
	}
	i.client = newClient(func(handle tethertest.Handler) *tethertest.Conn { return tethertest.NewConn(ws, handle) })
	t.Cleanup(i.client.Close)
	fx.check(i.handshake())
	return &scriptRunner{instance: i, fx: fx}, url
}

// A listenCase is an address on which a server listens, with the files of that server.
type listenCase struct {
	name   string
	listen string
	token  string
	state  string // of the server; empty: where it is by default
	link   string // to $WS/sub, which the names above may lead through
}

// real returns a path of the server without the link.
func (d listenCase) real(fx *fixture, path string) string {
	if rest, ok := strings.CutPrefix(path, d.link+"/"); ok && d.link != "" {
		return fx.ws + "/sub/" + rest
	}
	return path
}

func listenCases(fx *fixture) []listenCase {
	home := filepath.Join(fx.account.home(), filepath.Base(fx.dir))
	return []listenCase{
		{"tcp", "ws://127.0.0.1:0", fx.ws + "/token", fx.ws + "/state", ""},
		{"unix-in-workspace", "unix://" + fx.ws + "/t.sock", fx.ws + "/sub/token", "", ""},
		{"unix-in-home", "unix://" + home + ".sock", home + ".token", "", ""},
		{"tcp-by-link", "ws://127.0.0.1:0", fx.dir + "/way/token", "", fx.dir + "/way"},
		{"unix-by-link", "unix://" + fx.dir + "/way/t.sock", fx.dir + "/way/token", "", fx.dir + "/way"},
	}
}

// becomeClient is a script that tries every way to make a command a client of the server.
const becomeClient = `if [ -n "$PATHNAME" ]; then "$ADV" reach "$PATHNAME"; ln "$PATHNAME" $WS/s2; mv "$PATHNAME" $WS/s3; rm -f "$PATHNAME"; "$ADV" reach $WS/s2 $WS/s3; fi
if [ -n "$ADDRESS" ]; then $PROBE connect-tcp $ADDRESS; fi
cat "$TOKEN"; ln "$TOKEN" $WS/t2 && cat $WS/t2; ln -s "$TOKEN" $WS/t3; cat $WS/t3; mv "$TOKEN" $WS/t4; cat $WS/t4; (echo mine > "$TOKEN") && echo DONE overwrite; rm -f "$TOKEN"
$PROBE open-by-handle "$TOKEN"
for d in "$STATE" "$STATE"/*; do ls -A "$d" && echo DONE ls; cat "$d"/* ; (echo x > "$d/n") && echo DONE write; mv "$d" $WS/moved && echo DONE mv; done
for p in /proc/[0-9]*; do cat $p/root"$TOKEN"; ls $p/root"$STATE" && echo DONE ls by proc; for f in $p/fd/*; do case $(readlink $f) in *state*|*tether/*) echo DONE descriptor $f;; esac; done; done
grep -rs token-that-[o]pens $WS/ /proc/[0-9]*/environ /proc/[0-9]*/cmdline; true`

// A command cannot become a client of the server that runs it.
func TestAdversaryConnectBack(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		for i := range listenCases(&fixture{account: a}) {
			fx := newFixture(t, a)
			d := listenCases(fx)[i]
			t.Run(d.name, func(t *testing.T) { tryToBecomeClient(t, fx, c, d) })
		}
	})
}

func tryToBecomeClient(t *testing.T, fx *fixture, c policyCase, d listenCase) {
	fx.addAttackPrograms()
	if d.link != "" {
		fx.symlink("$WS/sub", d.link)
	}
	fx.write(d.real(fx, d.token), tokenText+"\n")
	fx.handOver()
	fx.check(os.Lchown(d.real(fx, d.token), fx.account.uid, fx.account.gid))
	t.Cleanup(func() { os.Remove(d.token) })
	flags := []string{"--listen", d.listen, "--ws-token-file", d.token}
	state := fx.dir + "/xdg/tether"
	if d.state != "" {
		state = d.state
		flags = append(flags, "--state-dir", state)
	}
	s, url := listening(t, fx, flags...)
	path, isUnix := strings.CutPrefix(url, "unix://")
	path = d.real(fx, path)
	env := map[string]string{"TOKEN": d.real(fx, d.token), "STATE": d.real(fx, state)}
	if isUnix {
		env["PATHNAME"] = path
	} else {
		env["ADDRESS"] = strings.TrimPrefix(url, "ws://")
	}
	with := map[string]any{"env": fx.expand(fx.attackEnv(env))}
	o := s.script(t, c.policy, becomeClient, with).finish(t)
	never := []string{tokenText, "DONE", "connect stream: ok", "sendto stream: ok", "connect datagram: (ok|EPROTOTYPE)", "sendto datagram: (ok|EPROTOTYPE)"}
	if c.name != "network" {
		never = append(never, "^ok$")
	}
	wants(t, fx, o, nil, never...)
	if text, err := os.ReadFile(d.token); err != nil || string(text) != tokenText+"\n" {
		t.Errorf("the token is %q now (%v)", text, err)
	}
	if isUnix {
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
			t.Errorf("the socket is gone: %v", err)
		}
	}
	control := `cat "$TOKEN"; ls "$STATE" && echo LISTED; if [ -n "$PATHNAME" ]; then "$ADV" reach "$PATHNAME"; else $PROBE connect-tcp $ADDRESS; fi`
	free := s.script(t, unconfined(), control, with).finish(t)
	wants(t, fx, free, []string{tokenText, "^LISTED$", "^ok$|connect stream: ok"})
}

// A command with the network reaches the server's port. Without the token, the server refuses it.
func TestAdversaryConnectBackWithoutToken(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		d := listenCases(fx)[0]
		fx.addAttackPrograms()
		fx.write(d.token, tokenText)
		fx.handOver()
		s, url := listening(t, fx, "--listen", d.listen, "--ws-token-file", d.token)
		host, port, _ := strings.Cut(strings.TrimPrefix(url, "ws://"), ":")
		for _, authorization := range []string{"X: y", "Authorization: Bearer", "Authorization: Bearer x", "Authorization: Basic x"} {
			request := fmt.Sprintf(`GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s\r\n\r\n`, authorization)
			o := s.output(t, workspaceOnly().net(), fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/%s/%s; printf "%s" >&3; head -n 1 <&3'`, host, port, request))
			wants(t, fx, o, []string{`^HTTP/1.1 401 `}, "101 Switching")
		}
	})
}

// If the client's proxy variables name the server's own address, the command is not run: the proxy would lead back to
// the server.
func TestAdversaryConnectBackByPreparedProxy(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		d := listenCases(fx)[0]
		fx.write(d.token, tokenText)
		fx.handOver()
		s, url := listening(t, fx, "--listen", d.listen, "--ws-token-file", d.token)
		_, port, _ := strings.Cut(strings.TrimPrefix(url, "ws://"), ":")
		for _, variable := range []string{"HTTP_PROXY=http://127.0.0.1:" + port, "ALL_PROXY=socks5://localhost:" + port} {
			name, value, _ := strings.Cut(variable, "=")
			env := fx.env()
			env[name] = value
			p := s.script(t, workspaceOnly(), `echo ran; bash -c 'exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:}; printf "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n" >&3; head -n 1 <&3'`,
				enforce(map[string]any{"env": fx.expand(env)}))
			row{exit: 101, denied: yes, out: []string{"tether itself listens at the proxy address 127.0.0.1:" + port}, not: []string{"^ran", "^HTTP"}}.checkOutcome(t, fx, p.finish(t))
		}
	})
}

// If the home directory is a link, the server starts and hides its state there too.
func TestAdversaryStateBehindLink(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		way := fx.dir + "/way"
		tryToBecomeClient(t, fx, policyCases()[0], listenCase{"state", "ws://127.0.0.1:0", fx.ws + "/token", way + "/state", way})
	})
}
