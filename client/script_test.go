package client_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// A script is a server that does and says what a test wants.
type script struct {
	t     testing.TB
	ln    net.Listener
	peers chan *peer
}

// A peer is a connection to the script.
type peer struct {
	t    testing.TB
	conn net.Conn
}

func newScript(t testing.TB) *script {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{t, ln, make(chan *peer, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.SetDeadline(time.Now().Add(patience))
			if _, err := ws.Upgrade(conn); err != nil {
				conn.Close()
				continue
			}
			s.peers <- &peer{t, conn}
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		for len(s.peers) > 0 {
			(<-s.peers).cut()
		}
	})
	return s
}

func (s *script) url() string { return "ws://" + s.ln.Addr().String() }

// accept waits for a connection.
func (s *script) accept() *peer {
	select {
	case p := <-s.peers:
		s.t.Cleanup(p.cut)
		return p
	case <-time.After(patience):
		s.t.Error("nobody connects")
		panic("nobody connects")
	}
}

func (p *peer) cut() { p.conn.Close() }

// A heard message is what the client said.
type heard struct {
	ID     *int64          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Result json.RawMessage `json:"result"`
}

func (p *peer) hear() heard {
	m, ok := p.mayHear()
	if !ok {
		panic("the client is gone")
	}
	return m
}

// mayHear returns false when the connection has ended.
func (p *peer) mayHear() (m heard, ok bool) {
	data, _, err := wsutil.ReadClientData(p.conn)
	if err != nil {
		return m, false
	}
	if err := json.Unmarshal(data, &m); err != nil {
		panic(err)
	}
	return m, true
}

// expect hears messages until one of this method; tether/ack is skipped.
func (p *peer) expect(method string) heard {
	for {
		m := p.hear()
		if m.Method == method {
			return m
		}
		if m.Method != "tether/ack" {
			panic(fmt.Sprintf("heard %s %s, expected %s", m.Method, m.Params, method))
		}
	}
}

// say sends messages as they are; the client may be gone by then.
func (p *peer) say(messages ...string) {
	for _, m := range messages {
		wsutil.WriteServerText(p.conn, []byte(m))
	}
}

func (m heard) answer(result string) string {
	return fmt.Sprintf(`{"id":%d,"result":%s}`, *m.ID, result)
}

func (m heard) refuse(code int, message string) string {
	return fmt.Sprintf(`{"id":%d,"error":{"code":%d,"message":%q}}`, *m.ID, code, message)
}

// welcome does the handshake.
func (p *peer) welcome(session string) {
	p.say(p.expect("initialize").answer(fmt.Sprintf(`{"sessionId":%q}`, session)))
	p.expect("initialized")
}

// begin answers a start and returns the id of the process.
func (p *peer) begin() (id string) {
	m := p.expect("process/start")
	var params struct {
		ProcessID string `json:"processId"`
	}
	json.Unmarshal(m.Params, &params)
	p.say(m.answer(fmt.Sprintf(`{"processId":%q,"sandboxType":"none"}`, params.ProcessID)))
	return params.ProcessID
}

// The notifications of a process, in short: "o3" is output 3, "x4" the exit, "c5" the
// close. The output of o3 is "3;".
func events(process string, words string) (messages []string) {
	for _, w := range strings.Fields(words) {
		var seq int
		fmt.Sscanf(w[1:], "%d", &seq)
		switch w[0] {
		case 'o':
			messages = append(messages, fmt.Sprintf(`{"method":"process/output","params":{"processId":%q,"seq":%d,"stream":"stdout","chunk":%s}}`, process, seq, chunk(seq)))
		case 'x':
			messages = append(messages, fmt.Sprintf(`{"method":"process/exited","params":{"processId":%q,"seq":%d,"exitCode":0,"sandboxDenied":false}}`, process, seq))
		case 'c':
			messages = append(messages, fmt.Sprintf(`{"method":"process/closed","params":{"processId":%q,"seq":%d}}`, process, seq))
		}
	}
	return messages
}

func chunk(seq int) string {
	b, _ := json.Marshal([]byte(fmt.Sprintf("%d;", seq)))
	return string(b)
}

// readAnswer is the result of a read: output of these numbers, and what is next.
func readAnswer(next int, exited, closed bool, seqs ...int) string {
	var chunks []string
	for _, seq := range seqs {
		chunks = append(chunks, fmt.Sprintf(`{"seq":%d,"stream":"stdout","chunk":%s}`, seq, chunk(seq)))
	}
	code := "null"
	if exited {
		code = "0"
	}
	return fmt.Sprintf(`{"chunks":[%s],"nextSeq":%d,"exited":%t,"exitCode":%s,"closed":%t,"failure":null,"sandboxDenied":false}`,
		strings.Join(chunks, ","), next, exited, code, closed)
}

// play runs the server's part of a test beside the client's. It fails the test if the
// part does not go as written.
func play(t testing.TB, part func()) (wait func()) {
	t.Helper()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		part()
	}()
	return func() {
		t.Helper()
		select {
		case failure := <-done:
			if failure != nil {
				t.Fatalf("the server's part: %v", failure)
			}
		case <-time.After(patience):
			t.Fatal("the server's part does not end")
		}
	}
}
