package keep

import "fmt"

// maxDescriptors is how many descriptors the kernel passes with one message (SCM_MAX_FD).
const maxDescriptors = 253

// A kind is the first word of a message. The numbers are the same in all versions, because a keeper and a worker of
// different versions talk to each other during an upgrade. A receiver ignores messages that it does not know, and
// fields that it does not know at the end of a message.
type kind int32

const (
	msgHold    kind = 1
	msgDrop    kind = 2
	msgFree    kind = 3
	msgStatus  kind = 4
	msgReap    kind = 5
	msgReady   kind = 6
	msgBeat    kind = 7
	msgBye     kind = 8
	msgUpgrade kind = 9
	msgRenew   kind = 10
	msgLeave   kind = 11

	msgGive    kind = 33
	msgServe   kind = 34
	msgProve   kind = 35
	msgExit    kind = 36
	msgEnded   kind = 37
	msgMissed  kind = 38
	msgDrain   kind = 39
	msgVerdict kind = 40
	msgReload  kind = 41

	maxKind = 64
)

// A message is a row of the table of messages. On the socket it is one packet of 32-bit words in the machine's byte
// order: the kind, then the fields.
type message struct {
	name   string
	from   string // "worker" or "keeper"
	fields []string
	repeat bool   // the fields may be repeated
	fds    string // the descriptors that come with it
	means  string
}

// messages is the whole protocol between keeper and worker.
var messages = [maxKind]message{
	msgHold:    {"hold", "worker", []string{"slot", "which"}, true, "one per pair", "hold these descriptors. A descriptor with the same slot and number is replaced"},
	msgDrop:    {"drop", "worker", []string{"slot", "which"}, false, "", "close this descriptor, now: its other end waits for it"},
	msgFree:    {"free", "worker", []string{"slot"}, false, "", "close all descriptors of the slot"},
	msgStatus:  {"status", "worker", []string{"pid", "token"}, false, "", "how did this child of the keeper end? The answer is `exit`"},
	msgReap:    {"reap", "worker", []string{"pid"}, false, "", "the exit of this child of the keeper is recorded: its number may be used again"},
	msgReady:   {"ready", "worker", nil, false, "", "the worker serves; from a spare: it has checked the state and could serve"},
	msgBeat:    {"beat", "worker", nil, false, "", "the worker still works"},
	msgBye:     {"bye", "worker", nil, false, "", "the server ends on purpose: end with the worker, and do not start another one"},
	msgUpgrade: {"upgrade", "worker", nil, false, "the program", "replace the worker by this program. The answer is `verdict`, or the end of this worker"},
	msgRenew:   {"renew", "worker", nil, false, "", "replace the keeper by the program of the worker, in place. The answer is `verdict`"},
	msgLeave:   {"leave", "worker", []string{"pid"}, false, "", "this process outlives the server: do not signal it when the server ends"},

	msgGive:    {"give", "keeper", []string{"slot", "which"}, true, "one per pair", "a part of the descriptors that the keeper holds"},
	msgServe:   {"serve", "keeper", []string{"protocol", "number", "deaths", "limit", "beat", "probation", "cause", "detail", "died"}, false, "", "all descriptors were given: serve. The fields are those of Order"},
	msgProve:   {"prove", "keeper", []string{"protocol"}, false, "", "to a spare, after the descriptors of slot -1: check the state without changing it, and say `ready`"},
	msgExit:    {"exit", "keeper", []string{"pid", "token", "state", "code"}, false, "", "the answer to `status`. If the child has ended, ten more words tell what it has used: time in user and in system mode (ns), largest process (KiB), blocks read and written, each as two words, the lower one first"},
	msgEnded:   {"ended", "keeper", []string{"pid"}, true, "", "these children of the keeper have ended; those that no slot claims should be reaped"},
	msgMissed:  {"missed", "keeper", []string{"slot", "which"}, false, "", "the system has no room for this descriptor: it is not held"},
	msgDrain:   {"drain", "keeper", []string{"ms"}, false, "", "another worker takes over: answer what is under way within this time, then end"},
	msgReload:  {"reload", "keeper", nil, false, "", "SIGHUP has arrived: read the settings again"},
	msgVerdict: {"verdict", "keeper", []string{"question", "cause", "detail"}, false, "", "the result of `upgrade` or `renew`, whose kind is the question"},
}

// exitNotExecuted is the exit status of a child that could not execute its program.
const exitNotExecuted = 253

// protocol is the version of the protocol. It changes only if a receiver has to know that a field or message means
// something else than before.
const protocol = 1

// A Cause says why a worker was replaced, or why a program was refused. The detail of a Cause is the worker's exit status as in
// a shell, or a number of the system's errors.
type Cause int32

const (
	None       Cause = 0 // nothing has happened
	Died       Cause = 1 // it ended without a word; detail: exit status
	Frozen     Cause = 2 // it gave no sign of life in time
	NotReady   Cause = 3 // it was not ready in time
	NotStarted Cause = 4 // it could not be executed; detail: number of the error, if known
	Replaced   Cause = 5 // an upgrade has replaced it
	Busy       Cause = 6 // another upgrade is under way or not yet complete, or the worker was replaced meanwhile
	Done       Cause = 7 // the keeper has been replaced, or the upgrade was completed
)

var causes = [...]string{
	None:       "nothing has happened",
	Died:       "it ended unexpectedly",
	Frozen:     "it gave no sign of life",
	NotReady:   "it was not ready in time",
	NotStarted: "it could not be started",
	Replaced:   "an upgrade has replaced it",
	Busy:       "another upgrade is under way, or was less than 30 s ago",
	Done:       "completed",
}

// wellFormed reports whether a message of this kind from this sender may have so many fields and descriptors.
func (k kind) wellFormed(from string, fields, fds int) bool {
	if k < 0 || k >= maxKind || messages[k].from != from {
		return false
	}
	m := &messages[k]
	switch {
	case k == msgHold || k == msgGive:
		return fields > 0 && fields == len(m.fields)*fds
	case k == msgUpgrade:
		return fds == 1
	}
	return fields >= len(m.fields) && fds == 0
}

// Exit statuses by which a worker says why it does not serve.
const (
	ExitUnreadable = 251 // it cannot read the state
	ExitOlder      = 252 // a newer program has written the state
)

// Describe tells a Cause with its detail in plain words.
func (c Cause) Describe(detail int) string {
	switch {
	case c == Died && detail == ExitOlder:
		return "it is older than the program that has written the state of the server"
	case c == Died && detail == ExitUnreadable:
		return "it cannot read the state of the server"
	case c == NotStarted && (detail == exitNotExecuted || detail < 0), c == None, c == Replaced, c == Busy, c == Done:
		return c.String()
	case c == NotStarted:
		return fmt.Sprintf("%v (error %d)", c, detail)
	}
	return fmt.Sprintf("%v (exit status %d)", c, detail)
}

func (c Cause) String() string {
	if c >= 0 && int(c) < len(causes) {
		return causes[c]
	}
	return fmt.Sprintf("cause %d", int32(c))
}
