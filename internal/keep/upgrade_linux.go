//go:build amd64 || arm64

package keep

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readyTime is how long a program may take to prove itself in an upgrade, and again to serve.
	readyTime = int(10 * time.Second)
	// drainTime is how long a worker may go on answering while another one waits to take over.
	drainTime = int(2 * time.Second)
	// probation is how long after an upgrade the previous program is kept. If the new one dies before that, the
	// previous one goes on.
	probation = int(30 * time.Second)
	// hastyProbation is the same with Config.Hasty.
	hastyProbation = int(500 * time.Millisecond)
)

// upgrade starts a spare: a worker of another program, which has to prove that it can read the state.
func (k *keeper) upgrade(program int) {
	if k.spare.pid != 0 || k.previous >= 0 || k.check.pid != 0 || k.stopping != 0 {
		unix.Close(program)
		k.tell(&k.worker, msgVerdict, int(msgUpgrade), int(Busy), 0)
		return
	}
	if err := k.startPeer(&k.spare, program); err != nil {
		unix.Close(program)
		k.tell(&k.worker, msgVerdict, int(msgUpgrade), int(NotStarted), errnoOf(err))
		return
	}
	k.candidate = program
	k.allow(&k.spare, readyTime, NotReady)
}

// reload lets the worker read its settings again, and replaces it if the file of the program has changed. The next worker may have read
// them too early, so it is told, too.
func (k *keeper) reload() {
	k.upgradeIfChanged()
	if k.worker.ready != 0 {
		k.tell(&k.worker, msgReload)
	}
	if k.worker.ready == 0 || k.spare.pid != 0 {
		k.hangups = 1
	}
}

// upgradeIfChanged upgrades if the file of the program is not the one that the worker runs.
func (k *keeper) upgradeIfChanged() {
	fd, err := unix.Open(k.command.name, unix.O_PATH, 0)
	if err != nil {
		k.say("cannot open the program for an upgrade", "errno", errnoOf(err))
		return
	}
	var there, running unix.Stat_t
	unix.Fstat(fd, &there)
	unix.Fstat(k.program, &running)
	if there.Dev == running.Dev && there.Ino == running.Ino && there.Mtim == running.Mtim {
		unix.Close(fd)
		return
	}
	k.upgrade(fd)
}

// drainWorker asks the worker to end, now that the spare has proved itself.
func (k *keeper) drainWorker() {
	if k.worker.pid == 0 {
		k.startNext()
		return
	}
	k.tell(&k.worker, msgDrain, drainTime/1e6)
	k.allow(&k.worker, drainTime, Replaced)
}

// takeOver makes the spare the worker.
func (k *keeper) takeOver() {
	k.worker, k.spare = k.spare, noPeer
	k.worker.given, k.worker.ready = 0, 0
	k.previous, k.program, k.candidate = k.program, k.candidate, -1
	k.number++
	k.cause, k.detail = int(Replaced), 0
	k.due[dueStart] = 0
	k.allow(&k.worker, readyTime, NotReady)
}

// spareEnded notes that the spare has failed.
func (k *keeper) spareEnded() {
	why, status := k.endPeer(&k.spare)
	k.candidate = closed(k.candidate)
	k.say("the new program has failed to prove itself, the running one goes on", "status", status)
	k.tell(&k.worker, msgVerdict, int(msgUpgrade), int(why), status)
}

// probationLeft is how long, in milliseconds, the previous program may have to take over again.
func (k *keeper) probationLeft() int {
	if k.previous < 0 {
		return 0
	}
	return (readyTime + probation) / 1e6
}

// renew begins to replace the keeper by the worker's program: a child of that program checks that it understands the
// table.
func (k *keeper) renew() {
	if k.check.pid != 0 || k.spare.pid != 0 || k.stopping != 0 {
		k.tell(&k.worker, msgVerdict, int(msgRenew), int(Busy), 0)
		return
	}
	file, err := k.save()
	if err == nil {
		k.check.pid, k.check.pidfd, err = k.command.start(k.command.check, file, k.program)
		unix.Close(file)
	}
	if err != nil {
		k.tell(&k.worker, msgVerdict, int(msgRenew), int(NotStarted), errnoOf(err))
		return
	}
	k.allow(&k.check, readyTime, NotReady)
}

// checkEnded replaces the keeper if the check has succeeded.
func (k *keeper) checkEnded() {
	why, status := k.endPeer(&k.check)
	if status == 0 {
		why, status = NotStarted, k.replace()
	}
	k.say("the keeper could not be replaced, and goes on", "status", status)
	k.tell(&k.worker, msgVerdict, int(msgRenew), int(why), status)
}
