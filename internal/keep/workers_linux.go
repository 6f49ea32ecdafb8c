//go:build amd64 || arm64

package keep

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/trim"
)

const (
	// serviceTime is how long a worker has to serve until its start counts as a success.
	serviceTime = int(10 * time.Second)
	// startTime is how long a worker may take until its first beat: it may have a large state to read.
	startTime = int(30 * time.Second)
	// stopTime is how long a worker may take to end the server. The worker allows itself 5 s.
	stopTime = int(8 * time.Second)
	// lateness is how late a deadline may be noticed. If it is later, the keeper itself was stopped, or the machine was
	// overloaded.
	lateness = int(time.Second)
	// endedInterval is the least time between two searches for children that have ended.
	endedInterval = int(time.Second)

	// After quickDeaths in a row, without serviceTime between them, the keeper considers the worker unable to start. This
	// takes less than a minute. From then on it tries again after rarePause, and after rareDeaths, which is another minute,
	// after longPause.
	quickDeaths = 5
	rareDeaths  = 11
	rarePause   = int(10 * time.Second)
	longPause   = int(time.Minute)

	// When the keeper ends the server itself, commands have termTime to end after SIGTERM. killTime is how long the keeper
	// waits for the end of killed processes: only a process that is stuck in the kernel takes longer.
	termTime = int(200 * time.Millisecond)
	killTime = int(5 * time.Second)
	// finishPause is how long the keeper waits for the next end of a child, in milliseconds.
	finishPause = 10
	// purgePause is how long it waits for that while the next worker has to wait.
	purgePause = int(time.Millisecond)
)

// quickPauses are the pauses before the next start, by the number of earlier deaths in a row.
var quickPauses = [quickDeaths]int{0, 0, int(50 * time.Millisecond), int(200 * time.Millisecond), int(time.Second)}

// startPeer executes a program as a worker, with a socket to the keeper.
func (k *keeper) startPeer(p *peer, program int) error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	pid, pidfd, err := k.command.start(k.command.worker, ends[1], k.bell, program)
	unix.Close(ends[1])
	if err != nil {
		unix.Close(ends[0])
		return err
	}
	*p = peer{pid: pid, pidfd: pidfd, socket: ends[0]}
	return nil
}

// endPeer reaps a peer that has ended, and returns why and how it has ended.
func (k *keeper) endPeer(p *peer) (why Cause, status int) {
	_, status = exitOf(unix.P_PIDFD, p.pidfd, 0)
	why = max(Cause(p.killed), Died)
	if status == exitNotExecuted {
		why = NotStarted
	}
	closed(p.socket)
	unix.Close(p.pidfd)
	*p = noPeer
	return why, status
}

// startNext lets the spare or another worker follow the last one, unless that has left something to kill.
func (k *keeper) startNext() {
	switch {
	case k.due[dueOrphans] != 0:
		k.due[dueStart] = k.due[dueOrphans]
	case k.spare.ready != 0:
		k.takeOver()
	default:
		k.startWorker()
	}
}

func (k *keeper) startWorker() {
	if err := k.startPeer(&k.worker, k.program); err != nil {
		k.say("a worker cannot be started", "errno", errnoOf(err))
		k.failed(NotStarted, errnoOf(err))
		return
	}
	k.started()
}

// started notes that a worker was started.
func (k *keeper) started() {
	k.number++
	if k.beat != 0 {
		k.allow(&k.worker, max(k.beat, startTime), Frozen)
	}
}

// isReady notes that the worker serves, or that the spare has proved itself.
func (k *keeper) isReady(p *peer) {
	p.ready, p.deadline, p.charge = 1, 0, 0
	if p == &k.spare {
		k.drainWorker()
		return
	}
	if k.beat != 0 {
		k.allow(p, k.beat, Frozen)
	}
	if k.stopping != 0 {
		k.stopWorker(unix.Signal(k.stopping))
	}
	if k.hangups != 0 {
		k.tell(p, msgReload)
		k.hangups = 0
	}
	if k.served == 0 {
		k.manager.Ready()
	}
	k.served, k.due[dueRest] = 1, k.now+serviceTime
	if k.previous >= 0 {
		k.due[dueProbation] = k.now + probation
		if k.hasty != 0 {
			k.due[dueProbation] = k.now + hastyProbation
		}
	}
	k.reportEnded()
}

// overdue kills a peer whose deadline has passed. If the keeper itself was late, a worker gets time for another beat.
func (k *keeper) overdue(p *peer) {
	at := p.deadline
	if p == &k.worker {
		k.look() // the queue may have a beat
	}
	switch {
	case p.deadline != at:
	case Cause(p.charge) == Frozen && k.now-at > lateness:
		k.allow(p, k.beat, Frozen)
	default:
		p.deadline = 0
		k.kill(p, Cause(p.charge))
	}
}

// rest notes that the worker has served for serviceTime. From now on the keeper has little to do.
func (k *keeper) rest() {
	k.deaths = 0
	if k.notice >= 0 {
		unix.Ftruncate(k.notice, 0)
	}
	if k.pages == nil {
		k.pages = trim.Program()
	}
	k.pages.Unmap()
}

// workerEnded decides what follows the end of the worker.
func (k *keeper) workerEnded() {
	pid := k.worker.pid
	k.take(&k.worker, math.MaxInt) // its last messages
	ready, asked := k.worker.ready, Cause(k.worker.charge) == Replaced
	why, status := k.endPeer(&k.worker)
	clear(k.due[:dueStart])
	k.adopted = k.children(func(int, int) {})
	if k.purges != 0 {
		k.purgedBy, k.due[dueOrphans] = k.now+killTime, k.now
	}
	switch {
	case k.bye != 0:
		k.finish(status)
	case k.stopping != 0 && ready == 0:
		k.finish(0) // no worker could end the server
	case k.stopping != 0 && why == Died && !k.retried:
		k.retried = true
		k.startToStop()
	case k.stopping != 0:
		k.finish(status)
	case k.spare.ready != 0:
		k.startNext()
	case asked && status == 0: // it has made way for a spare that has died since
		k.cause, k.detail = int(Replaced), 0
		k.startNext()
	default:
		k.say("the worker has ended, another one will take over", "pid", pid)
		k.failed(why, status)
	}
}

// failed plans the next start after a worker has ended or could not be started.
func (k *keeper) failed(why Cause, detail int) {
	k.cause, k.detail = int(why), detail
	k.died++
	if k.previous >= 0 {
		k.say("the new program has failed, the previous one goes on", "status", detail)
		closed(k.program)
		k.program, k.previous, k.due[dueProbation] = k.previous, -1, 0
	}
	pause := longPause
	switch {
	case k.hasty != 0:
		pause = 0
	case k.deaths < quickDeaths:
		pause = quickPauses[k.deaths]
	case k.served == 0:
		k.say("the worker cannot be started: the server ends", "status", detail)
		k.finish(1)
		return
	case k.deaths < rareDeaths:
		pause = rarePause
	}
	if pause >= rarePause {
		k.post("the worker cannot be started: commands keep running, clients wait, and the keeper tries again", "status", detail)
	}
	k.deaths++
	k.due[dueStart] = k.now + pause
}

// takeSignals handles the signals that have arrived.
func (k *keeper) takeSignals() {
	n, _ := unix.Read(k.signals, k.text[:turn])
	for _, number := range k.text[:max(n, 0)] {
		switch sig := unix.Signal(number); {
		case sig == unix.SIGCHLD:
			if k.due[dueEnded] == 0 {
				k.due[dueEnded] = max(k.now, k.endedAt+endedInterval)
			}
		case sig == unix.SIGINT:
			k.stop(unix.SIGINT)
		case sig == unix.SIGTSTP:
			k.suspend()
		case sig == unix.SIGTERM, k.hangup != 0:
			k.stop(unix.SIGTERM)
		default:
			k.reload()
		}
	}
}

// stop ends the server. The worker does that as soon as it serves, and removes what the server has made. With a second signal
// before that, the keeper ends everything itself.
func (k *keeper) stop(sig unix.Signal) {
	again := k.stopping != 0
	k.stopping = int(sig)
	k.manager.Stopping()
	switch {
	case k.worker.ready != 0:
		k.stopWorker(sig)
	case again:
		k.finish(0)
	case k.worker.pid == 0:
		k.startToStop()
	default:
		k.allow(&k.worker, stopTime, NotReady)
	}
}

// startToStop starts a worker that ends the server. If that is not possible, the keeper ends everything itself.
func (k *keeper) startToStop() {
	k.due[dueStart] = 0
	if err := k.startPeer(&k.worker, k.program); err != nil {
		k.finish(0)
		return
	}
	k.number++
	k.allow(&k.worker, stopTime, NotReady)
}

// stopWorker tells the worker to end the server.
func (k *keeper) stopWorker(sig unix.Signal) {
	if Cause(k.worker.charge) != NotReady {
		k.allow(&k.worker, stopTime, NotReady)
	}
	unix.PidfdSendSignal(k.worker.pidfd, sig, nil, 0)
}

// finish ends all children and then the keeper. Their orphans become children of the keeper and are ended, too.
func (k *keeper) finish(status int) {
	k.status = status
	sig, begin := unix.SIGTERM, now()
	for {
		left := k.signalChildren(sig, func(pid int) bool { return pid != k.stays })
		elapsed := now() - begin
		switch {
		case left == 0:
			return
		case elapsed > termTime+killTime:
			k.say("processes could not be killed", "processes", left)
			return
		case elapsed > termTime:
			sig = unix.SIGKILL
		default:
			sig = 0
		}
		k.poll[0] = unix.PollFd{Fd: int32(k.signals), Events: unix.POLLIN}
		unix.Poll(k.poll[:1], finishPause)
		unix.Read(k.signals, k.text[:])
	}
}

// signalChildren sends a signal to some of the children, reaps those that have ended, and returns how many there were. It spares the children
// of the program that was this process before the server: they are in the session of the keeper, and all others are not.
func (k *keeper) signalChildren(sig unix.Signal, which func(pid int) bool) (count int) {
	session, _ := unix.Getsid(0)
	k.children(func(_, pid int) {
		if of, err := unix.Getsid(pid); err == nil && of == session || !which(pid) {
			return
		}
		count++
		if state, _ := exitOf(unix.P_PID, pid, 0); state == stateRunning {
			unix.Kill(-pid, sig) // a command leads a group
			unix.Kill(pid, sig)
		}
	})
	return count
}

// purge kills everything that the last worker has left. When a process ends, its children become children of the keeper, so
// it is repeated until there are none.
func (k *keeper) purge() {
	left := k.signalChildren(unix.SIGKILL, func(pid int) bool { return !k.isPeer(pid) })
	switch {
	case left == 0:
	case k.now > k.purgedBy:
		k.say("processes of a worker that has ended could not be killed", "processes", left)
	default:
		k.due[dueOrphans] = k.now + purgePause
	}
}

// reportEnded looks for children that have ended. The worker knows which of them are commands. Without a worker, those
// that were adopted after its death are orphans and are reaped.
func (k *keeper) reportEnded() {
	k.endedAt, k.due[dueEnded] = k.now, 0
	n := 0
	k.children(func(i, pid int) {
		if k.isPeer(pid) {
			return
		}
		if state, _ := exitOf(unix.P_PID, pid, unix.WNOWAIT); state != stateEnded {
			return
		}
		switch {
		case k.worker.ready != 0 && n < maxWords-1:
			n++
			k.out.words[n] = int32(pid)
		case k.worker.pid == 0 && i >= k.adopted:
			exitOf(unix.P_PID, pid, 0)
		}
	})
	if n > 0 {
		k.out.send(k.worker.socket, msgEnded, n, 0)
	}
	if n == maxWords-1 {
		k.due[dueEnded] = k.now + endedInterval
	}
}
