package native

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// callNames are the system calls that a script may have.
var callNames = map[uint32]string{
	unix.SYS_BIND: "bind", unix.SYS_CAPGET: "capget", unix.SYS_CAPSET: "capset", unix.SYS_CHDIR: "chdir",
	unix.SYS_CLONE: "clone", unix.SYS_CLOSE: "close", unix.SYS_CLOSE_RANGE: "close_range", unix.SYS_DUP3: "dup3",
	unix.SYS_EXECVE: "execve", unix.SYS_EXECVEAT: "execveat", unix.SYS_EXIT_GROUP: "exit_group", unix.SYS_FACCESSAT: "faccessat", unix.SYS_FCHDIR: "fchdir",
	unix.SYS_FSCONFIG: "fsconfig", unix.SYS_FSMOUNT: "fsmount", unix.SYS_FSOPEN: "fsopen", unix.SYS_FSTATFS: "fstatfs",
	unix.SYS_GETPID: "getpid", unix.SYS_GETSOCKOPT: "getsockopt", unix.SYS_IOCTL: "ioctl", unix.SYS_LISTEN: "listen", unix.SYS_MKDIRAT: "mkdirat",
	unix.SYS_MKNODAT: "mknodat", unix.SYS_MOUNT_SETATTR: "mount_setattr", unix.SYS_MOVE_MOUNT: "move_mount",
	unix.SYS_OPENAT: "openat", unix.SYS_OPENAT2: "openat2", unix.SYS_OPEN_TREE: "open_tree", unix.SYS_PIDFD_OPEN: "pidfd_open", unix.SYS_PIPE2: "pipe2",
	unix.SYS_PIVOT_ROOT: "pivot_root", unix.SYS_PPOLL: "ppoll", unix.SYS_PRCTL: "prctl", unix.SYS_PRLIMIT64: "prlimit64",
	unix.SYS_READLINKAT: "readlinkat", unix.SYS_SECCOMP: "seccomp", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SETSID: "setsid",
	unix.SYS_SOCKET: "socket", unix.SYS_STATX: "statx", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_UMASK: "umask",
	unix.SYS_UMOUNT2: "umount2", unix.SYS_WAIT4: "wait4", unix.SYS_WRITE: "write",

	callCompare: "compare", callJump: "jump", callJumpEqual: "jump_equal", callSet: "set", callFail: "fail", callExitLike: "exit_like", callAdd: "add",
}

func callName(nr uint32) string {
	if name, ok := callNames[nr]; ok {
		return name
	}
	return fmt.Sprintf("call_%d", nr)
}
