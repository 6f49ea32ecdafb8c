//go:build amd64 || arm64

package keep

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/service"
	"github.com/tetherexec/tether/internal/trim"
)

// turn is how many messages the keeper takes before it looks at signals and timers again.
const turn = 256

// The timers of a keeper, besides the deadlines of its peers.
const (
	dueLook      = iota // there may be more messages of the worker
	dueRest             // the worker has served for serviceTime
	dueStart            // start a worker; the timers before this one end with the worker
	dueProbation        // an upgrade is complete
	dueEnded            // look for children that have ended
	dueOrphans          // kill what the last worker has left; the next one waits for it
	dueAlive            // tell the service manager that the keeper works
	timers
)

// A keeper is the state of the keeper's process. fields lists the part of it that is carried over when the keeper is
// replaced in place.
type keeper struct {
	table                     // the descriptors that it holds for the worker
	worker, spare, check peer // its children
	settings
	handles
	history
	ending
	buffers

	due     [timers]int
	now     int // when wait returned
	command command
	unwatch func() // ends the delivery of signals
	manager *service.Manager
	pages   trim.Pages // of the program; nil: not yet known
}

// settings are what the keeper was started with. 1 means yes.
type settings struct {
	json   int // the log is JSON
	hasty  int // there are no pauses between workers
	beat   int // a worker without a beat for this time is frozen; 0: it need not beat
	hangup int // SIGHUP ends the server
	purges int // see Config.KillOrphans
}

// handles are descriptors of the keeper itself; -1: it has none.
type handles struct {
	program   int // the worker's program
	previous  int // the program before an upgrade, until that is complete
	candidate int // the spare's program
	notice    int // a file for the last error
	bell      int // an eventfd: the worker asks the keeper to look at its queue now
	signals   int // a pipe in which signals arrive as bytes
	signalled int // its other end
}

// history is what has happened to the workers.
type history struct {
	number   int // of workers that were started
	deaths   int // in a row, without serviceTime between them
	died     int // workers that have died or could not be started, in all
	served   int // 1: a worker has been ready
	hangups  int // 1: SIGHUP has arrived before the worker was ready, or during an upgrade
	cause    int // why the last worker was replaced: a Cause, with its detail
	detail   int
	adopted  int // how many children there were when the last worker died; later ones are orphans
	endedAt  int // time of the last search for children that have ended
	purgedBy int // when the search for what the last worker has left is given up
}

// ending is how the server ends.
type ending struct {
	bye      int  // 1: the worker ends the server
	stopping int  // the signal that ends the server; 0: none has
	stays    int  // a process that outlives the server; 0: none
	retried  bool // a worker has died while it ended the server, and another one does it
	status   int  // exit status; -1: the keeper runs
}

// buffers are made once, because the keeper does not collect garbage.
type buffers struct {
	poll    [2 + 2*maxPeers]unix.PollFd // bell, signals; then end and socket of each peer
	in, out packet
	text    [4096]byte // for reading
	line    [512]byte  // for the log
}

// A peer is a child of the keeper: the worker, a spare, or the check of a state.
type peer struct {
	pid      int // 0: none, as in noPeer
	pidfd    int
	socket   int // -1: none
	given    int // entries of the table that it was given; -1: it has got all it should
	ready    int // 1: it is
	deadline int // when it is killed; 0: never
	charge   int // the Cause for which it is killed then
	killed   int // the Cause for which it was killed
}

const maxPeers = 3

// noPeer has no descriptors; 0 would be standard input.
var noPeer = peer{pidfd: -1, socket: -1, given: -1}

func (k *keeper) peers() [maxPeers]*peer { return [...]*peer{&k.worker, &k.spare, &k.check} }

// isPeer reports whether a child is one of the peers, and neither a command nor an orphan.
func (k *keeper) isPeer(pid int) bool {
	return pid == k.worker.pid || pid == k.spare.pid || pid == k.check.pid
}

// run keeps until the server ends, and returns the exit status.
func (k *keeper) run() int {
	for k.status < 0 {
		k.wait()
		k.step()
	}
	return k.status
}

// wait waits for an event or a timer.
func (k *keeper) wait() {
	next := math.MaxInt
	for _, at := range k.due {
		if at != 0 {
			next = min(next, at)
		}
	}
	k.poll[0] = unix.PollFd{Fd: int32(k.bell), Events: unix.POLLIN}
	k.poll[1] = unix.PollFd{Fd: int32(k.signals), Events: unix.POLLIN}
	for i, p := range k.peers() {
		if p.deadline != 0 {
			next = min(next, p.deadline)
		}
		end, socket := unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN}, unix.PollFd{Fd: int32(p.socket)}
		if p != &k.worker { // the worker rings the bell; only the end of its socket is an event
			socket.Events |= unix.POLLIN
		}
		if p.given >= 0 {
			socket.Events |= unix.POLLOUT
		}
		k.poll[2+2*i], k.poll[3+2*i] = end, socket
	}
	timeout := unix.NsecToTimespec(int64(max(0, next-now())))
	if n, _ := unix.Ppoll(k.poll[:], &timeout, nil); n <= 0 {
		clear(k.poll[:])
	}
	k.now = now()
}

// step handles what wait has found.
func (k *keeper) step() {
	if k.poll[1].Revents != 0 {
		k.takeSignals()
	}
	if k.poll[0].Revents != 0 {
		unix.Read(k.bell, k.text[:8])
	}
	if k.poll[0].Revents != 0 || k.poll[3].Revents != 0 {
		k.look()
	}
	for i, p := range k.peers() {
		if k.poll[3+2*i].Revents != 0 && p != &k.worker {
			k.take(p, turn)
		}
		if k.poll[2+2*i].Revents != 0 && p.pid != 0 {
			k.ended(p)
		}
		if p.deadline != 0 && p.deadline <= k.now {
			k.overdue(p)
		}
		k.give(p)
	}
	for timer, at := range k.due {
		if at != 0 && at <= k.now && k.status < 0 {
			k.due[timer] = 0
			k.expired(timer)
		}
	}
}

func (k *keeper) ended(p *peer) {
	switch p {
	case &k.worker:
		k.workerEnded()
	case &k.spare:
		k.spareEnded()
	case &k.check:
		k.checkEnded()
	}
}

func (k *keeper) expired(timer int) {
	switch timer {
	case dueLook:
		k.look()
	case dueRest:
		k.rest()
	case dueStart:
		k.startNext()
	case dueProbation:
		k.previous = closed(k.previous)
		k.renew()
	case dueEnded:
		k.reportEnded()
	case dueOrphans:
		k.purge()
	case dueAlive:
		k.manager.Alive()
		k.due[dueAlive] = k.now + int(k.manager.Interval())
	}
}

// look takes the messages of the worker.
func (k *keeper) look() {
	k.due[dueLook] = 0
	if k.take(&k.worker, turn) == turn {
		k.due[dueLook] = k.now
	}
}

// take handles up to limit messages of a peer.
func (k *keeper) take(p *peer, limit int) (taken int) {
	for p.socket >= 0 && taken < limit {
		kind, words, fds, err := k.in.receive(p.socket, 0)
		switch {
		case err == unix.EAGAIN:
			return taken
		case err == unix.EINTR || err == unix.ECONNRESET:
			// A peer that dies with unread messages causes ECONNRESET. Its own messages are still in the queue.
		case err != nil || kind == 0:
			p.socket = closed(p.socket)
			k.kill(p, Died) // a peer closes its socket by ending
		default:
			k.handle(p, kind, words, fds)
			taken++
		}
	}
	return taken
}

// handle carries out a message. Messages and fields that this version does not know are ignored.
func (k *keeper) handle(p *peer, kind kind, words, fds int) {
	fields := k.in.words[1 : 1+words]
	active := p == &k.worker
	switch {
	case kind == msgHold && active && words%2 == 0:
		k.holdAll(words/2, fds)
		return
	case kind == msgUpgrade && active && fds == 1:
		k.upgrade(int(k.in.fds[0]))
		return
	}
	for _, fd := range k.in.fds[:fds] {
		unix.Close(int(fd))
	}
	if !kind.wellFormed("worker", words, fds) || !active && kind != msgReady {
		return
	}
	switch kind {
	case msgDrop:
		k.drop(fields[0], fields[1])
	case msgFree:
		k.free(fields[0])
	case msgStatus:
		k.tellStatus(p, int(fields[0]), int(fields[1]))
	case msgReap:
		exitOf(unix.P_PID, int(fields[0]), 0)
	case msgReady:
		k.isReady(p)
	case msgBeat:
		if Cause(p.charge) == Frozen {
			k.allow(p, k.beat, Frozen)
		}
	case msgBye:
		k.bye = 1
	case msgLeave:
		k.stays = int(fields[0])
	case msgRenew:
		k.renew()
	}
}

// holdAll holds the descriptors of the last message. There are fewer descriptors than pairs if the system had no room for
// them.
func (k *keeper) holdAll(pairs, fds int) {
	for i := range max(pairs, fds) {
		slot, which := int32(maxSlot), int32(0) // not possible
		if i < pairs {
			slot, which = k.in.words[1+2*i], k.in.words[2+2*i]
		}
		if i < fds && k.hold(slot, which, int(k.in.fds[i])) {
			continue
		}
		if i < fds {
			unix.Close(int(k.in.fds[i]))
		}
		k.say("there is no room for a descriptor of a command: it would not survive the worker", "slot", int(slot))
		k.tell(&k.worker, msgMissed, int(slot), int(which))
	}
}

// give hands descriptors over: to a worker all that the keeper holds, and to a spare those of the server. If the socket is
// full, it goes on later.
func (k *keeper) give(p *peer) {
	for p.given >= 0 {
		at, n := p.given, 0
		for ; at < len(k.entries) && n < maxDescriptors; at++ {
			e := &k.entries[at]
			if e.fd >= 0 && (p == &k.worker || e.slot == Shared) {
				k.out.words[1+2*n], k.out.words[2+2*n], k.out.fds[n] = e.slot, e.which, e.fd
				n++
			}
		}
		var sent bool
		switch {
		case n > 0:
			sent = k.out.send(p.socket, msgGive, 2*n, n) == nil
		case p == &k.worker:
			at = -1
			sent = k.tell(p, msgServe, protocol, k.number, k.deaths, k.limit, k.beat/1e6, k.probationLeft(), k.cause, k.detail, k.died)
		default:
			at = -1
			sent = k.tell(p, msgProve, protocol)
		}
		if !sent {
			return
		}
		p.given = at
	}
}

// tell sends a message to a peer, if there is one. It returns false if the queue is full. A worker that reads its messages
// never has a full queue, because it limits its questions.
func (k *keeper) tell(p *peer, kind kind, fields ...int) bool {
	for i, field := range fields {
		k.out.words[1+i] = int32(field)
	}
	return k.out.send(p.socket, kind, len(fields), 0) == nil
}

// tellStatus tells a peer how a child has ended, and what it has used.
func (k *keeper) tellStatus(p *peer, pid, token int) {
	var used unix.Rusage
	state, code := exitAndUsage(unix.P_PID, pid, unix.WNOWAIT, &used)
	if state != stateEnded {
		k.tell(p, msgExit, pid, token, state, code)
		return
	}
	const fields = 4
	for i, field := range [fields]int{pid, token, state, code} {
		k.out.words[1+i] = int32(field)
	}
	k.out.putUsage(1+fields, &used)
	k.out.send(p.socket, msgExit, fields+usageWords, 0)
}

// allow sets the time after which a peer is killed, and the cause.
func (k *keeper) allow(p *peer, time int, why Cause) { p.deadline, p.charge = k.now+time, int(why) }

// kill kills a peer; its end is noticed later.
func (k *keeper) kill(p *peer, why Cause) {
	if p.pid != 0 && p.killed == 0 {
		p.killed = int(why)
		unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	}
}

// closed closes a descriptor and returns -1.
func closed(fd int) int {
	if fd >= 0 {
		unix.Close(fd)
	}
	return -1
}
