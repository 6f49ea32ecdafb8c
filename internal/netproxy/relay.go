package netproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// halfOpenIdle is how long a half-closed tunnel may be silent. A tunnel that is open
// both ways may be silent as long as the process lives.
const halfOpenIdle = 5 * time.Minute

// relay copies between two connections until both directions have ended, and closes
// them. The end of one direction is passed on and leaves the other open; an error
// ends both.
func relay(a, b net.Conn) {
	var other sync.WaitGroup
	other.Go(func() { pump(a, b) })
	pump(b, a)
	other.Wait()
	a.Close()
	b.Close()
}

// pump copies from src to dst. Between TCP connections the kernel does it.
func pump(dst, src net.Conn) {
	for {
		n, err := io.Copy(unwrap(dst), unwrap(src))
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			src.SetReadDeadline(time.Now().Add(halfOpenIdle))
			continue
		}
		if err == nil {
			err = closeWrite(dst)
		}
		if err != nil { // the other pump notices
			unwrap(dst).Close()
			unwrap(src).Close()
			return
		}
		dst.SetReadDeadline(time.Now().Add(halfOpenIdle))
		return
	}
}

// closeWrite passes the end of a direction on.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// unwrap returns the connection below a tracked one, which the kernel can copy
// from.
func unwrap(c net.Conn) net.Conn {
	if t, ok := c.(*conn); ok {
		return t.Conn
	}
	return c
}
