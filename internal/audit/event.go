package audit

import (
	"strings"
	"time"

	"github.com/tetherexec/tether/wire"
)

// The kinds of events.
const (
	SessionOpened    = "session.opened"
	SessionResumed   = "session.resumed"
	SessionTakenOver = "session.takenOver"
	SessionExpired   = "session.expired"
	SessionEnded     = "session.ended"
	ProcessStarted   = "process.started"
	ProcessRefused   = "process.refused" // a start that has failed or was refused
	ProcessExited    = "process.exited"
	ProcessSignalled = "process.signalled" // a client has sent a signal, or has asked for the end
	ProcessTaken     = "process.taken"     // a client types to it, and shows that
	NetworkDecided   = "network.decided"
	FileChanged      = "file.changed"
	PortOpened       = "port.opened"
	PortRefused      = "port.refused" // a target that the server does not forward to, or that cannot be reached; a port on which it does not listen
	PortListening    = "port.listening"
	PortAccepted     = "port.accepted"    // a connection to such a port, which the client has taken
	SettingsChanged  = "settings.changed" // the server has read them again
	SettingsRefused  = "settings.refused" // they cannot be used
	LinesDropped     = "audit.dropped"
)

// Kinds are all of them.
var Kinds = []string{
	SessionOpened, SessionResumed, SessionTakenOver, SessionExpired, SessionEnded,
	ProcessStarted, ProcessRefused, ProcessExited, ProcessSignalled, ProcessTaken, NetworkDecided, FileChanged, PortOpened, PortRefused, PortListening, PortAccepted, SettingsChanged, SettingsRefused, LinesDropped,
}

// An Event is one line. It never has values of environment variables, input, output or the content of files. Fields that do not apply are
// left out.
type Event struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"`

	Principal string `json:"principal,omitempty"` // of the session
	By        string `json:"by,omitempty"`        // principal of the client, if it is another one: that of an administrator
	Peer      string `json:"peer,omitempty"`      // its address
	Session   string `json:"session,omitempty"`   // public id
	Client    string `json:"client,omitempty"`    // the name that the client has given itself
	Label     string `json:"label,omitempty"`     // and its name for the session
	Trace     string `json:"trace,omitempty"`     // of the request: the id of its W3C trace

	Process string   `json:"process,omitempty"`
	Argv    []string `json:"argv,omitempty"` // bounded: see MaxArgv
	Cwd     string   `json:"cwd,omitempty"`
	Sandbox string   `json:"sandbox,omitempty"` // the kind of sandbox in force
	Network string   `json:"network,omitempty"` // the kind of network in force

	Code    *int        `json:"code,omitempty"` // exit code
	Kind    string      `json:"kind,omitempty"` // how it has exited; which settings
	Denied  bool        `json:"denied,omitempty"`
	Usage   *wire.Usage `json:"usage,omitempty"`
	Signal  string      `json:"signal,omitempty"`
	Method  string      `json:"method,omitempty"` // of the request
	Paths   []string    `json:"paths,omitempty"`  // of the files that were changed
	Host    string      `json:"host,omitempty"`
	Port    uint16      `json:"port,omitempty"`
	Verdict string      `json:"verdict,omitempty"` // allow, deny or ask
	Source  string      `json:"source,omitempty"`  // which part has decided: see netpolicy.Source
	Reason  string      `json:"reason,omitempty"`
	Count   uint64      `json:"count,omitempty"` // of lines that were dropped
}

// Limits of the texts in a line, in bytes. A longer one ends with "…". Clients choose most of them, and a line that is too large for the queue
// or for syslog would not be recorded at all.
const (
	MaxArgv = 8 << 10 // of a command line
	maxText = 4 << 10 // of a path or a reason
	maxName = 1 << 10 // of all others
)

// shortArgv returns a command line within MaxArgv. An empty word counts one byte.
func shortArgv(argv []string) []string {
	left := MaxArgv
	for i, word := range argv {
		if cost := max(1, len(word)); cost <= left {
			left -= cost
			continue
		}
		return append(append([]string{}, argv[:i]...), word[:min(left, len(word))], "…")
	}
	return argv
}

// shorten brings the texts within their limits.
func (e *Event) shorten() {
	for _, name := range []*string{&e.Principal, &e.By, &e.Peer, &e.Client, &e.Label, &e.Process, &e.Signal, &e.Host} {
		*name = short(*name, maxName)
	}
	e.Cwd, e.Reason, e.Argv = short(e.Cwd, maxText), short(e.Reason, maxText), shortArgv(e.Argv)
	if len(e.Paths) > 0 {
		paths := make([]string, len(e.Paths)) // the caller keeps its own
		for i, path := range e.Paths {
			paths[i] = short(path, maxText)
		}
		e.Paths = paths
	}
}

func short(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
