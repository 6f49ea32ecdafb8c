//go:build interop

package interop_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// TestAppServerWebSocket compares what only a listener has: paths, health checks,
// binary frames, and two clients at once (PA16, PA17, PA25).
func TestAppServerWebSocket(t *testing.T) {
	t.Parallel()
	exchange{compares: wholeReplies}.compareWith(t, func(t *testing.T, who product) []observation {
		p := &appPlayer{player: &player{t: t, who: who}, dir: t.TempDir()}
		url := p.listen()
		p.web(url)
		p.two(url)
		p.endings(url)
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.note("exit status", fmt.Sprint(p.end()))
		return p.log
	})
}

// listen starts a server on loopback and returns its URL, which both print to
// standard error.
func (p *appPlayer) listen() string {
	p.t.Helper()
	p.cmd = productCommand(p.t, p.who, "app-server", "--listen", "ws://127.0.0.1:0")
	p.cmd.Env = appServerEnv(p.t)
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stderr = w
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.end()
		r.Close() // not before: the server may still write to it
	})
	r.SetReadDeadline(time.Now().Add(startTimeout))
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "listening on: "); ok {
			return strings.TrimSpace(url)
		}
	}
	p.t.Fatalf("%s does not say where it listens", p.who)
	return ""
}

// web notes the answers to HTTP requests.
func (p *appPlayer) web(url string) {
	p.t.Helper()
	for _, path := range []string{"/readyz", "/healthz"} {
		response, err := http.Get("http" + strings.TrimPrefix(url, "ws") + path)
		if err != nil {
			p.t.Fatal(err)
		}
		response.Body.Close()
		p.note(path, fmt.Sprint(response.StatusCode))
	}
	http.DefaultClient.CloseIdleConnections()
	for _, path := range []string{"", "/any/path"} {
		ws, err := tethertest.DialWS(p.t.Context(), url+path, nil)
		p.note("upgrade "+path, fmt.Sprint(err))
		if err == nil {
			ws.Close()
		}
	}
	_, err := tethertest.DialWS(p.t.Context(), url, http.Header{"Origin": {"http://x"}})
	if refused, ok := errors.AsType[*tethertest.UpgradeError](err); ok {
		p.note("with an Origin", fmt.Sprint(refused.Status))
	} else {
		p.note("with an Origin", fmt.Sprint(err))
	}
}

// connect opens a connection, which becomes the player's.
func (p *appPlayer) connect(url string) *tethertest.Client {
	p.t.Helper()
	p.Client = tethertest.Dial(p.t, url)
	p.hello()
	return p.Client
}

// two plays with two clients that use the same handle.
func (p *appPlayer) two(url string) {
	p.t.Helper()
	a := p.connect(url)
	p.sh("h", j{"timeoutMs": nil}, "exec sleep 100")
	b := p.connect(url)
	p.ask("of another", "process/kill", j{"processHandle": "h"})
	p.run("h", nil, "printf b")
	p.Client = a
	p.ask("kill", "process/kill", j{"processHandle": "h"})
	p.exit("h")
	if err := a.WS().WriteFrame(0x80|2, true, []byte(`{"id":77,"method":"process/kill","params":{"processHandle":"a"}}`)); err != nil {
		p.t.Fatal(err)
	}
	p.Send("not json")
	p.run("after a binary frame", nil, "exit 3")
	a.Close()
	b.Close()
}

// endings notes whether the processes of a client end soon after its connection.
func (p *appPlayer) endings(url string) {
	p.t.Helper()
	for _, how := range []string{"close frame", "gone"} {
		c := p.connect(url)
		file := strings.ReplaceAll(how, " ", "-")
		p.sh("pipe", j{"timeoutMs": nil}, "echo $$ >"+file+"; exec sleep 100")
		p.sh("tty", j{"timeoutMs": nil, "tty": true}, "echo $$ >"+file+"-tty; exec sleep 100")
		pids := []int{p.pid(file), p.pid(file + "-tty")}
		if how == "gone" {
			c.Close()
		} else if err := c.WS().WriteFrame(0x80|8, true, []byte{0x03, 0xe8}); err != nil {
			p.t.Fatal(err)
		}
		for _, pid := range pids {
			p.note(how+": process is gone", fmt.Sprint(p.gone(pid)))
		}
		c.Close()
		p.connect(url)
		p.ask("handle after "+how, "process/kill", j{"processHandle": "pipe"})
		p.Close()
	}
}
