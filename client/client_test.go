package client_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longWait is longer than any step of a test takes.
const longWait = 60 * time.Second

func dial(t testing.TB, url string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(tethertest.Within(t), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func start(t testing.TB, c *client.Client, cmd client.Command) *client.Process {
	t.Helper()
	if cmd.Dir == "" {
		cmd.Dir = t.TempDir()
	}
	p, err := c.Start(tethertest.Within(t), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func sh(script string) client.Command { return client.Command{Argv: []string{"/bin/sh", "-c", script}} }

func TestRun(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	p := start(t, c, sh("echo one; echo two >&2; exit 3"))
	stdout, stderr := p.Stdout(), p.Stderr()
	for want, r := range map[string]io.Reader{"one\n": stdout, "two\n": stderr} {
		if got, err := io.ReadAll(r); string(got) != want || err != nil {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	if exit, err := p.Wait(tethertest.Within(t)); exit.Code != 3 || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

// A command copies its input to its output. All of it arrives in order, although the cable is
// cut again and again.
func TestPipeThroughCuts(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, cable.URL(), client.Options{})
	cmd := sh("cat")
	cmd.Stdin = true
	p := start(t, c, cmd)
	data := make([]byte, 4<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	writing := make(chan error, 1)
	go func() {
		in := p.Stdin()
		for piece := range bytesChunk(data, 100_000) {
			if _, err := in.Write(piece); err != nil {
				writing <- err
				return
			}
		}
		writing <- in.Close()
	}()
	stop := make(chan struct{})
	cutting := make(chan struct{})
	go func() {
		defer close(cutting)
		for range 20 {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				cable.CutFor(5 * time.Millisecond)
			}
		}
	}()
	got, err := io.ReadAll(p.Output())
	close(stop)
	<-cutting
	if err != nil {
		t.Fatal(err)
	}
	if err := <-writing; err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != sha256.Sum256(data) {
		t.Errorf("%d bytes came back of %d, equal: %t", len(got), len(data), bytes.Equal(got, data))
	}
	if exit, err := p.Wait(tethertest.Within(t)); exit.Code != 0 || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	t.Logf("%d connections", c.Status().Connection)
}

func bytesChunk(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

func second[T any](_ T, err error) error { return err }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// connected returns a channel that is closed with the given connection.
func connected(number int) (<-chan struct{}, func(client.Status)) {
	there := make(chan struct{})
	return there, func(s client.Status) {
		if s.State == client.Connected && s.Connection == number {
			close(there)
		}
	}
}
