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

// A question is what a server asks about a host.
type question struct {
	Protocol string `json:"protocol"`
	Host     string `json:"host"`
	Port     int    `json:"port"`
}

// A decision is what a server says that became of an attempt to reach a host.
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

// String is what tests compare most.
func (d decision) String() string {
	return fmt.Sprintf("%s %s %s:%d %s", d.Decision, d.Protocol, d.Host, d.Port, d.Reason)
}

// hearLocked takes a message about the network of a process.
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
	answer := any(map[string]any{"id": m.ID, "error": tethertest.RPCError{Code: -32601, Message: "nobody decides"}})
	if c.decide != nil {
		decided := c.decide(*params.Request)
		if decided == nil {
			return nil // no answer
		}
		answer = map[string]any{"id": m.ID, "result": decided}
	}
	return conn.SendJSON(answer)
}

// decideBy has a test answer questions about hosts, with what is the result.
func (c *client) decideBy(t *testing.T, decide func(question) any) {
	set := func(f func(question) any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.decide = f
	}
	set(decide)
	t.Cleanup(func() { set(nil) })
}

// verdictOf is the answer to a question.
func verdictOf(kind string, reason ...string) any {
	decision := map[string]any{"type": kind}
	if len(reason) > 0 {
		decision["reason"] = reason[0]
	}
	return map[string]any{"decision": decision}
}

// A site is an HTTP server on the host that remembers what it was asked.
type site struct {
	listener net.Listener
	workers  sync.WaitGroup

	mu       sync.Mutex
	open     map[net.Conn]bool
	visits   int      // connections
	raw      []string // all that each connection has sent
	requests []string // METHOD host URI, as this server understands them
}

// siteText is what a site answers.
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

// settle waits until all who are connected have been counted: they are let in one after
// the other. It is a visit itself.
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

// Write keeps what a visitor has sent.
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

// asked are the requests so far, visited how many connections there were, and sent what
// they have sent.
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

// A clientProxy is a proxy as a client has it: it serves HTTP and SOCKS5 on one port, and
// answers everything itself.
type clientProxy struct {
	listener net.Listener
	workers  sync.WaitGroup

	mu    sync.Mutex
	first [][]byte // what each connection began with, up to what a proxy speaks
}

// proxyText begins the answers of a prepared proxy.
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

// end stops the proxy. A second time is harmless.
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
	if begin[0] == 0 { // who it is
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

// acceptSocks says yes to whatever a SOCKS5 client wants, by name.
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

// began is what connections have begun with.
func (p *clientProxy) began() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]byte{}, p.first...)
}

// listens returns the ports on which a process listens in this network.
func listens(t *testing.T, pid int) (ports []int) {
	t.Helper()
	own := map[string]bool{}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
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
			ports = append(ports, int(port))
		}
	}
	return ports
}
