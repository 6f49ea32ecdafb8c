//go:build interop

package interop_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestHTTPSilentCloses counts how many requests are lost when a web server closes idle connections without notice. No request may
// be served twice. The number of lost requests depends on the machine and on chance, so it is only logged, with -live beside that
// of the reference.
func TestHTTPSilentCloses(t *testing.T) {
	const requests = 200
	for _, after := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			lost := map[product]int{}
			for _, who := range products {
				if who == ref && !*live {
					continue
				}
				program(t, who)
				p := &player{t: t, who: who, server: shared(t, who)}
				address, served := closingOrigin(t, after)
				c := p.caller()
				for i := range requests {
					reply := c.call("http/request", map[string]any{"method": "POST", "url": fmt.Sprintf("http://%s/%d", address, i),
						"requestId": "r", "bodyBase64": base64Of("hello")})
					if !strings.Contains(reply, `"status":200`) {
						lost[who]++
					}
				}
				for path, n := range served() {
					if n > 1 {
						t.Errorf("%s: %s was served %d times", who, path, n)
					}
				}
				p.close()
			}
			t.Logf("of %d requests lost: %v", requests, lost)
		})
	}
}

// closingOrigin starts a server that closes connections some time after an answer. It returns its address and a count of the
// served requests.
func closingOrigin(t *testing.T, after time.Duration) (address string, served func() map[string]int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var work sync.WaitGroup
	t.Cleanup(func() { l.Close(); work.Wait() })
	talk := func(c net.Conn) {
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(timeLimit))
		for in := bufio.NewReader(c); ; c.SetReadDeadline(time.Now().Add(after)) {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			mu.Lock()
			seen[r.URL.Path]++
			mu.Unlock()
			io.WriteString(c, okAnswer)
		}
	}
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { talk(c) }) // ends by its deadline
		}
	})
	return l.Addr().String(), func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(seen)
	}
}
