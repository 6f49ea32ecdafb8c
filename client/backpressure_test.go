package client_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A subscription that reads as fast as it can gets each byte over the wire once: the network
// waits for it. A subscription that does not read delays the others only for a short time.
func TestBackpressureFromReaders(t *testing.T) {
	t.Parallel()
	wire := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	again := wire.On(cable.FromClient, cable.Method("process/read").Always())
	c := dial(t, wire.URL(), client.Options{})
	const size = 16 << 20
	stalled := start(t, c, sh("head -c 16777216 /dev/zero"))
	sleeper := stalled.Subscribe()
	p := start(t, c, sh("head -c 16777216 /dev/zero"))
	began := time.Now()
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{p.Output()}); n != size || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	took, n := time.Since(began), again.Count()
	t.Logf("%v, %d reads", took, n)
	if n > 8 && took < 5*time.Second { // on a busy machine the reader may not run for a while, and is not waited for
		t.Errorf("output was fetched again %d times", n)
	}
	total := 0
	for {
		e, err := sleeper.Next(tethertest.Within(t))
		if err == io.EOF {
			break
		}
		if err != nil || e.Kind == client.Gap {
			t.Fatal(e.Kind, err)
		}
		total += len(e.Data)
	}
	if total != size {
		t.Errorf("the subscription that read later got %d bytes of %d", total, size)
	}
}

// A server that keeps little does not have the output of a reader that pauses, so the
// client keeps it.
func TestPausedReader(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	_, p, first := started(t, s, client.Options{})
	r := p.Output()
	const events, size = 20, 1 << 20
	chunk := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), size))
	for seq := 1; seq <= events; seq++ {
		first.Say(fmt.Sprintf(`{"method":"process/output","params":{"processId":"P","seq":%d,"stream":"stdout","chunk":%q}}`, seq, chunk))
	}
	tethertest.Eventually(t, func() error { // the reader pauses until all output has arrived
		if n := p.LastSeq(); n < events {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
	first.Say(`{"method":"process/exited","params":{"processId":"P","seq":21,"exitCode":0,"sandboxDenied":false}}`,
		`{"method":"process/closed","params":{"processId":"P","seq":22}}`)
	go func() { // a read is answered as by a server that has removed the process
		if m, ok := first.MayHear(); ok {
			first.Say(m.Refuse(-32600, "unknown process id P"))
		}
	}()
	if n, err := io.Copy(io.Discard, r); n != events*size || err != nil {
		t.Errorf("read %d bytes of %d, %v", n, events*size, err)
	}
}
