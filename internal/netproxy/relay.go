package netproxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// halfOpenIdle is how long a tunnel of which one side has said its last word may be
// silent. A tunnel that is open both ways may be silent as long as the process lives.
const halfOpenIdle = 5 * time.Minute

// relay copies between two connections until both have said all, and closes them. The
// end of one direction is passed on and leaves the other alone; an error ends both.
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
		n, err := io.Copy(bare(dst), bare(src))
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			src.SetReadDeadline(time.Now().Add(halfOpenIdle))
			continue
		}
		if err == nil {
			err = closeWrite(dst)
		}
		if err != nil { // the other pump notices
			bare(dst).Close()
			bare(src).Close()
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

// bare returns the connection below a tracked one, which the kernel can copy from.
func bare(c net.Conn) net.Conn {
	if t, ok := c.(*conn); ok {
		return t.Conn
	}
	return c
}
