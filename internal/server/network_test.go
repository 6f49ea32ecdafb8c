//go:build unix

package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// proxied returns start parameters with a proxy for these domains; change alters
// them.
func proxied(domains map[string]string, change func(launch, proxy map[string]any)) map[string]any {
	proxy := map[string]any{
		"enabled": true, "enableSocks5": true, "enableSocks5Udp": true, "allowUpstreamProxy": false,
		"dangerouslyAllowAllUnixSockets": false, "mode": "full", "domains": domains, "unixSockets": nil, "allowLocalBinding": false,
	}
	launch := map[string]any{"proxy": proxy}
	if change != nil {
		change(launch, proxy)
	}
	return map[string]any{"networkProxy": launch}
}

// asking makes the client decide about hosts that the rules do not cover, including
// local hosts.
func asking(launch, proxy map[string]any) {
	launch["policyDecisionTimeoutMs"], proxy["allowLocalBinding"] = 60_000, true
}

// web runs a web server that answers "hello".
func web(t *testing.T) (address string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// get is a command that fetches a page through the process's own proxy and prints
// the answer and its status.
func get(host string) string {
	return `curl -s --noproxy "" -w '[%{http_code}]' -x $HTTP_PROXY http://` + host + `/`
}

// A note is the notification about a decision.
type note struct {
	ProcessID, Scope, Decision, Source, Reason, Protocol, Host, Method, Client string
	Port                                                                       int
	PolicyOverride                                                             bool
}

func (n note) String() string {
	return fmt.Sprintf("%s %s %s %s %s %s %s override=%v", n.Protocol, n.Method, n.Host, n.Scope, n.Decision, n.Source, n.Reason, n.PolicyOverride)
}

func awaitNote(t *testing.T, c *tethertest.Client) (n note) {
	t.Helper()
	m := c.Await("a decision", func(m tethertest.Message) bool { return m.Method == "network/policyDecision" })
	if err := json.Unmarshal(m.Params, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func awaitQuestion(t *testing.T, c *tethertest.Client) tethertest.Message {
	t.Helper()
	return c.Await("a question", func(m tethertest.Message) bool { return m.Method == "network/policyRequest" })
}

// The client is not asked about hosts that the rules cover, and is notified of
// every decision.
func TestNetworkProxy(t *testing.T) {
	c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
	host := web(t)
	c.Start(tethertest.Shell("p", get(host)+"; "+get("refused.example"), proxied(map[string]string{"127.0.0.1": "allow"}, nil)))
	if got, want := awaitNote(t, c).String(), "http GET 127.0.0.1 domain allow baseline_policy allow override=false"; got != want {
		t.Errorf("decision %s, want %s", got, want)
	}
	if got, want := awaitNote(t, c).String(), "http GET refused.example domain deny baseline_policy not_allowed override=false"; got != want {
		t.Errorf("decision %s, want %s", got, want)
	}
	want := `hello[200]{"status":"blocked","host":"refused.example","reason":"not_allowed","decision":"deny","source":"baseline_policy","protocol":"http","port":80,"message":"Domain not in allowlist."}[403]`
	if got := c.Finish("p", 0).Text["stdout"]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The client is asked about hosts that the rules do not cover. Its answer counts if
// it is valid.
func TestNetworkQuestions(t *testing.T) {
	c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
	host := web(t)
	const blocked = `{"status":"blocked"`
	for i, row := range []struct{ answer, out, note string }{
		{`"result":{"decision":{"type":"allow"}}`, "hello[200]", "allow decider not_allowed override=true"},
		{`"result":{"decision":{"type":"deny","reason":"because"}}`, blocked, "deny decider because override=false"},
		{`"result":{"decision":{"type":"deny","reason":""}}`, blocked, "deny decider policy_denied override=false"},
		{`"result":{"decision":{"type":"deny"}}`, blocked, "deny decider not_allowed override=false"},
		{`"result":{"decision":{"type":"ask","reason":"hm"}}`, blocked, "ask decider hm override=false"},
		{`"result":{"decision":{"type":"deny","reason":"a\nb"}}`, blocked, "deny decider not_allowed override=false"},
		{`"result":{"decision":{"type":"deny","reason":"` + strings.Repeat("x", 1025) + `"}}`, blocked, "deny decider not_allowed override=false"},
		{`"result":{"decision":{"type":"perhaps"}}`, blocked, "deny decider not_allowed override=false"},
		{`"result":{}`, blocked, "deny decider not_allowed override=false"},
		{`"error":{"code":-1,"message":"no"}`, blocked, "deny decider not_allowed override=false"},
	} {
		id := fmt.Sprint("p", i)
		c.Start(tethertest.Shell(id, get(host), proxied(nil, asking)))
		asked := awaitQuestion(t, c)
		name, port, _ := strings.Cut(host, ":")
		if want := fmt.Sprintf(`{"processId":%q,"request":{"protocol":"http","host":%q,"port":%s}}`, id, name, port); string(asked.Params) != want || string(asked.ID) != fmt.Sprint(i+1) {
			t.Errorf("asked %s as %s, want %s as %d", asked.Params, asked.ID, want, i+1)
		}
		c.Send(fmt.Sprintf(`{"id":%s,%s}`, asked.ID, row.answer))
		if got := awaitNote(t, c).String(); !strings.HasSuffix(got, row.note) {
			t.Errorf("%s: decision %s, want %s", row.answer, got, row.note)
		}
		if got := c.Finish(id, 0).Text["stdout"]; !strings.HasPrefix(got, row.out) {
			t.Errorf("%s: got %s", row.answer, got)
		}
	}
}

// Without a client a host is refused, whether the client left before or after the
// question.
func TestNetworkQuestionsWithoutClient(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	host := web(t)
	more := proxied(nil, asking)
	more["pipeStdin"] = true
	c.Start(tethertest.Shell("p", get(host)+"; read line; "+get(host), more))
	awaitQuestion(t, c)
	c.Close()
	c = tethertest.Dial(t, s.URL)
	c.Handshake(hello.SessionID)
	if got := readUntil(t, c, "p", "[403]"); strings.Contains(got, "hello") {
		t.Errorf("got %s", got)
	}
	c.Write("p", "w", "\n")
	asked := awaitQuestion(t, c)
	if string(asked.ID) != "1" {
		t.Errorf("the first question of this connection is %s", asked.ID)
	}
	c.Terminate("p") // the question ends with the process
	c.Send(fmt.Sprintf(`{"id":%s,"result":{"decision":{"type":"allow"}}}`, asked.ID))
	c.Must("environment/status", nil, nil)
}

// readUntil reads the output of a process until it has this text.
func readUntil(t *testing.T, c *tethertest.Client, id, text string) string {
	t.Helper()
	var all strings.Builder
	after := uint64(0)
	for !strings.Contains(all.String(), text) {
		r := c.Read(id, after, map[string]any{"waitMs": 10_000})
		for _, chunk := range r.Chunks {
			all.Write(chunk.Chunk)
		}
		after = r.NextSeq - 1
		if r.Closed {
			break
		}
	}
	return all.String()
}

// The proxy ends with the process.
func TestNetworkProxyEnds(t *testing.T) {
	c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
	more := proxied(nil, nil)
	more["pipeStdin"] = true
	c.Start(tethertest.Shell("p", "echo $HTTP_PROXY $ALL_PROXY; read line", more))
	line, err := bufio.NewReader(strings.NewReader(readUntil(t, c, "p", "\n"))).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addresses := strings.Fields(strings.NewReplacer("http://", "", "socks5h://", "").Replace(line))
	if len(addresses) != 2 {
		t.Fatalf("proxies %q", line)
	}
	for _, a := range addresses {
		conn, err := net.Dial("tcp", a)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	c.Terminate("p")
	c.Await("the end", func(m tethertest.Message) bool { return m.Method == "process/closed" })
	for _, a := range addresses {
		awaitRefused(t, a)
	}
}

// awaitRefused waits until connections to the address are refused.
func awaitRefused(t *testing.T, address string) {
	t.Helper()
	for range 1000 { // each attempt is a connection
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		conn.Read(make([]byte, 1)) // returns when the proxy closes the connection
		conn.Close()
	}
	t.Errorf("%s still listens", address)
}

func TestNetworkProxyRefused(t *testing.T) {
	c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
	set := func(name string, value any) map[string]any {
		return proxied(nil, func(_, proxy map[string]any) { proxy[name] = value })
	}
	zero := func(launch, _ map[string]any) { launch["policyDecisionTimeoutMs"] = 0 }
	long := strings.Repeat("x", 257)
	for _, row := range []struct {
		id   string
		more map[string]any
		want string
	}{
		{"p", set("enabled", false), "invalid network proxy config: executor-local network proxy launch requires an enabled proxy"},
		{"p", proxied(nil, zero), "network policy decision callback timeout must be nonzero"},
		{"", proxied(nil, asking), "callback-enabled process ID must be non-empty and at most 256 bytes"},
		{long, proxied(nil, asking), "callback-enabled process ID must be non-empty and at most 256 bytes"},
		{"p", set("domains", map[string]string{"a/b": "allow"}), "invalid network proxy config: unsupported domain pattern syntax: a/b"},
		{"p", set("domains", map[string]string{"*": "deny"}), "invalid network proxy config: invalid value for network.denied_domains: * (allowed exact hosts or scoped wildcards like *.example.com or **.example.com)"},
	} {
		m := c.Call("process/start", tethertest.Shell(row.id, "true", row.more))
		if m.Error == nil || m.Error.Code != -32602 || m.Error.Message != row.want {
			t.Errorf("got  %v\nwant %s", m.Error, row.want)
		}
	}
}

// Decisions are counted.
func TestNetworkMetrics(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", get("refused.example")+"; "+get("refused.example"), proxied(nil, nil)))
	c.Finish("p", 0)
	r, err := http.Get(strings.Replace(s.URL, "ws://", "http://", 1) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\ntether_sessions 1\n", "\ntether_processes_running 0\n",
		"\n" + `tether_network_decisions_total{decision="deny",protocol="http",source="baseline_policy"} 2` + "\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// In limited mode the host is checked first, then the request.
func TestNetworkLimited(t *testing.T) {
	c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
	host := web(t)
	limited := func(_, proxy map[string]any) { proxy["mode"] = "limited" }
	c.Start(tethertest.Shell("p", get(host)+"; "+get(host)+" -d x; curl -s -w '[%{http_connect}]' -p -x $HTTP_PROXY http://"+host+"/",
		proxied(map[string]string{"127.0.0.1": "allow"}, limited)))
	for _, want := range []string{
		"http GET 127.0.0.1 domain allow baseline_policy allow override=false",
		"http POST 127.0.0.1 domain allow baseline_policy allow override=false",
		"http POST 127.0.0.1 non_domain deny mode_guard method_not_allowed override=false",
		"https_connect CONNECT 127.0.0.1 domain allow baseline_policy allow override=false",
		"https_connect CONNECT 127.0.0.1 non_domain deny mode_guard mitm_required override=false",
	} {
		if got := awaitNote(t, c).String(); got != want {
			t.Errorf("decision %s, want %s", got, want)
		}
	}
	if got := c.Finish("p", 0).Text["stdout"]; !strings.HasPrefix(got, "hello[200]{") || !strings.HasSuffix(got, "}[403][403]") {
		t.Errorf("got %s", got)
	}
}

// A process that may reach this machine must not reach the server itself.
func TestNetworkProxyToTheServer(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	address := strings.TrimPrefix(s.URL, "ws://")
	_, port, _ := strings.Cut(address, ":")
	local := func(_, proxy map[string]any) { proxy["allowLocalBinding"] = true }
	script := ""
	for _, host := range []string{address, "localhost:" + port, "0.0.0.0:" + port, "2130706433:" + port} {
		script += get(host) + ";" + strings.Replace(get(host), "curl", "curl -p", 1) + "; curl -s --noproxy '' -w '[%{http_code}]' -x $ALL_PROXY http://" + host + "/readyz; "
	}
	c.Start(tethertest.Shell("p", script, proxied(map[string]string{"*": "allow", "127.0.0.1": "allow", "0.0.0.0": "allow", "localhost": "allow"}, local)))
	for range 12 {
		if n := awaitNote(t, c); n.Decision != "deny" || n.Reason != "not_allowed_local" {
			t.Errorf("decision %v", n)
		}
	}
	c.Finish("p", 0)
}

// After a resume the client gets no notification and no question before it has sent
// initialized.
func TestNetworkResumed(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	host, dir := web(t), t.TempDir()
	// One FIFO for each direction: a child that the server forks at that moment has a
	// copy for a moment.
	begin, ended := filepath.Join(dir, "begin"), filepath.Join(dir, "ended")
	for _, fifo := range []string{begin, ended} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	meet := func(fifo string, flag int) { // returns when the other side has opened it too
		f, err := os.OpenFile(fifo, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	script := ": <" + begin + "; " + get("bad.example") + "; : >" + ended + "; " + get(host)
	c.Start(tethertest.Shell("p", script, proxied(map[string]string{"bad.example": "deny"}, asking)))
	c.Close()
	c = tethertest.Dial(t, s.URL)
	c.Must("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID}, nil)
	meet(begin, os.O_WRONLY)
	meet(ended, os.O_RDONLY) // bad.example was refused
	c.Notify("initialized", struct{}{})
	asked := c.Next()
	if asked.Method != "network/policyRequest" {
		t.Fatalf("the first message is %s %s", asked.Method, asked.Params)
	}
	c.Send(fmt.Sprintf(`{"id":%s,"result":{"decision":{"type":"allow"}}}`, asked.ID))
	if got := readUntil(t, c, "p", "[200]"); !strings.HasSuffix(got, "hello[200]") {
		t.Errorf("got %s", got)
	}
}

// A process that asks very often leaves room for the questions of other processes.
func TestNetworkQuestionsOfMany(t *testing.T) {
	c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
	more := proxied(nil, asking)
	more["pipeStdin"] = true
	c.Start(tethertest.Shell("greedy", "echo $HTTP_PROXY; read line", more))
	proxy := strings.TrimSpace(strings.TrimPrefix(readUntil(t, c, "greedy", "\n"), "http://"))
	for range 300 { // more than a connection allows
		conn, err := net.Dial("tcp", proxy)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET http://x.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	awaitNote(t, c) // the first question above the limit was refused
	c.Start(tethertest.Shell("modest", get(web(t)), proxied(nil, asking)))
	asked := c.Await("its question", func(m tethertest.Message) bool {
		return m.Method == "network/policyRequest" && strings.Contains(string(m.Params), "modest")
	})
	c.Send(fmt.Sprintf(`{"id":%s,"result":{"decision":{"type":"allow"}}}`, asked.ID))
	if got := c.Finish("modest", 0).Text["stdout"]; got != "hello[200]" {
		t.Errorf("got %s", got)
	}
}

// Metrics are for clients that may use the server: not for web pages, and not without
// a token where one is needed.
func TestMetricsAccess(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := tethertest.StartServer(t, server.Config{})
	url := strings.Replace(s.URL, "ws://", "http://", 1) + "/metrics"
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "ws://"), ":")
	for _, row := range []struct {
		method, host, origin string
		status               int
	}{
		{"GET", "", "", 200}, {"HEAD", "localhost:" + port, "", 200}, {"GET", "[::1]", "", 200}, {"POST", "", "", 405},
		{"GET", "page.example", "", 403}, {"GET", "page.example:" + port, "", 403}, {"GET", "", "http://page.example", 403},
	} {
		r, err := http.NewRequest(row.method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = row.host
		if row.origin != "" {
			r.Header.Set("Origin", row.origin)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != row.status {
			t.Errorf("%+v: status %d", row, answer.StatusCode)
		}
	}
}
