//go:build amd64 || arm64

package keep

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	stateMagic = 0x74_6b656570657200 // "tkeeper"
	// stateVersion changes if a successor of another version would misunderstand the state. Further fields at the end
	// need no new version.
	stateVersion = 1
	stateHeader  = 4 // magic, version, number of fields, number of descriptors
	// maxState bounds the memory for a state: as many descriptors as a process can have.
	maxState = 1 << 28
)

// errState means that a state is not one of a keeper, or of a version that this program does not know.
var errState = errors.New("not the state of a keeper that this version understands")

// fields lists the numbers of a keeper's state. New ones are added at the end of the list, whatever they are.
func (k *keeper) fields() []*int {
	list := []*int{
		&k.program, &k.previous, &k.notice, &k.bell, &k.signals, &k.signalled, &k.json, &k.hasty, &k.beat, &k.hangup,
		&k.number, &k.deaths, &k.served, &k.cause, &k.detail, &k.bye, &k.stopping, &k.adopted, &k.endedAt,
		&k.worker.pid, &k.worker.pidfd, &k.worker.socket, &k.worker.given, &k.worker.ready,
		&k.worker.deadline, &k.worker.charge, &k.worker.killed,
	}
	for i := range k.due[:dueOrphans] {
		list = append(list, &k.due[i])
	}
	return append(list, &k.died, &k.purges, &k.purgedBy, &k.due[dueOrphans], &k.stays)
}

// save writes the state to a new memory file, for the program that replaces this one.
func (k *keeper) save() (fd int, err error) {
	fields := k.fields()
	state := append(make([]int64, 0, stateHeader+len(fields)+3*k.held), stateMagic, stateVersion, int64(len(fields)), int64(k.held))
	for _, field := range fields {
		state = append(state, int64(*field))
	}
	for _, e := range k.entries {
		if e.fd >= 0 {
			state = append(state, int64(e.slot), int64(e.which), int64(e.fd))
		}
	}
	if fd, err = unix.MemfdCreate("tether-keeper", 0); err != nil {
		return -1, err
	}
	for rest := unsafe.Slice((*byte)(unsafe.Pointer(&state[0])), 8*len(state)); len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			return closed(fd), err
		}
		rest = rest[n:]
	}
	return fd, nil
}

// load reads a state that save has written.
func (k *keeper) load(fd int) error {
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	if info.Size < 8*stateHeader || info.Size > maxState {
		return errState
	}
	state := make([]int64, info.Size/8)
	if n, err := unix.Pread(fd, unsafe.Slice((*byte)(unsafe.Pointer(&state[0])), 8*len(state)), 0); err != nil || n < 8*len(state) {
		return fmt.Errorf("read the state: %d of %d bytes: %w", n, info.Size, err)
	}
	count, held := state[2], state[3]
	rest := state[stateHeader:]
	if state[0] != stateMagic || state[1] != stateVersion || count < 0 || held < 0 || count > maxState || held > maxState || int64(len(rest)) != count+3*held {
		return errState
	}
	for i, field := range k.fields() {
		if int64(i) < count {
			*field = int(rest[i])
		}
	}
	k.worker.given = min(k.worker.given, 0) // a worker that was not given all is given all again
	k.limit = int(held)
	for e := rest[count:]; len(e) > 0; e = e[3:] {
		if !k.hold(int32(e[0]), int32(e[1]), int(e[2])) {
			return fmt.Errorf("slot %d: %w", e[0], errState)
		}
	}
	return nil
}
