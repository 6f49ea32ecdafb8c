package unifiedexec

import (
	"time"
	"unicode/utf8"

	"github.com/tetherexec/tether/wire"
)

// An EventKind is the kind of an event.
type EventKind uint8

// The kinds of events.
const (
	Began  EventKind = iota + 1 // a process was started
	Output                      // it has printed Text
	Ended                       // it has ended, or will not be started; this is the last event
)

// A Status is how a process ended.
type Status string

// The values of Status.
const (
	StatusCompleted Status = "completed" // with exit code 0
	StatusFailed    Status = "failed"
	StatusDeclined  Status = "declined" // the user did not let it start
)

// An Event is something that happened to a process. Each attempt to run a command has its own
// events, also an attempt that the sandbox made fail.
type Event struct {
	Kind      EventKind
	Session   SessionInfo
	Attempt   int  // 1 or, without sandbox after a denial, 2
	Sandboxed bool // the executor runs it in a sandbox

	Text string // of Output: whole characters, at most 8192 bytes

	Status   Status // of Ended
	ExitCode int    // -1 if it is not known
	Output   string // all output that was kept; and why the process was lost
	Denied   bool   // the sandbox has denied it something
	Took     time.Duration
	Usage    *wire.Usage // what it has used; nil: not known
}

// Limits of the output in events while a process runs. Its last event has the rest.
const (
	maxDelta  = 8192
	maxDeltas = 10000
)

// A deltaCutter cuts output into pieces of whole characters.
type deltaCutter struct {
	rest  []byte // the beginning of a character
	count int
}

// cut calls show with the pieces that are complete.
func (c *deltaCutter) cut(data []byte, show func(string)) {
	data = append(c.rest, data...)
	for len(data) > 0 {
		n := min(len(data), maxDelta)
		n -= unfinished(data[:n])
		if n == 0 {
			break
		}
		if c.count++; c.count <= maxDeltas {
			show(decode(data[:n]))
		}
		data = data[n:]
	}
	c.rest = append([]byte(nil), data...)
}

// flush shows an incomplete character at the end of the output.
func (c *deltaCutter) flush(show func(string)) {
	if len(c.rest) > 0 && c.count < maxDeltas {
		show(decode(c.rest))
	}
	c.rest = nil
}

// unfinished is the length of an incomplete character at the end of data.
func unfinished(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if tail := data[len(data)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}
