package tethertest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// silence is how long a frozen cable is watched. A cable that forwards does so
// in microseconds; the test can only miss a defect, never invent one.
const silence = 50 * time.Millisecond

// startEcho serves a TCP echo until the test ends.
func startEcho(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // ends when cleanup closes the listener
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { // ends with the connection, which the cable or the test closes
				defer conn.Close()
				io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

func dialCable(t *testing.T, c *Cable) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// echoes sends text and reports whether it comes back within the time.
func echoes(conn net.Conn, text string, within time.Duration) error {
	conn.SetDeadline(time.Now().Add(within))
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, len(text)))
	return err
}

func TestCableForwardsAndTaps(t *testing.T) {
	var mu sync.Mutex
	var up, down bytes.Buffer
	cable := NewCable(t, "ws://"+startEcho(t), WithTap(func(link int, fromTarget bool, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		if fromTarget {
			down.Write(data)
		} else {
			up.Write(data)
		}
	}))
	conn := dialCable(t, cable)
	if err := echoes(conn, "hello", patience); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	cable.Close() // waits for the pumps, and so for the tap
	if up.String() != "hello" || down.String() != "hello" {
		t.Errorf("tap saw %q up, %q down", &up, &down)
	}
	if cable.Links() != 1 {
		t.Errorf("%d links, want 1", cable.Links())
	}
}

// TestTapSeesTheRequestFirst: who reads along can tell what an answer is about.
func TestTapSeesTheRequestFirst(t *testing.T) {
	answered := make(chan struct{})
	var early atomic.Bool
	cable := NewCable(t, startEcho(t), WithTap(func(_ int, fromTarget bool, _ []byte) {
		if fromTarget {
			close(answered)
			return
		}
		select {
		case <-answered:
			early.Store(true)
		case <-time.After(200 * time.Millisecond): // an answer needs far less
		}
	}))
	if err := echoes(dialCable(t, cable), "?", patience); err != nil {
		t.Fatal(err)
	}
	cable.Close()
	if early.Load() {
		t.Error("an answer was seen before the tap was done with the request")
	}
}

// TestSettleWaitsForTheTap: who saw a client act on something finds it tapped.
func TestSettleWaitsForTheTap(t *testing.T) {
	release := make(chan struct{})
	var tapped atomic.Bool
	cable := NewCable(t, startEcho(t), WithTap(func(_ int, fromTarget bool, _ []byte) {
		if fromTarget {
			<-release
			tapped.Store(true)
		}
	}))
	if err := echoes(dialCable(t, cable), "?", patience); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(release) })
	cable.Settle()
	if !tapped.Load() {
		t.Error("the tap was not called yet")
	}
}

// TestTapSeesThePartBeforeACut: a cut in the middle of a piece hides nothing of
// what the client got.
func TestTapSeesThePartBeforeACut(t *testing.T) {
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	stuck := make(chan error, 1)
	go func() { // ends when nothing more fits into the cable
		conn, err := target.Accept()
		if err != nil {
			stuck <- err
			return
		}
		defer conn.Close()
		piece := make([]byte, 1<<20)
		for range 1024 {
			conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			if _, err = conn.Write(piece); err != nil {
				break
			}
		}
		if stuck <- err; errors.Is(err, os.ErrDeadlineExceeded) {
			io.Copy(io.Discard, conn) // the cut ends it
		}
	}()
	var tapped atomic.Int64
	cable := NewCable(t, target.Addr().String(), WithTap(func(_ int, _ bool, data []byte) { tapped.Add(int64(len(data))) }))
	conn := dialCable(t, cable)
	if err := <-stuck; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the target's writing ended with %v, want it stuck", err)
	}
	cable.Close()
	if got, _ := io.Copy(io.Discard, conn); got > tapped.Load() {
		t.Errorf("the client got %d bytes, the tap saw %d", got, tapped.Load())
	}
}

func TestCutEndsAndRefusesUntilMend(t *testing.T) {
	cable := NewCable(t, startEcho(t))
	conn := dialCable(t, cable)
	if err := echoes(conn, "before", patience); err != nil {
		t.Fatal(err)
	}
	cable.Cut()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("read succeeded on a cut cable")
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("the cut did not end the connection")
	}
	if during, err := net.Dial("tcp", cable.Addr()); err == nil { // the reset may come first
		if echoes(during, "during", patience) == nil {
			t.Error("a cut cable let a connection through")
		}
		during.Close()
	}
	cable.Mend()
	if err := echoes(dialCable(t, cable), "after", patience); err != nil {
		t.Errorf("after mending: %v", err)
	}
}

func TestFreezeHoldsAndThawDelivers(t *testing.T) {
	cable := NewCable(t, startEcho(t))
	conn := dialCable(t, cable)
	if err := echoes(conn, "x", patience); err != nil {
		t.Fatal(err)
	}
	cable.Freeze()
	if _, err := io.WriteString(conn, "held"); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(silence))
	_, err := conn.Read(make([]byte, 1))
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
		t.Fatalf("frozen cable: %v, want a timeout", err)
	}
	cable.Thaw()
	got := make([]byte, 4)
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "held" {
		t.Errorf("after the thaw: %q, %v", got, err)
	}
}

func TestCloseEndsFrozenLinks(t *testing.T) {
	cable := NewCable(t, startEcho(t))
	conn := dialCable(t, cable)
	if err := echoes(conn, "x", patience); err != nil {
		t.Fatal(err)
	}
	cable.Freeze()
	if _, err := conn.Write([]byte("stuck")); err != nil {
		t.Fatal(err)
	}
	cable.Close() // hangs, and so fails by the test's timeout, if a pump stays
}
