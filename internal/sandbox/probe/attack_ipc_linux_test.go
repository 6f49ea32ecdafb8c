package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

var ipcAttacks = []probe{
	{"shm-create", "", func([]string) error { return sysV(unix.SYS_SHMGET, 4096, unix.SYS_SHMCTL) }},
	{"sem-create", "", func([]string) error { return sysV(unix.SYS_SEMGET, 1, unix.SYS_SEMCTL) }},
	{"msg-create", "", msgCreate},
	{"keyctl", "", keyctl},
	{"add-key", "", addKey},
	{"request-key", "", requestKey},
}

// sysV makes a private object and removes it.
func sysV(get, size, ctl uintptr) error {
	id, _, errno := unix.Syscall(get, unix.IPC_PRIVATE, size, unix.IPC_CREAT|0o600)
	if errno != 0 {
		return errno
	}
	if ctl == unix.SYS_SEMCTL { // semctl has the number of a semaphore as its second argument
		return at("remove", errnoOr(raw(ctl, id, 0, unix.IPC_RMID)))
	}
	return at("remove", errnoOr(raw(ctl, id, unix.IPC_RMID, 0)))
}

func msgCreate([]string) error {
	id, _, errno := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
	if errno != 0 {
		return errno
	}
	return at("remove", errnoOr(raw(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0)))
}

// keyctl makes a keyring in a child; it ends with the child.
func keyctl([]string) error {
	var s script
	s.try("keyctl", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, threadKeyring, 1)
	return s.last()
}

// threadKeyring is KEY_SPEC_THREAD_KEYRING in a register.
const threadKeyring = ^uintptr(-unix.KEY_SPEC_THREAD_KEYRING - 1)

// addKey puts a key in the keyring of a child.
func addKey([]string) error {
	var s script
	payload := []byte{'p'}
	s.try("add_key", unix.SYS_ADD_KEY, s.text("user"), s.text("tether-probe"), s.data(payload),
		unsafe.Sizeof(payload[0]), threadKeyring)
	return s.last()
}

// requestKey looks for a key that does not exist.
func requestKey([]string) error {
	kind, name := [...]byte{'u', 's', 'e', 'r', 0}, [...]byte{'t', 'e', 't', 'h', 'e', 'r', 0}
	errno := raw(unix.SYS_REQUEST_KEY, uintptr(unsafe.Pointer(&kind)), uintptr(unsafe.Pointer(&name)), 0, 0)
	return reached(errnoOr(errno), unix.ENOKEY)
}
