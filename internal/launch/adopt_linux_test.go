//go:build amd64 || arm64

package launch

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// A dropKeeper is asked only to drop descriptors.
type dropKeeper struct {
	proc.Keeper
	dropped map[int]int // by slot
}

func (k *dropKeeper) Drop(slot int, _ proc.Which) { k.dropped[slot]++ }

// If a socket of a proxy is missing, the network of the command stays closed: connections are refused, and the log
// says why.
func TestIncompleteProxyIsNotServedAgain(t *testing.T) {
	a, err := arena.Create(arena.Config{Slots: 8, Blocks: 64, Journal: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	slot, err := a.TakeSlot()
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	held, err := socket.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	socket.Close()
	params := startParams("p", "true")
	params.NetworkProxy = &wire.NetworkProxy{Proxy: wire.NetworkProxySettings{Enabled: true, EnableSocks5: true, Mode: wire.NetworkModeFull}}
	command, err := Check(params)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	keeper := &dropKeeper{dropped: map[int]int{}}
	l := New(Config{Procs: proc.New(proc.Config{Keeper: keeper})}, Owner{}, slog.New(slog.NewTextHandler(&log, nil)))
	defer l.Close()
	if n := l.restoreNetwork(Found{Command: command, Slot: slot, Files: map[proc.Which]*os.File{proc.HeldListener: held}}, nil); n != nil {
		n.close()
		t.Error("the proxy is served without its second socket")
	}
	held.Close()
	if keeper.dropped[proc.Holder(slot)] != 1 {
		t.Errorf("the keeper was told to drop %v", keeper.dropped)
	}
	if c, err := net.Dial("tcp", socket.Addr().String()); err == nil {
		c.Close()
		t.Error("a connection is accepted")
	}
	if text := log.String(); !strings.Contains(text, "stays closed") || !strings.Contains(text, "1 of the 2 sockets") {
		t.Errorf("log: %s", text)
	}
}
