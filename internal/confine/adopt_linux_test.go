package confine

import (
	"net"
	"os"
	"testing"

	"github.com/tetherexec/tether/internal/proc"
)

// An adopted command whose gate cannot be served again has no way out: what is left of its sockets is closed.
func TestAdoptedGateFailsClosed(t *testing.T) {
	for name, row := range map[string]struct {
		sockets  int
		reported bool
		gate     Gate
		closed   bool
	}{
		"complete":         {2, true, &testGate{listeners: 2}, false},
		"one is missing":   {1, true, &testGate{listeners: 2}, true},
		"all are missing":  {0, true, &testGate{listeners: 2}, true},
		"not reported yet": {0, false, &testGate{listeners: 2}, false},
		"no gate":          {1, true, nil, true},
		"no network":       {0, true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[proc.Which]*os.File{}
			var addresses []string
			for i := range row.sockets {
				l, err := net.Listen("tcp4", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				if files[proc.HeldListener+proc.Which(i)], err = l.(*net.TCPListener).File(); err != nil {
					t.Fatal(err)
				}
				l.Close()
				addresses = append(addresses, l.Addr().String())
			}
			var why error
			l := New(Config{}).Adopt(Adoption{Files: files, Reported: row.reported, Gate: row.gate, Closed: func(err error) { why = err }})
			if row.closed != (why != nil) {
				t.Errorf("closed: %v", why)
			}
			for _, address := range addresses {
				c, err := net.Dial("tcp", address)
				if (err == nil) == row.closed {
					t.Errorf("%s: %v", address, err)
				}
				if err == nil {
					c.Close()
				}
			}
			l.Ended()
			if gate, ok := row.gate.(*testGate); ok {
				gate.close()
			}
			for _, address := range addresses {
				if c, err := net.Dial("tcp", address); err == nil {
					c.Close()
					t.Error("a socket is open after the end")
				}
			}
		})
	}
}
