//go:build unix

package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/observe"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

// A portTarget accepts connections on loopback.
type portTarget struct {
	t *testing.T
	l net.Listener
}

func newPortTarget(t *testing.T) portTarget {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return portTarget{t, l}
}

func (p portTarget) accept() net.Conn {
	p.t.Helper()
	conn, err := p.l.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return conn
}

// open are the parameters that open a connection; with received, those that continue it.
func (p portTarget) open(received ...int) map[string]any {
	params := map[string]any{"connectionId": "c", "port": p.l.Addr().(*net.TCPAddr).Port, "limit": 100}
	for _, n := range received {
		params["received"] = n
	}
	return params
}

func portChunk(offset int, text string) map[string]any {
	return map[string]any{"connectionId": "c", "offset": offset, "chunk": base64.StdEncoding.EncodeToString([]byte(text))}
}

func isData(offset, chunk string) func(tethertest.Message) bool {
	return func(m tethertest.Message) bool {
		return m.Method == wire.NotePortData && strings.Contains(string(m.Raw), `"offset":`+offset+`,"chunk":"`+base64.StdEncoding.EncodeToString([]byte(chunk))+`"`)
	}
}

// A client that resumes its session gets the bytes from where it says on, and the target gets each byte once.
func TestPortContinues(t *testing.T) {
	t.Parallel()
	s, there := tethertest.StartServer(t, server.Config{}), newPortTarget(t)
	first := tethertest.Dial(t, s.URL)
	hello := first.Handshake("")
	var at wire.PortOpenResult
	first.Must(wire.MethodPortOpen, there.open(), &at)
	if at.Received != 0 || at.Limit < 1 {
		t.Errorf("opened: %+v", at)
	}
	conn := there.accept()
	first.Notify(wire.NotePortWrite, portChunk(0, "abc"))
	if b := make([]byte, 3); must(io.ReadFull(conn, b)) != nil || string(b) != "abc" {
		t.Errorf("the target has %q", b)
	}
	conn.Write([]byte("uvwxyz"))
	first.Await("data", isData("0", "uvwxyz"))

	second := tethertest.Dial(t, s.URL)
	first.Close()
	second.Handshake(hello.SessionID)
	second.Must(wire.MethodPortOpen, there.open(2), &at)
	if at.Received != 3 {
		t.Errorf("continued: %+v", at)
	}
	second.Await("the rest", isData("2", "wxyz"))
	second.Notify(wire.NotePortWrite, portChunk(1, "bcd"))
	end := portChunk(4, "e")
	end["end"] = true
	second.Notify(wire.NotePortWrite, end)
	if b, err := io.ReadAll(conn); string(b) != "de" || err != nil {
		t.Errorf("the target has %q, %v", b, err)
	}
	second.Await("acknowledgement", func(m tethertest.Message) bool {
		return m.Method == wire.NotePortAcked && strings.Contains(string(m.Raw), `"offset":5,`)
	})
	conn.Close()
	second.Await("end", func(m tethertest.Message) bool {
		return m.Method == wire.NotePortData && strings.HasSuffix(string(m.Raw), `"offset":6,"chunk":"","end":true}}`)
	})
	if m := second.Call(wire.MethodPortOpen, there.open(7)); m.Error == nil || !strings.Contains(string(m.Raw), wire.ErrorUnknownPort) {
		t.Errorf("continued behind the end: %s", m.Raw)
	}
	second.Must(wire.MethodPortClose, map[string]any{"connectionId": "c"}, nil)
	if m := second.Call(wire.MethodPortOpen, there.open(6)); m.Error == nil {
		t.Errorf("continued after the close: %s", m.Raw)
	}
}

func must[T any](_ T, err error) error { return err }

// The limit of the client holds: the server sends no byte behind it.
func TestPortLimitOfTheClient(t *testing.T) {
	t.Parallel()
	s, there := tethertest.StartServer(t, server.Config{}), newPortTarget(t)
	c := tethertest.Connect(t, s.URL)
	c.Must(wire.MethodPortOpen, there.open(), nil)
	conn := there.accept()
	conn.Write([]byte(strings.Repeat("x", 150)))
	c.Await("the first 100 bytes", isData("0", strings.Repeat("x", 100)))
	c.Notify(wire.NotePortAck, map[string]any{"connectionId": "c", "offset": 100, "limit": 120})
	c.Await("20 more bytes", isData("100", strings.Repeat("x", 20)))
}

// A client that breaks the rules of forwarded connections loses its connection; a notification about one that does not exist is ignored.
func TestPortNotesThatBreakTheRules(t *testing.T) {
	t.Parallel()
	s, there := tethertest.StartServer(t, server.Config{}), newPortTarget(t)
	for _, try := range []struct {
		method string
		params any
	}{
		{wire.NotePortWrite, portChunk(7, "gap")},
		{wire.NotePortWrite, map[string]any{"connectionId": "c", "offset": 0, "chunk": "a"}},
		{wire.NotePortWrite, map[string]any{"connectionId": "c"}},
		{wire.NotePortAck, map[string]any{"connectionId": "c", "offset": 1, "limit": 2}},
		{wire.NotePortAck, map[string]any{"connectionId": "c", "offset": -1, "limit": 2}},
	} {
		c := tethertest.Connect(t, s.URL)
		c.Must(wire.MethodPortOpen, there.open(), nil)
		there.accept()
		c.Notify(wire.NotePortWrite, map[string]any{"connectionId": "other", "offset": 7, "chunk": ""})
		c.Must(wire.MethodEnvironmentStatus, nil, nil)
		c.Notify(try.method, try.params)
		if err := c.Ended(); !strings.Contains(err.Error(), "bad "+try.method) {
			t.Errorf("%s %v: %v", try.method, try.params, err)
		}
	}
}

// Forwarded connections belong to their session, and end with it. A read-only connection has none.
func TestPortsOfOtherSessions(t *testing.T) {
	t.Parallel()
	s, there := startStreamServer(t, server.Config{}), newPortTarget(t)
	owner := s.streamOf(listen.Client{Peer: "owner", Principal: "anna"})
	owner.Handshake("")
	owner.Must(wire.MethodPortOpen, there.open(), nil)
	conn := there.accept()

	for _, client := range []listen.Client{{Peer: "other", Principal: "bob"}, {Peer: "same", Principal: "anna"}, {Peer: "watcher", Principal: "anna", ReadOnly: true}} {
		c := s.streamOf(client)
		c.Handshake("")
		if m := c.Call(wire.MethodPortOpen, there.open(0)); m.Error == nil {
			t.Errorf("%s continues the connection of another session", client.Peer)
		}
		if client.ReadOnly {
			c.Notify(wire.NotePortWrite, portChunk(0, "x"))
			c.Ended()
			continue
		}
		c.Notify(wire.NotePortWrite, portChunk(0, "x"))
		c.Must(wire.MethodPortClose, map[string]any{"connectionId": "c", "abort": true}, nil)
	}
	owner.Notify(wire.NotePortWrite, portChunk(0, "mine"))
	if b := make([]byte, 4); must(io.ReadFull(conn, b)) != nil || string(b) != "mine" {
		t.Errorf("the target has %q", b)
	}
	owner.Must(wire.MethodSessionEnd, map[string]any{}, nil)
	if _, err := conn.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("after the end of the session: %v", err)
	}
}

// A list of ports has a version if one is asked for. A client that has seen that version waits until there is another one, or its time is up.
func TestPortListVersions(t *testing.T) {
	t.Parallel()
	if !observe.HasListeners {
		need.CannotRun(t, "this system does not show listeners")
	}
	c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
	var plain, list, again wire.PortListResult
	c.Must(wire.MethodPortList, map[string]any{}, &plain)
	c.Must(wire.MethodPortList, map[string]any{"waitMs": 0}, &list)
	if plain.Version != "" || list.Version == "" {
		t.Errorf("versions %q and %q", plain.Version, list.Version)
	}
	c.Must(wire.MethodPortList, map[string]any{"waitMs": 1 << 40, "seen": "another"}, &again)
	if again.Version != list.Version {
		t.Errorf("versions %q and %q", again.Version, list.Version)
	}
	c.Must(wire.MethodPortList, map[string]any{"waitMs": 1, "seen": list.Version}, &again)
	if again.Version != list.Version {
		t.Errorf("versions %q and %q", again.Version, list.Version)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		need.CannotRun(t, "there is no python3")
	}
	waiting := c.Ask(wire.MethodPortList, map[string]any{"waitMs": 1 << 40, "seen": list.Version})
	serve := "import socket,sys; s=socket.create_server(('127.0.0.1',0)); sys.stdin.read()"
	c.Start(tethertest.Command("p", []string{python, "-c", serve}, map[string]any{"pipeStdin": true}))
	m := c.Answer(waiting)
	for json.Unmarshal(m.Result, &again) == nil && len(again.Listeners) == 0 { // the server gives up after some time
		m = c.Call(wire.MethodPortList, map[string]any{"waitMs": 1 << 40, "seen": again.Version})
	}
	if len(again.Listeners) != 1 || again.Listeners[0].ProcessID != "p" || again.Version == list.Version {
		t.Errorf("the process listens: %s", m.Raw)
	}
	c.Ask(wire.MethodPortList, map[string]any{"waitMs": 1 << 40, "seen": again.Version})
	c.Close() // the server does not wait for the list when it ends
}

// listenAt lets the server of a client listen on any port of 127.0.0.1.
func listenAt(c interface{ Must(string, any, any) }, id string) (address string) {
	var at wire.PortListenResult
	c.Must(wire.MethodPortListen, map[string]any{"listenerId": id, "host": "127.0.0.1", "port": 0}, &at)
	return net.JoinHostPort(at.Addresses[0], strconv.Itoa(int(at.Port)))
}

func dialPort(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A connection that the server has accepted has the stream of one that it has made: from the first byte, and after a resume.
func TestPortAccept(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{ForwardReverse: ports.Loopback})
	first := tethertest.Dial(t, s.URL)
	hello := first.Handshake("")
	address := listenAt(first, "l")
	if again := listenAt(first, "l"); again != address {
		t.Errorf("a repeat listens on %s, not %s", again, address)
	}
	if m := first.Call(wire.MethodPortListen, map[string]any{"listenerId": "l", "port": 0}); m.Error == nil {
		t.Errorf("other parameters: %s", m.Raw)
	}
	accept := map[string]any{"listenerId": "l", "connectionId": "c", "limit": 100}
	waiting := first.Ask(wire.MethodPortAccept, accept)
	conn := dialPort(t, address)
	conn.Write([]byte("abc"))
	var at wire.PortAcceptResult
	if m := first.Answer(waiting); json.Unmarshal(m.Result, &at) != nil || at.Peer != conn.LocalAddr().String() || at.Received != 0 || at.Limit == 0 {
		t.Errorf("accepted: %s", m.Raw)
	}
	first.Await("data", isData("0", "abc"))

	second := tethertest.Dial(t, s.URL)
	first.Close()
	second.Handshake(hello.SessionID)
	accept["received"] = 1
	second.Must(wire.MethodPortAccept, accept, &at)
	second.Await("the rest", isData("1", "bc"))
	second.Notify(wire.NotePortWrite, portChunk(0, "hello"))
	if b := make([]byte, 5); must(io.ReadFull(conn, b)) != nil || string(b) != "hello" {
		t.Errorf("the program has %q", b)
	}
	second.Must(wire.MethodPortUnlisten, map[string]any{"listenerId": "l"}, nil)
	second.Must(wire.MethodPortUnlisten, map[string]any{"listenerId": "l"}, nil)
	conn.Write([]byte("d"))
	second.Await("bytes behind the end of the listener", isData("3", "d"))
	if m := second.Call(wire.MethodPortAccept, map[string]any{"listenerId": "l", "connectionId": "d", "limit": 100}); m.Error == nil || !strings.Contains(string(m.Raw), wire.ErrorUnknownListener) {
		t.Errorf("behind the end of the listener: %s", m.Raw)
	}
	if late, err := net.Dial("tcp", address); err == nil {
		late.Close()
		t.Error("the server still listens")
	}
	accept["received"], accept["connectionId"] = 0, "unknown"
	if m := second.Call(wire.MethodPortAccept, accept); m.Error == nil || !strings.Contains(string(m.Raw), wire.ErrorUnknownPort) {
		t.Errorf("continued: %s", m.Raw)
	}
}

// Listeners belong to their session: no other one takes their connections or ends them, and they end with it. A close ends an accept that waits.
func TestListenersOfOtherSessions(t *testing.T) {
	t.Parallel()
	s := startStreamServer(t, server.Config{ForwardReverse: ports.Loopback})
	owner := s.streamOf(listen.Client{Peer: "owner", Principal: "anna"})
	owner.Handshake("")
	address := listenAt(owner, "l")
	accept := map[string]any{"listenerId": "l", "connectionId": "c", "limit": 100}
	for _, other := range []listen.Client{{Peer: "other", Principal: "bob"}, {Peer: "same", Principal: "anna"}, {Peer: "watcher", Principal: "anna", ReadOnly: true}} {
		c := s.streamOf(other)
		c.Handshake("")
		for _, m := range []tethertest.Message{c.Call(wire.MethodPortAccept, accept), c.Call(wire.MethodPortListen, map[string]any{"listenerId": "", "port": 0})} {
			if m.Error == nil {
				t.Errorf("%s: %s", other.Peer, m.Raw)
			}
		}
		if m := c.Call(wire.MethodPortUnlisten, map[string]any{"listenerId": "l"}); (m.Error != nil) != other.ReadOnly {
			t.Errorf("%s: %s", other.Peer, m.Raw)
		}
	}
	waiting := owner.Ask(wire.MethodPortAccept, accept)
	owner.Must(wire.MethodPortClose, map[string]any{"connectionId": "c", "abort": true}, nil)
	if m := owner.Answer(waiting); m.Error == nil {
		t.Errorf("an accept that was closed: %s", m.Raw)
	}
	conn := dialPort(t, address)
	owner.Must(wire.MethodPortAccept, accept, nil)
	queued := dialPort(t, address)
	owner.Must(wire.MethodSessionEnd, map[string]any{}, nil)
	for _, conn := range []net.Conn{conn, queued} {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a connection outlives its session")
		}
	}
	if late, err := net.Dial("tcp", address); err == nil {
		late.Close()
		t.Error("the server still listens")
	}
}

// The network of a process is open to clients of its principal alone, and only where something of the process listens.
func TestPortsOfProcesses(t *testing.T) {
	t.Parallel()
	if !observe.HasListeners {
		need.CannotRun(t, "this system does not show listeners")
	}
	s := startStreamServer(t, server.Config{})
	owner := s.streamOf(listen.Client{Peer: "owner", Principal: "anna"})
	session := owner.Handshake("").Tether.PublicID
	owner.Must(wire.MethodProcessStart, tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}), nil)
	there := newPortTarget(t) // of the machine, not of the process
	open := func(more ...any) map[string]any {
		params := there.open()
		for i := 0; i < len(more); i += 2 {
			params[more[i].(string)] = more[i+1]
		}
		return params
	}
	same, other := s.streamOf(listen.Client{Peer: "same", Principal: "anna"}), s.streamOf(listen.Client{Peer: "other", Principal: "bob"})
	same.Handshake("")
	other.Handshake("")
	for _, try := range []struct {
		by     *stream
		params map[string]any
		want   string
	}{
		{owner, open("processId", "p"), wire.ErrorPortRefused},
		{owner, open("processId", "p", "host", "127.0.0.1"), "has no host"},
		{owner, open("processId", "p", "port", 0), "is not 0"},
		{owner, open("processId", "q"), wire.ErrorUnknownProcess},
		{same, open("processId", "p"), wire.ErrorUnknownProcess},
		{same, open("processId", "p", "sessionId", session), wire.ErrorPortRefused},
		{other, open("processId", "p", "sessionId", session), "unknown session"},
	} {
		if m := try.by.Call(wire.MethodPortOpen, try.params); m.Error == nil || !strings.Contains(string(m.Raw), try.want) {
			t.Errorf("%v: %s", try.params, m.Raw)
		}
	}
}

// The audit log has each target, listener and connection once, and what was refused; the metrics have listeners and connections.
func TestPortsAreRecorded(t *testing.T) {
	t.Parallel()
	path, there := filepath.Join(t.TempDir(), "audit"), newPortTarget(t)
	s := tethertest.StartServer(t, server.Config{Audit: audit.Config{Target: path}, ForwardReverse: ports.Loopback})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Must(wire.MethodPortOpen, there.open(), nil)
	there.accept()
	c.Call(wire.MethodPortOpen, map[string]any{"connectionId": "d", "host": "192.0.2.1", "port": 80, "limit": 1})
	address := listenAt(c, "l")
	c.Call(wire.MethodPortListen, map[string]any{"listenerId": "m", "host": "192.0.2.1", "port": 80})
	conn := dialPort(t, address)
	accept := map[string]any{"listenerId": "l", "connectionId": "e", "limit": 100}
	c.Must(wire.MethodPortAccept, accept, nil)
	if values, _ := scrape(t, s.URL); values["tether_forward_listeners"] != 1 || values["tether_forwarded_connections"] != 2 {
		t.Errorf("%v listeners, %v connections", values["tether_forward_listeners"], values["tether_forwarded_connections"])
	}
	c.Close()
	c = tethertest.Dial(t, s.URL)
	c.Handshake(hello.SessionID)
	accept["received"] = 0
	c.Must(wire.MethodPortAccept, accept, nil)
	c.Must(wire.MethodPortOpen, there.open(0), nil)
	s.Stop()
	_, port, _ := net.SplitHostPort(there.l.Addr().String())
	want := []string{
		"port.opened localhost " + port, "port.refused 192.0.2.1 80", "port.listening " + strings.Replace(address, ":", " ", 1), "port.refused 192.0.2.1 80",
		"port.accepted " + strings.Replace(conn.LocalAddr().String(), ":", " ", 1),
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var e audit.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Event, "port.") {
			got = append(got, fmt.Sprint(e.Event, " ", e.Host, " ", e.Port))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
