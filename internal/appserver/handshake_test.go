//go:build unix

package appserver

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// PA01: the handshake comes first, and once.
func TestHandshakeComesFirst(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := &user{tethertest.Dial(t, f.url), t, f.cwd}
	spawn := c.spawnParams("a", nil, "true")
	refused(t, "before", c.Call("process/spawn", spawn), -32600, "Not initialized")
	refused(t, "decoded first", c.Call("process/spawn", j{}), -32600, "Invalid request: missing field `command`")
	refused(t, "without clientInfo", c.Call("initialize", j{}), -32600, "Invalid request: missing field `clientInfo`")
	refused(t, "a bad name", c.Call("initialize", j{"clientInfo": j{"name": "bad\nname", "version": "1"}}), -32600,
		"Invalid clientInfo.name: 'bad\nname'. Must be a valid HTTP header value.")
	var hello struct{ UserAgent, CodexHome, PlatformFamily, PlatformOs string }
	c.Must("initialize", j{"clientInfo": j{"name": "probe", "version": "0.1"}, "capabilities": j{"experimentalApi": true}}, &hello)
	if !strings.HasPrefix(hello.UserAgent, "probe/") || !strings.HasSuffix(hello.UserAgent, "(probe; 0.1)") ||
		!strings.HasSuffix(hello.CodexHome, "/.codex") || hello.PlatformFamily != "unix" || hello.PlatformOs == "" {
		t.Errorf("hello: %+v", hello)
	}
	refused(t, "again", c.Call("initialize", j{"clientInfo": j{"name": "probe", "version": "0.1"}}), -32600, "Already initialized")
	c.spawn("a", nil, "true") // the server does not wait for initialized
	c.exited("a")
}

// PA02: without the capability none of the four methods works.
func TestExperimentalGate(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for _, capabilities := range []j{nil, {}, {"experimentalApi": false}} {
		c := f.connectWith(capabilities)
		size := j{"rows": 1, "cols": 1}
		for method, params := range map[string]j{
			"process/spawn":      c.spawnParams("a", nil, "true"),
			"process/writeStdin": {"processHandle": "a", "closeStdin": true},
			"process/resizePty":  {"processHandle": "a", "size": size},
			"process/kill":       {"processHandle": "a"},
		} {
			refused(t, method, c.Call(method, params), -32600, method+" requires experimentalApi capability")
		}
	}
}

// Requests that are refused for lack of the capability are not counted as pending.
func TestRefusedRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connectWith(nil)
	for range maxPending + 10 {
		if m := c.Call("process/spawn", c.spawnParams("a", nil, "true")); m.Error == nil || m.Error.Code != -32600 {
			t.Fatalf("got %s", m.Raw)
		}
	}
}

// PA21: notifications that the client has opted out of are not sent, and the
// process ends all the same.
func TestOptOut(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for _, streamed := range []bool{false, true} {
		c := f.connectWith(j{"experimentalApi": true, "optOutNotificationMethods": []string{"process/outputDelta"}})
		c.sh("a", j{"streamStdoutStderr": streamed, "outputBytesCap": 3}, "printf abcdef; head -c 3000000 /dev/zero; exit 4")
		if e := c.exited("a"); e.ExitCode != 4 || !e.StdoutCapReached || e.StderrCapReached {
			t.Errorf("streamed %t: %+v", streamed, e)
		}
		if m, err := c.AwaitFor(0, func(m tethertest.Message) bool { return m.Method == "process/outputDelta" }); err == nil {
			t.Errorf("got %s", m.Raw)
		}
		c = f.connectWith(j{"experimentalApi": true, "optOutNotificationMethods": []string{"process/exited"}})
		c.sh("a", j{"streamStdoutStderr": streamed}, "printf x")
		tethertest.Eventually(t, func() error { // until the handle is free
			if m := c.Call("process/spawn", c.spawnParams("a", nil, "true")); m.Error != nil {
				return m.Error
			}
			return nil
		})
		if m, err := c.AwaitFor(0, func(m tethertest.Message) bool { return m.Method == "process/exited" }); err == nil {
			t.Errorf("got %s", m.Raw)
		}
	}
}

// PA25: messages that are not requests get no answer and do no harm.
func TestDroppedInput(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	for _, junk := range []string{
		`not json`, `{"id":1,`, `[]`, `[{"id":1,"method":"process/kill","params":{"processHandle":"a"}}]`, `7`, `"x"`, `null`, `{}`,
		`{"id":5}`, `{"id":5,"result":{}}`, `{"id":5,"error":{"code":1,"message":"x"}}`, `{"id":5,"method":7}`,
		`{"id":null,"method":"process/kill","params":{"processHandle":"a"}}`,
		`{"id":1.5,"method":"process/kill","params":{"processHandle":"a"}}`,
		`{"id":99999999999999999999,"method":"process/kill","params":{"processHandle":"a"}}`,
		`{"method":"process/kill","params":{"processHandle":"a"}}`, `{"method":"nonsense"}`,
	} {
		c.Send(junk)
	}
	if err := c.WS().WriteFrame(0x80|2, true, []byte(`{"id":77,"method":"process/kill","params":{"processHandle":"a"}}`)); err != nil {
		t.Fatal(err)
	}
	if err := c.WS().WriteFrame(2, true, []byte(`{"id":77,`)); err != nil { // the same in two fragments
		t.Fatal(err)
	}
	if err := c.WS().WriteFrame(0x80, true, []byte(`"method":"process/kill","params":{"processHandle":"a"}}`)); err != nil {
		t.Fatal(err)
	}
	c.Send(`{"jsonrpc":"2.0","id":"text","method":"process/kill","params":{"processHandle":"no\"q\né"}}`)
	if m := c.Next(); string(m.ID) != `"text"` || m.Error == nil || m.Error.Message != `no active process for process handle "no\"q\né"` {
		t.Errorf("got %s", m.Raw)
	}
}

// A request that our parser refuses is answered if it has an id.
func TestSalvagedRequest(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := f.connect()
	c.Send(`{"id":50,"method":"process/kill","params":{"processHandle":"a","processHandle":"b"}}`)
	if m := c.Next(); string(m.ID) != "50" || m.Error == nil || m.Error.Code != -32600 || !strings.HasPrefix(m.Error.Message, "Invalid request: ") {
		t.Errorf("got %s", m.Raw)
	}
}

func TestUnknownMethod(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	c := &user{tethertest.Dial(t, f.url), t, f.cwd}
	refused(t, "unknown", c.Call("nope/foo", j{}), -32600, "Invalid request: unknown variant `nope/foo`, expected one of "+
		"`initialize`, `process/spawn`, `process/writeStdin`, `process/resizePty`, `process/kill`")
}

// The HTTP paths of a listener.
func TestHTTPPaths(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	web := "http" + strings.TrimPrefix(f.url, "ws")
	for _, path := range []string{"/readyz", "/healthz"} {
		response, err := http.Get(web + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	ws, err := tethertest.DialWS(t.Context(), f.url+"/any/path", nil)
	if err != nil {
		t.Fatal(err)
	}
	ws.Close()
	if _, err := tethertest.DialWS(t.Context(), f.url, http.Header{"Origin": {"http://x"}}); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("with an Origin: %v", err)
	}
}

// On standard input and output, malformed lines are skipped, and the end of the
// input kills everything that was started.
func TestStdio(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	ended := make(chan struct{})
	go func() { // ends with the input
		f.ServeStdio(context.Background(), theirIn, theirOut)
		close(ended)
	}()
	c := &user{tethertest.NewLines(t, out, in), t, f.cwd}
	c.Send("not json")
	c.Send("{\"id\":1,\"method\":\"\xff\"}")
	c.Must("initialize", j{"clientInfo": j{"name": "test", "version": "1"}, "capabilities": j{"experimentalApi": true}}, nil)
	c.sh("a", j{"timeoutMs": nil}, "echo $$ >pid; exec sleep 100")
	child := pid(t, f.cwd+"/pid")
	in.Close()
	<-ended
	gone(t, child)
}
