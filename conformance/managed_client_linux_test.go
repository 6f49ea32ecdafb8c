package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A question is a request of the server about a host.
type question struct {
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
}

// A decision is the server's report about an attempt to reach a host.
type decision struct {
	ProcessID      string `json:"processId"`
	Timestamp      string `json:"timestamp"`
	Scope          string `json:"scope"`
	Decision       string `json:"decision"`
	Source         string `json:"source"`
	Reason         string `json:"reason"`
	Protocol       string `json:"protocol"`
	Host           string `json:"host"`
	Port           int    `json:"port"`
	Method         string `json:"method"`
	Client         string `json:"client"`
	PolicyOverride bool   `json:"policyOverride"`
}

// String returns the fields that most tests compare.
func (d decision) String() string {
	return fmt.Sprintf("%s %s %s:%d %s", d.Decision, d.Protocol, d.Host, d.Port, d.Reason)
}

// hearLocked handles a message about the network of a process.
func (c *client) hearLocked(conn *tethertest.Conn, m tethertest.Message) error {
	var params struct {
		decision
		Request *question `json:"request"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return err
	}
	p := c.procs[params.ProcessID]
	if p == nil {
		return fmt.Errorf("%s of process %q", m.Method, params.ProcessID)
	}
	switch {
	case m.Method == "network/policyDecision" && m.ID == nil:
		p.state.decisions = append(p.state.decisions, params.decision)
		return nil
	case m.Method != "network/policyRequest" || m.ID == nil || params.Request == nil:
		return fmt.Errorf("strange message %s", m.Method)
	}
	p.state.questions = append(p.state.questions, *params.Request)
	answer := any(map[string]any{"id": m.ID, "error": tethertest.RPCError{Code: -32601, Message: "this client does not decide"}})
	if c.decide != nil {
		decided := c.decide(*params.Request)
		if decided == nil {
			return nil // no answer
		}
		answer = map[string]any{"id": m.ID, "result": decided}
	}
	return conn.SendJSON(answer)
}

// decideBy sets the function that answers questions about hosts until the test ends. It returns the result for the server.
func (c *client) decideBy(t *testing.T, decide func(question) any) {
	set := func(f func(question) any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.decide = f
	}
	set(decide)
	t.Cleanup(func() { set(nil) })
}

// verdictOf returns the answer to a question.
func verdictOf(kind string, reason ...string) any {
	decision := map[string]any{"type": kind}
	if len(reason) > 0 {
		decision["reason"] = reason[0]
	}
	return map[string]any{"decision": decision}
}

// A site is an HTTP server on the host that records its requests.
type site struct {
	listener net.Listener
	workers  sync.WaitGroup

	mu       sync.Mutex
	open     map[net.Conn]bool
	visits   int      // connections
	raw      []string // the bytes of each connection
	requests []string // METHOD host URI, as this server understands them
}

// siteText is the answer of a site.
const siteText = "this is the site"

// newSite serves at an address.
func newSite(t *testing.T, network, address string) *site {
	t.Helper()
	listen := func() (net.Listener, error) { return net.Listen(network, address) }
	if network == "tcp" {
		listen = func() (net.Listener, error) { return listenApart(address) }
	}
	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	return serveSite(t, l)
}

func serveSite(t *testing.T, l net.Listener) *site {
	s := &site{listener: l, open: map[net.Conn]bool{}}
	s.workers.Go(s.accept) // ends with the listener
	t.Cleanup(func() {
		l.Close()
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		s.workers.Wait()
	})
	return s
}

func (s *site) addr() string { return s.listener.Addr().String() }

func (s *site) port() string { return fmt.Sprint(s.listener.Addr().(*net.TCPAddr).Port) }

func (s *site) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[c] = true
		s.raw = append(s.raw, "")
		visit := s.visits
		s.visits++
		s.mu.Unlock()
		s.workers.Go(func() { // ends with the connection
			s.serve(c, visit)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.open, c)
			c.Close()
		})
	}
}

// settle waits until all connections so far have been counted. They are accepted in order, so it makes a connection itself and
// waits for that.
func (s *site) settle(t *testing.T) {
	t.Helper()
	c, err := net.Dial(s.listener.Addr().Network(), s.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: settle\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
}

// Write records the bytes of a connection.
func (r siteRecord) Write(p []byte) (int, error) {
	r.site.mu.Lock()
	defer r.site.mu.Unlock()
	if r.visit < len(r.site.raw) { // else all visits so far were forgotten
		r.site.raw[r.visit] += string(p)
	}
	return len(p), nil
}

type siteRecord struct {
	site  *site
	visit int
}

func (s *site) serve(c net.Conn, visit int) {
	in := bufio.NewReader(io.TeeReader(c, siteRecord{s, visit}))
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.Host+" "+r.RequestURI)
		s.mu.Unlock()
		io.Copy(io.Discard, r.Body)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s\n", len(siteText)+1, siteText)
		if r.Close {
			return
		}
	}
}

// asked returns the requests so far, visited the number of connections, and sent their bytes.
func (s *site) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.requests...)
}

func (s *site) visited() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visits
}

func (s *site) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.raw...)
}

// A clientProxy stands for the proxy of a client: it serves HTTP and SOCKS5 on one port and answers every request itself.
type clientProxy struct {
	listener net.Listener
	workers  sync.WaitGroup

	mu    sync.Mutex
	first [][]byte // the first bytes of each connection, up to the first byte of HTTP or SOCKS
}

// proxyText begins the answers of a clientProxy.
const proxyText = "the proxy was asked for"

func newClientProxy(t *testing.T) *clientProxy {
	t.Helper()
	l, err := listenApart("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &clientProxy{listener: l}
	p.workers.Go(func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(c)
		}
	})
	t.Cleanup(p.end)
	return p
}

// end stops the proxy. It may be called twice.
func (p *clientProxy) end() {
	p.listener.Close()
	p.workers.Wait()
}

func (p *clientProxy) addr() string { return p.listener.Addr().String() }
func (p *clientProxy) port() string { return fmt.Sprint(p.listener.Addr().(*net.TCPAddr).Port) }

func (p *clientProxy) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	begin, err := in.Peek(1)
	if err != nil {
		return
	}
	var greeting []byte
	if begin[0] == 0 { // the token of the process
		head := make([]byte, 10)
		io.ReadFull(in, head)
		token := make([]byte, int(head[8])<<8|int(head[9]))
		io.ReadFull(in, token)
		greeting = append(head, token...)
		begin, _ = in.Peek(1)
	}
	p.mu.Lock()
	p.first = append(p.first, append(greeting, begin...))
	p.mu.Unlock()
	if bytes.Equal(begin, []byte{5}) {
		acceptSocks(in, c)
	}
	if r, err := http.ReadRequest(in); err == nil {
		text := fmt.Sprintf("%s %s %s\n", proxyText, r.Method, r.RequestURI)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
}

// acceptSocks accepts every request of a SOCKS5 client for a host name.
func acceptSocks(in io.Reader, out io.Writer) {
	head := make([]byte, 2)
	io.ReadFull(in, head)
	io.ReadFull(in, make([]byte, head[1]))
	out.Write([]byte{5, 0})
	want := make([]byte, 5)
	io.ReadFull(in, want)
	io.ReadFull(in, make([]byte, int(want[4])+2))
	out.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
}

// began returns the first bytes of each connection.
func (p *clientProxy) began() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]byte{}, p.first...)
}

// listens returns the ports on which a server listens in this network, except for that of its clients.
func (s *instance) listens(t *testing.T) (ports []int) {
	t.Helper()
	own := map[string]bool{}
	for _, link := range s.descriptors(t) {
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(text), "\n")[1:] {
			fields := strings.Fields(line)
			const listening = "0A"
			if len(fields) < 10 || fields[3] != listening || !own[fields[9]] {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			port, err := strconv.ParseUint(hex, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			if int(port) != s.port {
				ports = append(ports, int(port))
			}
		}
	}
	return ports
}
