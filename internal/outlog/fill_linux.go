package outlog

import (
	"io"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/arena"
)

// take moves up to most bytes behind the last record: from a pipe, or from a terminal
// through the pipe in between. Below most, the error says why there are no more: EAGAIN, or
// the end.
func take(slot *arena.Slot, fd int, between *Between, most int) (total int, err error) {
	for total < most && err == nil {
		var n int
		if between == nil {
			n, err = moveBytes(slot, fd, most-total)
		} else {
			n, err = between.take(slot, fd, most-total)
		}
		switch {
		case n > 0:
			total += n
		case err == nil:
			err = io.EOF
		}
	}
	return total, err
}

// take is take for a terminal.
func (b *Between) take(slot *arena.Slot, tty, most int) (int, error) {
	for {
		if b.held == 0 {
			if err := b.fetch(tty); err != nil {
				return 0, err
			}
		}
		n, err := moveBytes(slot, b.Read, most)
		switch {
		case err == unix.EAGAIN && b.held == unknown:
			b.held = 0
			continue
		case n > 0 && b.held != unknown:
			b.held -= n
		}
		return n, err
	}
}

// fetchSize is how much output of a terminal is fetched at a time. The buffer of a terminal has 4 KiB, and may be filled again during the
// call. The kernel allocates memory for all of it before it looks for output.
const fetchSize = 8 << 10

// fetch moves output of a terminal to the empty pipe.
func (b *Between) fetch(tty int) error {
	b.held = unknown
	for {
		n, err := unix.Splice(tty, nil, b.Write, nil, fetchSize, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			b.held = 0
			return err
		case n == 0:
			b.held = 0
			return io.EOF
		}
		pointBetween.Passed()
		b.held = int(n)
		return nil
	}
}

// awaitable returns nil if there is output to be taken. Otherwise it returns the error that Fill
// returns then.
func awaitable(fd int, between *Between) error {
	if between != nil && between.held != 0 {
		ready, _, err := poll(between.Read)
		if err != nil || ready {
			return err
		}
		between.held = 0
	}
	ready, over, err := poll(fd)
	if err == nil && over && !ready {
		// The kernel looks for output first, and then whether the other end is gone. The last output may have come between the two.
		ready, _, err = poll(fd)
	}
	switch {
	case err != nil || ready:
		return err
	case over:
		return io.EOF
	}
	return unix.EAGAIN
}

// available is how much output a pipe has, or 0 if that is not known.
func available(pipe int) int {
	n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// poll reports whether there is something to read, and whether the other end is gone.
func poll(fd int) (ready, over bool, err error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			continue
		}
		return fds[0].Revents&unix.POLLIN != 0, fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0, err
	}
}
