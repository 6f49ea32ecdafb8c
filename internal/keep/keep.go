package keep

import (
	"errors"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/account"
)

// ErrFull means that the keeper cannot hold more descriptors.
var ErrFull = errors.New("limit of descriptors reached")

// Shared is the slot of the descriptors that belong to the server and not to a command: listeners, state, locks. A spare
// is given only these until it takes over.
const Shared = -1

// A Held is a descriptor that the keeper holds for the worker. The keeper knows nothing about it but its slot and the
// number that the worker has chosen.
type Held struct {
	Slot  int32 // Shared, or a number of the worker's choice from 0 to 2^20-1
	Which int32 // a number of the worker's choice
	FD    int
}

// Config says how [Beginning.Become] begins.
type Config struct {
	Args []string // of the worker, after the program's name
	Held []Held   // descriptors; the keeper gets copies

	// Announce tells the user that the server listens. It is called when the keeper catches signals, before there is a worker.
	Announce func() error

	// Abandon removes what was made for the server. It is called at the end if no worker has served: otherwise the last worker does that.
	Abandon func()

	// Beat is how long a worker may go without [Worker.Beat] before the keeper replaces it; 0: it need not beat.
	Beat time.Duration

	// Notice is a file for the last error of the keeper, as a line of the log. It is empty while all is well: a program that
	// gets no answer from the server can show it. May be nil.
	Notice *os.File

	// KillOrphans ends everything that a worker has started when it dies, before the next one takes over. It is for a server whose
	// commands belong to the connections of the worker.
	KillOrphans bool

	// Hasty lets a worker that has died be replaced at once, however often that happens, and completes an upgrade soon. It is
	// for tests that kill workers.
	Hasty bool

	LogJSON bool // the keeper's log on standard error is JSON, otherwise text
}

// An Order is what a worker is told when it should serve.
type Order struct {
	Number    int           // of the worker: 1 for the first
	Deaths    int           // how many workers in a row have died before they had served for 10 s
	Limit     int           // how many descriptors the keeper can hold
	Beat      time.Duration // see Config
	Probation time.Duration // for how long the previous program, of another version, may have to take over again; 0: no upgrade
	Cause     Cause         // why the worker before this one was replaced
	Detail    int           // of the Cause
	Died      int           // how many workers have died, in all
}

// Events are called by the goroutine that reads the keeper's messages. They must not wait. All must be set.
type Events struct {
	Ended  func(pids []int)           // children of the keeper that have ended; Reap those that are not commands
	Missed func(slot, which int32)    // the system had no room for this descriptor, the keeper does not hold it
	Drain  func(within time.Duration) // another worker takes over; this one is killed after this time
	Reload func()                     // the keeper has got SIGHUP: read the settings again
	Lost   func(error)                // the keeper is gone: end everything
}

// An Exit says how a child of the keeper has ended.
type Exit struct {
	Child  bool // it is, or was until it is reaped, a child of the keeper
	Ended  bool
	Status int // as in a shell: exit code, or 128 and the number of the signal

	Used *account.Figures // what it has used, if it has ended; nil: the keeper does not tell
}

// A RefusedError says why the keeper did not replace the worker or itself.
type RefusedError struct {
	Cause  Cause
	Detail int
}

func (e *RefusedError) Error() string {
	return "the new program was not accepted: " + e.Cause.Describe(e.Detail)
}
