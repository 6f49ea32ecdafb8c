package mcptransport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/mcprelay"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// script makes a shell script the MCP server.
func (r *rig) script(text string) {
	r.transport.Command.Argv = []string{"/bin/sh", "-c", text}
}

func (r *rig) send(p *mcprelay.Pump, line string) {
	r.Helper()
	if err := p.Send(within(r), []byte(line)); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) receive(p *mcprelay.Pump, want string) {
	r.Helper()
	line, err := p.Receive(within(r))
	if err != nil || !strings.HasPrefix(string(line), want) {
		r.Fatalf("received %.300q, %v; want %.300q\n%s", line, err, want, r.log)
	}
}

// The pump does not change lines.
func TestPumpPassesLinesUnchanged(t *testing.T) {
	r := newRig(t)
	r.script("cat")
	p := r.open()
	for _, line := range []string{`{ "id" :1.0,"method":"x" ,"id":2,"params":"\u00e9 é \/"}`, `[{"id":1,"result":null}]`, `{}`,
		`{"x":"` + strings.Repeat("y", 1<<20) + `"}`} {
		r.send(p, line)
		got, err := p.Receive(within(t))
		if err != nil || string(got) != line {
			t.Errorf("%.100q became %.100q, %v", line, got, err)
		}
	}
	if err := p.CloseInput(within(t)); err != nil {
		t.Error(err)
	}
	if line, err := p.Receive(within(t)); err != io.EOF {
		t.Errorf("%q, %v", line, err)
	}
	if err := p.Send(within(t), []byte("{}")); err == nil || !strings.HasPrefix(err.Error(), "broken pipe: ") {
		t.Error(err)
	}
}

// If the context of Send ends, the message arrives as a whole, or not at all.
func TestPumpSendGivenUp(t *testing.T) {
	r := newRig(t)
	r.script("cat")
	p := r.open()
	r.send(p, `{"n":1}`)
	r.receive(p, `{"n":1}`)
	first := r.cable.On(cable.FromClient, cable.Method("process/write"), cable.CutBefore)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	long := `{"n":"` + strings.Repeat("2", 1<<20) + `"}`
	go func() { given <- p.Send(ctx, []byte(long)) }()
	if err := first.Await(within(t), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.cable.Mend()
	r.send(p, `{"n":3}`)
	r.receive(p, long)
	r.receive(p, `{"n":3}`)
}

// If the session is lost before initialize was answered, the client sends its own initialize to
// the next server.
func TestPumpInitializeInFlight(t *testing.T) {
	r := newRig(t)
	r.script(`while read -r line; do echo "$line" >> got; done`)
	p := r.open()
	r.send(p, `{"id":1,"method":"initialize"}`)
	r.awaitLine(filepath.Join(r.dir, "got"))
	r.lose()
	r.receive(p, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Transport closed: `)
	os.Remove(filepath.Join(r.dir, "got"))
	r.send(p, `{"id":2,"method":"initialize"}`)
	r.awaitLine(filepath.Join(r.dir, "got"))
	if got, err := os.ReadFile(filepath.Join(r.dir, "got")); string(got) != `{"id":2,"method":"initialize"}`+"\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// Only requests start the server again. Of the other messages, it gets initialize and
// initialized.
func TestPumpDropsNotifications(t *testing.T) {
	r := newRig(t)
	r.script(`while read -r line; do echo "$line" >> got; case $line in
		*initialize\"*) echo "{\"id\":1,\"result\":{}}";;
		*call*) echo "{\"id\":3,\"result\":{}}";;
	esac; done`)
	p := r.open()
	r.send(p, `{"id":1,"method":"initialize"}`)
	r.receive(p, `{"id":1,"result":{}}`)
	r.send(p, `{"id":2,"method":"unanswered"}`)
	r.lose()
	r.receive(p, `{"jsonrpc":"2.0","id":2,"error":`)
	if err := os.Remove(filepath.Join(r.dir, "got")); err != nil {
		t.Fatal(err)
	}
	r.send(p, `{"method":"notifications/initialized"}`)
	r.send(p, `{"method":"notifications/cancelled","params":{"requestId":2}}`)
	r.send(p, `{"id":9,"result":{}}`)
	r.send(p, `not json`)
	if n := r.called("process/start"); n != 1 {
		t.Errorf("%d starts", n)
	}
	r.send(p, `{"id":3,"method":"call"}`)
	r.receive(p, `{"id":3,"result":{}}`)
	got, err := os.ReadFile(filepath.Join(r.dir, "got"))
	want := `{"id":1,"method":"initialize"}` + "\n" + `{"method":"notifications/initialized"}` + "\n" + `{"id":3,"method":"call"}` + "\n"
	if string(got) != want {
		t.Errorf("%v, %s", err, got)
	}
}

// If the server that was started again chooses another version of the protocol, it is ended.
func TestRestartedServerWithOtherVersion(t *testing.T) {
	r := newRig(t)
	version := filepath.Join(r.dir, "version")
	if err := os.WriteFile(version, []byte("v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.script(`while read -r line; do case $line in
		*initialize\"*) echo "{\"id\":1,\"result\":{\"protocolVersion\":\"$(cat version)\"}}";;
		*call*) echo "{\"id\":2,\"result\":{}}";;
	esac; done`)
	p := r.open()
	r.send(p, `{"id":1,"method":"initialize"}`)
	r.receive(p, `{"id":1,"result":{"protocolVersion":"v1"}}`)
	r.send(p, `{"method":"notifications/initialized"}`)
	if err := os.WriteFile(version, []byte("v2"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.send(p, `{"id":3,"method":"unanswered"}`)
	r.lose()
	r.receive(p, `{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"Transport closed: `)
	r.send(p, `{"id":2,"method":"call"}`)
	r.receive(p, `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"Transport closed: initialize the MCP server that was started again: it speaks version \"v2\" of the protocol, and the last one spoke \"v1\""}}`)
	if err := os.WriteFile(version, []byte("v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.send(p, `{"id":2,"method":"call"}`)
	r.receive(p, `{"id":2,"result":{}}`)
}

// After the end of the input, Relay passes on the answers to open requests, and then lets the
// server end.
func TestRelay(t *testing.T) {
	for script, want := range map[string]error{
		`cat; exit 3`:                                 io.EOF,
		`cat; exec sleep 1000 < /dev/null`:            mcprelay.ErrLeft, // does not end
		`read -r line; echo "$line"; exec sleep 1000`: mcprelay.ErrLeft, // does not read
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.script(script)
			p := r.open()
			var out strings.Builder
			err := p.Relay(within(t), strings.NewReader("{\"n\":1}\r\n\n"), &out)
			if !errors.Is(err, want) || out.String() != "{\"n\":1}\n" {
				t.Errorf("%v, %q", err, out.String())
			}
			if exit := p.Exit(); err == io.EOF && exit.Code != 3 {
				t.Errorf("%+v", exit)
			}
			p.Close()
		})
	}
}

// If the session is lost after the end of the input, Relay ends.
func TestRelaySessionLost(t *testing.T) {
	r := newRig(t)
	r.script(`while read -r line; do :; done; echo > ended; exec sleep 1000`)
	p := r.open()
	done := make(chan error, 1)
	var out strings.Builder
	go func() { done <- p.Relay(within(t), strings.NewReader(`{"id":1,"method":"x"}`), &out) }()
	r.awaitLine(filepath.Join(r.dir, "ended"))
	r.lose()
	if err := <-done; err == nil || !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":1,"error":`) {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := p.Send(within(t), []byte(`{"id":2,"method":"y"}`)); err == nil {
		t.Error("the server was started again")
	}
}

func TestRelayLongLine(t *testing.T) {
	r := newRig(t)
	r.script("cat")
	p := r.open()
	if err := p.Relay(within(t), endless{}, io.Discard); err == nil || !strings.Contains(err.Error(), fmt.Sprint(64<<20)) {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// If the server has closed its input itself, CloseInput is not an error.
func TestPumpInputIsClosed(t *testing.T) {
	r := newRig(t)
	r.script(`exec <&-; echo '{}'; until [ -e go ]; do sleep 0.01; done; exit 3`)
	p := r.open()
	r.receive(p, "{}")
	tethertest.Eventually(t, func() error {
		if err := p.Send(within(t), []byte("{}")); err == nil {
			return errors.New("the input is still open")
		}
		return nil
	})
	if err := p.CloseInput(within(t)); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if line, err := p.Receive(within(t)); err != io.EOF || p.Exit().Code != 3 {
		t.Errorf("%q, %v, %+v", line, err, p.Exit())
	}
}

// The server may escape an id differently than the client.
func TestPumpSpellingOfIDs(t *testing.T) {
	r := newRig(t)
	r.script(`read -r line; echo '{"id":"\u003ca\u003e","result":{}}'; cat`)
	p := r.open()
	r.send(p, `{"id":"<a>","method":"x"}`)
	r.receive(p, `{"id":"\u003ca\u003e"`)
	tethertest.Eventually(t, func() error {
		if n := p.InFlight(); n != 0 {
			return fmt.Errorf("%d requests wait for an answer", n)
		}
		return nil
	})
}

// If the session is lost after the client has closed the input, open requests are answered.
func TestPumpInputClosedWhenLost(t *testing.T) {
	r := newRig(t)
	r.script("exec cat >/dev/null")
	p := r.open()
	const many = 8
	for id := range many {
		r.send(p, fmt.Sprintf(`{"id":%d,"method":"x"}`, id))
	}
	r.lose()
	tethertest.Eventually(t, func() error {
		if n := p.InFlight(); n > 0 {
			return fmt.Errorf("%d in flight", n)
		}
		return nil
	})
	if err := p.CloseInput(within(t)); err != nil {
		t.Error(err)
	}
	for range many {
		r.receive(p, `{"jsonrpc":"2.0","id":`)
	}
	if line, err := p.Receive(within(t)); !errors.Is(err, client.ErrSessionLost) {
		t.Errorf("received %q, %v", line, err)
	}
}

// A lazy transport opens even if there is no session. Any number of requests is answered with the
// reason, and the first request that finds a session starts the server.
func TestLazy(t *testing.T) {
	r := newRig(t)
	r.script(`pwd >&2; cat`)
	get, err := r.transport.Client, errors.New("connection refused")
	r.transport.Client = func(ctx context.Context) (*client.Client, error) {
		if err != nil {
			return nil, err
		}
		return get(ctx)
	}
	if _, oerr := (*mcprelay.Server)(r.transport).Open(within(t)); !errors.Is(oerr, err) {
		t.Errorf("a transport that is not lazy: %v", oerr)
	}
	dir := r.transport.Command.Dir
	r.transport.Lazy, r.transport.Command.Dir = true, ""
	r.transport.Dir = func(*client.Client) (string, error) { return dir, nil }
	p := r.open()
	for n := range 5 {
		r.send(p, fmt.Sprintf(`{"id":%d,"method":"x"}`, n))
		line, rerr := p.Receive(within(t))
		r.send(p, `{"method":"notice"}`) // gets no answer
		if want := fmt.Sprintf(`"id":%d,`, n); rerr != nil || !strings.Contains(string(line), want) || !strings.Contains(string(line), "connection refused") {
			t.Errorf("%s, %v", line, rerr)
		}
	}
	err = nil // Client is called by Send
	r.send(p, `{"id":9,"method":"x"}`)
	r.receive(p, `{"id":9,"method":"x"}`)
	if err := r.log.has(dir); err != nil {
		t.Error(err)
	}
	if err := p.CloseInput(within(t)); err != nil {
		t.Error(err)
	}
	if line, err := p.Receive(within(t)); err != io.EOF {
		t.Errorf("%q, %v", line, err)
	}
}
