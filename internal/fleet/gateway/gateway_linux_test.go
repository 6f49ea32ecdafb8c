package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// host starts an executor, and waits until the fleet knows it.
func host(t *testing.T, f *fleettest.Fleet, hosts *directory.Hosts, c fleettest.HostConfig) *fleettest.Host {
	t.Helper()
	h := f.Host(c)
	fleettest.Await(t, hosts, c.Name+" has joined", func() bool {
		s, known := hosts.Get(c.Name)
		return known && s.State == directory.Reachable
	})
	return h
}

// dial opens a session with the recovering client.
func dial(t *testing.T, url string, o client.Options) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()
	if o.Wait == 0 {
		o.Wait = fleettest.Patience
	}
	c, err := client.Dial(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// refusal returns the error with which initialize is answered.
func refusal(t *testing.T, url, token string, params map[string]any) *wire.Error {
	t.Helper()
	c := tethertest.DialToken(t, url, token)
	m := c.Call("initialize", params)
	if m.Error == nil {
		t.Fatalf("initialize at %s is not refused: %s", url, m.Raw)
	}
	return &wire.Error{Code: m.Error.Code, Message: m.Error.Message}
}

func opening(resume string) map[string]any {
	p := map[string]any{"clientName": "test", "resumeSessionId": nil}
	if resume != "" {
		p["resumeSessionId"] = resume
	}
	return p
}

// A client gets commands, output and exit codes through a gateway as from the host itself.
func TestCommandThroughAGateway(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	hosts := f.Hosts()
	host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	c := dial(t, gate.URL, client.Options{})
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "read line; echo \"$line\"; echo err >&2; exit 7"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), []byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	r, err := p.Result(t.Context())
	if err != nil || r.Code != 7 {
		t.Errorf("%+v %v", r, err)
	}
}

// numbered prints n numbered lines.
func numbered(n int) []string {
	return []string{"sh", "-c", fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done; exit 3`, n)}
}

// expectNumbered reads the output of numbered to its end.
func expectNumbered(t *testing.T, p *client.Process, n int) {
	t.Helper()
	var want bytes.Buffer
	for i := range n {
		fmt.Fprintln(&want, "line", i)
	}
	got, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d bytes of output, not the %d that were written", len(got), want.Len())
	}
	if r, err := p.Result(t.Context()); err != nil || r.Code != 3 {
		t.Errorf("%+v %v", r, err)
	}
}

// Each connection goes through the next of three gateways, and is cut again and again. Every byte arrives once.
func TestOutputThroughAlternatingGateways(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	hosts := f.Hosts()
	var gates []string
	for range 3 {
		gates = append(gates, fleettest.Target(t, f.Gateway(listen.Config{}, "").URL))
	}
	host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	relay := fleettest.LayRelay(t, gates...)
	reconnected := make(chan struct{}, 100)
	c := dial(t, relay.URL(), client.Options{OnState: func(s client.Status) {
		if s.State == client.Connected {
			reconnected <- struct{}{}
		}
	}})
	<-reconnected
	lines := tethertest.Scaled(20_000, 400_000)
	p, err := c.Start(t.Context(), client.Command{Argv: numbered(lines)})
	if err != nil {
		t.Fatal(err)
	}
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for range 6 {
			relay.Cut()
			select {
			case <-reconnected:
			case <-p.Done():
				return
			}
		}
	})
	expectNumbered(t, p, lines)
	cutting.Wait()
}

// A client that loses its gateway without a farewell resumes its session at once through another one: the host asks the old one whether
// it is alive.
func TestResumeAfterTheDeathOfAGateway(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	hosts := f.Hosts()
	toHub := fleettest.LayRelay(t, f.HubAddress())
	dying, other := f.Gateway(listen.Config{}, toHub.Address()), f.Gateway(listen.Config{}, "")
	host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	awaitHosts(t, dying.URL, "box")
	awaitHosts(t, other.URL, "box")
	b := tethertest.Dial(t, dying.URL)
	session := b.Handshake("")
	b.Start(tethertest.Shell("p", "echo before; read x; echo after", map[string]any{"pipeStdin": true}))
	e := b.AwaitEvent("p")
	toHub.SetAway(true) // the gateway is as good as dead for the fleet
	c := tethertest.Dial(t, other.URL)
	if again := c.Handshake(session.SessionID); again.SessionID != session.SessionID {
		t.Fatalf("another session: %+v", again)
	}
	var read tethertest.ReadAnswer
	c.Must("process/read", map[string]any{"processId": "p", "afterSeq": e.Seq, "maxBytes": nil, "waitMs": nil}, &read)
	c.Must("process/write", map[string]any{"processId": "p", "chunk": "eAo=", "writeId": "1"}, nil)
	if out := c.Finish("p", max(read.NextSeq-1, e.Seq)); out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
}

// A new session goes to a host with the labels or the name that the URL asks for. If there is none, the client is told why.
func TestChoiceOfHost(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	hosts := f.Hosts()
	started := map[string]*fleettest.Host{}
	for name, labels := range map[string][]string{"gpu-1": {"gpu", "zone=eu"}, "gpu-2": {"gpu", "zone=us"}, "plain": nil} {
		started[name] = host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: name, Labels: labels}, Server: server.Config{SessionTTL: time.Hour}})
	}
	awaitHosts(t, gate.URL, "gpu-1", "gpu-2", "plain")
	for query, want := range map[string][]string{
		"":                         {"gpu-1", "gpu-2", "plain"},
		"?label=gpu":               {"gpu-1", "gpu-2"},
		"?label=gpu&label=zone":    {"gpu-1", "gpu-2"},
		"?label=gpu&label=zone=eu": {"gpu-1"},
		"?host=plain":              {"plain"},
		"?host=gpu-2&label=gpu":    {"gpu-2"},
	} {
		for range 3 {
			if got := hostOf(t, gate.URL+"/"+query, started); !slices.Contains(want, got) {
				t.Errorf("%s: the session is on %s", query, got)
			}
		}
	}
	for query, want := range map[string]string{
		"?host=none":                           "the fleet has no host with the name none",
		"?label=tpu":                           "the fleet has no host with the label tpu",
		"?host=plain&label=gpu":                "the fleet has no host with the name plain and the label gpu",
		"?host=UPPER":                          `"UPPER" is not a name for a host`,
		"?label=a%20b":                         `"a b" is not a label`,
		"?lable=gpu":                           `the URL asks for "lable"`,
		"?host=plain&host=gpu-1":               "the URL names several hosts",
		"?" + strings.Repeat("label=gpu&", 33): "33 labels are too many",
	} {
		if e := refusal(t, gate.URL+"/"+query, "", opening("")); e.Code != wire.CodeInvalidRequest || !strings.Contains(e.Message, want) {
			t.Errorf("%s: %+v", query, e)
		}
	}
}

// awaitHosts waits until a gateway sends clients to each of the hosts.
func awaitHosts(t *testing.T, url string, names ...string) {
	t.Helper()
	deadline := time.Now().Add(fleettest.Patience)
	for _, name := range names {
		for {
			c := tethertest.Dial(t, url+"/?host="+name)
			id := fmt.Sprint(c.Ask("initialize", opening("")))
			m, err := c.AwaitFor(fleettest.Patience, func(m tethertest.Message) bool { return m.Answers(id) })
			c.Close()
			if err == nil && m.Error == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not send clients to %s: %s %v", url, name, m.Raw, err)
			}
		}
	}
}

// hostOf opens a session and returns the host that has got it.
func hostOf(t *testing.T, url string, hosts map[string]*fleettest.Host) string {
	t.Helper()
	before := map[string]int{}
	for name, h := range hosts {
		before[name], _ = h.Server.Load()
	}
	tethertest.Connect(t, url).Close()
	for name, h := range hosts {
		if now, _ := h.Server.Load(); now != before[name] {
			return name
		}
	}
	return "none of them"
}

// Sessions are spread over equally loaded hosts, and over their capacity.
func TestSessionsAreSpread(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	hosts := f.Hosts()
	host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "small", Capacity: 1}})
	big := host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "big", Capacity: 3}})
	awaitHosts(t, gate.URL, "small", "big")
	for range 12 {
		tethertest.Connect(t, gate.URL)
	}
	if sessions, _ := big.Server.Load(); sessions < 6 || sessions > 11 {
		t.Errorf("the host with three times the capacity has %d of 12 sessions", sessions)
	}
}

// A draining host gets no new sessions, and keeps those that it has. Both the host itself and an operator can drain it.
func TestDrainingHost(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	hosts := f.Hosts()
	box := host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTL: time.Minute}})
	awaitHosts(t, gate.URL, "box")
	c := tethertest.Dial(t, gate.URL)
	session := c.Handshake("")
	c.Close()
	drains, err := directory.NewDrains(f.Connect(hub.RoleOperator, "drainer", ""))
	if err != nil {
		t.Fatal(err)
	}
	for name, drain := range map[string]func(bool){
		"host": box.Drain,
		"operator": func(on bool) {
			if err := drains.Set(t.Context(), "box", on); err != nil {
				t.Fatal(err)
			}
		},
	} {
		drain(true)
		fleettest.Await(t, hosts, "draining", func() bool { h, _ := hosts.Get("box"); return h.State == directory.Draining })
		awaitRefusal(t, gate.URL, "every host of the fleet is draining")
		c := tethertest.Dial(t, gate.URL)
		if again := c.Handshake(session.SessionID); again.SessionID != session.SessionID {
			t.Errorf("%s: the session is not resumed: %+v", name, again)
		}
		c.Close()
		drain(false)
		awaitHosts(t, gate.URL, "box")
	}
}

// awaitRefusal opens sessions until a gateway refuses one for a reason.
func awaitRefusal(t *testing.T, url, reason string) {
	t.Helper()
	deadline := time.Now().Add(fleettest.Patience)
	for time.Now().Before(deadline) {
		c := tethertest.Dial(t, url)
		m := c.Call("initialize", opening(""))
		c.Close()
		if m.Error != nil {
			if !strings.Contains(m.Error.Message, reason) {
				t.Errorf("refused with %s", m.Raw)
			}
			return
		}
	}
	t.Errorf("%s does not refuse sessions", url)
}

// A session that the fleet does not know is answered as by a server: the client learns that it is lost, and may open another one. No host
// learns the id.
func TestUnknownSession(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	direct := host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	awaitHosts(t, gate.URL, "box")
	id := "3b241101-e2bb-4255-8caf-4136c566a962"
	want := refusal(t, direct.URL, "", opening(id))
	c := tethertest.Dial(t, gate.URL)
	m := c.Call("initialize", opening(id))
	if m.Error == nil || m.Error.Code != want.Code || m.Error.Message != want.Message {
		t.Errorf("%s, a server answers %+v", m.Raw, want)
	}
	if c.Handshake("").SessionID == "" {
		t.Error("no other session is opened")
	}
	own := tethertest.Dial(t, direct.URL)
	session := own.Handshake("") // at the host's own listener
	own.Close()
	if e := refusal(t, gate.URL, "", opening(session.SessionID)); e.Code != want.Code {
		t.Errorf("a session of the host's own listener: %+v", e)
	}
	if again := tethertest.Dial(t, gate.URL+"/?host=box").Handshake(session.SessionID); again.SessionID != session.SessionID {
		t.Errorf("with the name of its host: %+v", again)
	}
}

// Of several clients that resume a session at different gateways at the same time, one has it in the end, and the others are told.
func TestResumeAtSeveralGateways(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gates := []*fleettest.Gateway{f.Gateway(listen.Config{}, ""), f.Gateway(listen.Config{}, "")}
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTL: time.Minute}})
	for _, g := range gates {
		awaitHosts(t, g.URL, "box")
	}
	first := tethertest.Dial(t, gates[0].URL)
	session := first.Handshake("")
	first.Close()
	for range tethertest.Scaled(3, 50) {
		var clients []*tethertest.Client
		for i := range 6 {
			clients = append(clients, tethertest.Dial(t, gates[i%len(gates)].URL))
		}
		var ids []int64
		for _, c := range clients {
			ids = append(ids, c.Ask("initialize", opening(session.SessionID)))
		}
		got := 0
		for i, c := range clients {
			want := fmt.Sprint(ids[i])
			m, err := c.AwaitFor(fleettest.Patience, func(m tethertest.Message) bool { return m.Answers(want) })
			if err == nil && m.Error == nil {
				got++
			}
		}
		if got == 0 {
			t.Error("no client has got the session")
		}
		for _, c := range clients {
			c.Close()
		}
	}
	again := tethertest.Dial(t, gates[0].URL)
	if resumed := again.Handshake(session.SessionID); resumed.SessionID != session.SessionID {
		t.Errorf("%+v", resumed)
	}
}

// A client that leaves its gateway while that waits for the directory, and resumes its session through another one, keeps it: the first
// gateway does not open a link for it when the directory answers.
func TestClientLeavesBeforeItsSessionIsFound(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	toHub := fleettest.LayRelay(t, f.HubAddress())
	slow, other := f.Gateway(listen.Config{}, toHub.Address()), f.Gateway(listen.Config{}, "")
	box := host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTL: time.Minute}})
	awaitHosts(t, slow.URL, "box")
	awaitHosts(t, other.URL, "box")
	first := tethertest.Dial(t, other.URL)
	session := first.Handshake("")
	first.Close()
	late := tethertest.Dial(t, slow.URL)
	toHub.SetSilent(true)
	late.Ask("initialize", opening(session.SessionID))
	toHub.AwaitHeld() // the gateway has asked the directory
	late.Close()
	again := tethertest.Dial(t, other.URL)
	if resumed := again.Handshake(session.SessionID); resumed.SessionID != session.SessionID {
		t.Fatalf("%+v", resumed)
	}
	toHub.SetSilent(false)
	tethertest.Connect(t, slow.URL) // which asks the directory later
	if n := box.Links(); n != 2 {
		t.Errorf("the host has %d links for two clients", n)
	}
}

// A client that is refused a session may open one on the same connection, and resume that later.
func TestSessionAfterARefusedResume(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTL: time.Minute}})
	awaitHosts(t, gate.URL, "box")
	first := tethertest.Dial(t, gate.URL)
	session := first.Handshake("")
	second := tethertest.Dial(t, gate.URL)
	if m := second.Call("initialize", opening(session.SessionID)); m.Error == nil || m.Error.Code != wire.CodeSessionAttached {
		t.Fatalf("%s", m.Raw)
	}
	own := second.Handshake("")
	second.Close()
	again := tethertest.Dial(t, gate.URL)
	if resumed := again.Handshake(own.SessionID); resumed.SessionID != own.SessionID {
		t.Errorf("%+v", resumed)
	}
}

// A connection that is refused a session, because another one has it, does not let its record end early.
func TestRefusedResumeKeepsTheRecord(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gates := []*fleettest.Gateway{f.Gateway(listen.Config{}, ""), f.Gateway(listen.Config{}, "")}
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTL: 3 * time.Hour}})
	for _, g := range gates {
		awaitHosts(t, g.URL, "box")
	}
	bus := f.Connect(hub.RoleGateway, "reader", "")
	first := tethertest.Dial(t, gates[0].URL)
	session := first.Handshake("")
	expect := func(when string) {
		t.Helper()
		m, err := bus.Request(fleet.GetSubject(fleet.SessionsBucket, fleet.SessionKey(session.SessionID)), nil, fleettest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if ttl, err := time.ParseDuration(m.Header.Get("Nats-TTL")); err != nil || ttl < 3*time.Hour {
			t.Errorf("%s, the record of the session ends after %v %v", when, ttl, err)
		}
	}
	expect("at first")
	if e := refusal(t, gates[1].URL, "", opening(session.SessionID)); e.Code != wire.CodeSessionAttached {
		t.Errorf("%+v", e)
	}
	gates[1].Stop() // it has written all that it wants to write
	expect("after a refusal")
	first.Close()
	gates[0].Stop()
	expect("after a refusal and the end of the connection")
}

// A gateway that stops tells its clients to connect again. They find their sessions through another one.
func TestGatewayStops(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	stopping, other := f.Gateway(listen.Config{}, ""), f.Gateway(listen.Config{}, "")
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	awaitHosts(t, stopping.URL, "box")
	awaitHosts(t, other.URL, "box")
	c := tethertest.Dial(t, stopping.URL)
	session := c.Handshake("")
	stopping.Stop()
	var closed *tethertest.CloseError
	if err := c.Ended(); !errors.As(err, &closed) || closed.Code != 1012 {
		t.Errorf("the connection has ended with %v", err)
	}
	again := tethertest.Dial(t, other.URL)
	if resumed := again.Handshake(session.SessionID); resumed.SessionID != session.SessionID {
		t.Errorf("%+v", resumed)
	}
}

// A host that stops tells its clients so, as a server does, and new sessions go elsewhere at once.
func TestHostStops(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	hosts := f.Hosts()
	first := host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "first"}})
	awaitHosts(t, gate.URL, "first")
	c := tethertest.Connect(t, gate.URL)
	second := host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "second"}})
	awaitHosts(t, gate.URL, "second")
	first.Stop()
	c.Ended()
	tethertest.Connect(t, gate.URL)
	if sessions, _ := second.Server.Load(); sessions == 0 {
		t.Error("the session is not on the host that is left")
	}
}

// While the hub is away, connections break and sessions live on; when it is back, everything goes on.
func TestHubRestarts(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	c := dial(t, gate.URL, client.Options{})
	lines := 5000
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", fmt.Sprintf(`read x; i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done; exit 3`, lines)}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	f.RestartHub()
	if err := p.Write(t.Context(), []byte("go\n")); err != nil {
		t.Fatal(err)
	}
	expectNumbered(t, p, lines)
}

// An executor is refused the name of another one.
func TestNameIsTaken(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	f.Gateway(listen.Config{}, "")
	hosts := f.Hosts()
	first := host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	second := f.Host(fleettest.HostConfig{Host: fleet.Host{Name: "box"}, ClaimPatience: time.Millisecond})
	if err := <-second.Done; !errors.Is(err, directory.ErrNameTaken) {
		t.Error(err)
	}
	first.Stop() // gives the name back
	host(t, f, hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
}

// A client that does not read makes only itself wait.
func TestSlowClientWaitsAlone(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	awaitHosts(t, gate.URL, "box")
	slow, err := tethertest.DialWS(t.Context(), gate.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	for _, m := range []string{
		`{"id":1,"method":"initialize","params":{"clientName":"slow","resumeSessionId":null}}`,
		`{"method":"initialized","params":{}}`,
		`{"id":2,"method":"process/start","params":{"processId":"p","argv":["/bin/sh","-c","yes"],"cwd":"/","tty":false,"env":{}}}`,
	} {
		if err := slow.WriteText([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, gate.URL, client.Options{})
	p, err := c.Start(t.Context(), client.Command{Argv: numbered(20_000)})
	if err != nil {
		t.Fatal(err)
	}
	expectNumbered(t, p, 20_000)
}
