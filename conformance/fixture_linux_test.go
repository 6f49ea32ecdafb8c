package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A fixture has the files that a row works on.
type fixture struct {
	t       *testing.T
	account *account
	dir     string // $FX, with everything below
	ws      string // $WS, the workspace: a.txt, sub/
	out     string // $OUT, beside it: secret.txt
	mark    string // in the environment of commands
	made    uint64 // when the fixture was made (ticksNow)

	vars  map[string]string // more of the environment, and names for texts
	site  *site             // on the host, if there is one
	proxy *clientProxy      // on the host, if there is one

	before map[string]bool // names that might be taken for placeholders
}

const (
	fileText   = "text of a\n"
	secretText = "top secret\n"
)

func newFixture(t *testing.T, a *account) *fixture {
	t.Helper()
	dir, err := os.MkdirTemp(a.dir, "fx-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	fx := &fixture{t: t, account: a, dir: dir, ws: dir + "/ws", out: dir + "/out", mark: "CONFORMANCE=" + filepath.Base(dir), made: ticksNow()}
	fx.write("$WS/a.txt", fileText)
	fx.mkdir("$WS/sub")
	fx.write("$OUT/secret.txt", secretText)
	return fx
}

// path replaces $WS, $OUT, $FX and the variables of the fixture in a text.
func (fx *fixture) path(text string) string {
	names := []string{"$WS", fx.ws, "$OUT", fx.out, "$FX", fx.dir, "$SOCK", fx.dir + "/sock", "$PORT", port(), "$MARK", fx.mark, "$TETHER", suite.tether}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(fx.vars))) { // longer ones first
		names = append(names, "$"+name, fx.vars[name])
	}
	return strings.NewReplacer(names...).Replace(text)
}

// expand is path for JSON.
func (fx *fixture) expand(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		fx.t.Fatal(err)
	}
	return json.RawMessage(fx.path(string(text)))
}

func (fx *fixture) check(err error) {
	fx.t.Helper()
	if err != nil {
		fx.t.Fatal(err)
	}
}

func (fx *fixture) mkdir(path string) {
	fx.t.Helper()
	fx.check(os.MkdirAll(fx.path(path), 0o755))
}

func (fx *fixture) write(path, text string) {
	fx.t.Helper()
	fx.mkdir(filepath.Dir(path))
	fx.check(os.WriteFile(fx.path(path), []byte(text), 0o600))
}

func (fx *fixture) symlink(target, path string) {
	fx.t.Helper()
	fx.check(os.Symlink(fx.path(target), fx.path(path)))
}

func (fx *fixture) link(old, path string) {
	fx.t.Helper()
	fx.check(os.Link(fx.path(old), fx.path(path)))
}

func (fx *fixture) read(path string) string {
	fx.t.Helper()
	text, err := os.ReadFile(fx.path(path))
	fx.check(err)
	return string(text)
}

// handOver gives everything to the user of the server.
func (fx *fixture) handOver() {
	fx.t.Helper()
	fx.check(filepath.WalkDir(fx.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, fx.account.uid, fx.account.gid)
	}))
	fx.before = fx.suspects()
}

// suspects are the names in the fixture that placeholders may have.
func (fx *fixture) suspects() map[string]bool {
	found := map[string]bool{}
	filepath.WalkDir(fx.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && slices.Contains([]string{".git", ".agents", ".codex", ".aws"}, d.Name()) {
			found[path] = true
		}
		return nil
	})
	return found
}

// clean reports names that a sandbox has left behind: they are empty.
func (fx *fixture) clean() error {
	var errs []error
	for path := range fx.suspects() {
		if fx.before[path] {
			continue
		}
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			continue
		case info.IsDir():
			if names, err := os.ReadDir(path); err == nil && len(names) > 0 {
				continue
			}
		case info.Size() > 0:
			continue
		}
		errs = append(errs, fmt.Errorf("left behind: %s", path))
	}
	return errors.Join(errs...)
}

// env is the environment of a row's command.
func (fx *fixture) env() map[string]string {
	name, value, _ := strings.Cut(fx.mark, "=")
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": fx.account.home(),
		"FX": fx.dir, "WS": fx.ws, "OUT": fx.out, name: value,
		"TETHER": suite.tether, "PROBE": suite.probe + " be-child probe",
		"PORT": port(), "SOCK": fx.dir + "/sock",
	}
	maps.Copy(env, fx.vars)
	return env
}

// greeting is the text that the peer sends to each client.
const greeting = "hello from the host\n"

// peer is a listener on the host that commands try to reach.
var peer struct {
	tcp     net.Listener
	workers sync.WaitGroup
}

func openPeer() (err error) {
	if peer.tcp, err = listenApart("127.0.0.1:0"); err != nil {
		return err
	}
	peer.workers.Go(func() { greet(peer.tcp) }) // ends with the listener
	return nil
}

// listenApart listens on the host. For port 0 it takes a port outside of the range that the kernel gives out, so that no proxy
// inside a managed network has the same port by chance.
func listenApart(address string) (l net.Listener, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port != "0" {
		return net.Listen("tcp", address)
	}
	for range 1000 {
		if l, err = net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(20_000+rand.IntN(10_000)))); err == nil {
			break
		}
	}
	return l, err
}

func port() string { return fmt.Sprint(peer.tcp.Addr().(*net.TCPAddr).Port) }

func closePeer() {
	peer.tcp.Close()
	peer.workers.Wait()
}

// greet sends the greeting to each client, in a form that curl understands.
func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		io.WriteString(conn, greeting)
		conn.Close()
	}
}

// socket makes $SOCK, a unix socket of the host.
func (fx *fixture) socket() {
	fx.t.Helper()
	l, err := net.Listen("unix", fx.dir+"/sock")
	fx.check(err)
	var worker sync.WaitGroup
	worker.Go(func() { greet(l) }) // ends with the listener
	fx.t.Cleanup(func() {
		l.Close()
		worker.Wait()
	})
}

// program makes a script that can be executed.
func (fx *fixture) program(path, text string) {
	fx.t.Helper()
	fx.write(path, fx.path(text))
	fx.check(os.Chmod(fx.path(path), 0o755))
}
