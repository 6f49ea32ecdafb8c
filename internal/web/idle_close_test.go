package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A closer serves requests and closes each connection some time after an answer. The answer has no
// header about that. It counts the requests by their path.
type closer struct {
	*testing.T
	address string
	after   time.Duration

	mu   sync.Mutex
	seen map[string]int
}

func newCloser(t *testing.T, after time.Duration) *closer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &closer{T: t, address: l.Addr().String(), after: after, seen: map[string]int{}}
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { s.talk(c) }) // ends by its deadline
		}
	})
	return s
}

func (s *closer) talk(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		s.seen[r.URL.Path]++
		s.mu.Unlock()
		io.WriteString(c, ok)
		c.SetReadDeadline(time.Now().Add(s.after))
	}
}

// If a server closes idle connections without a header about it, requests that may be repeated do not
// fail. Others may fail, but none is served twice.
func TestIdleConnectionsClosedByServer(t *testing.T) {
	const requests = 300
	for _, after := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(fmt.Sprint(method, " ", after), func(t *testing.T) {
				s, c := newCloser(t, after), client(t)
				failures := 0
				for i := range requests {
					body := ""
					if method == "POST" {
						body = strings.Repeat("x", i)
					}
					if _, err := fetch(c, with(get(fmt.Sprintf("http://%s/%d", s.address, i)), method, body)); err != nil {
						failures++
					}
				}
				t.Logf("%d of %d requests failed", failures, requests)
				s.mu.Lock()
				defer s.mu.Unlock()
				if method == "GET" {
					if failures > 0 {
						t.Error("requests failed although they may be repeated")
					}
					return
				}
				for path, n := range s.seen {
					if n != 1 {
						t.Errorf("%s was served %d times", path, n)
					}
				}
			})
		}
	}
}
