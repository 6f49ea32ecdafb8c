package probe

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Parts of the kernel that no command needs.
var kernelAttacks = []probe{
	{"io-uring-enter", "", func([]string) error { return nowhere(unix.SYS_IO_URING_ENTER) }},
	{"io-uring-register", "", func([]string) error { return nowhere(unix.SYS_IO_URING_REGISTER) }},
	{"bpf", "", bpf},
	{"perf-event-open", "", perfEventOpen},
	{"fanotify", "", fanotify},
	{"kexec-load", "", kexecLoad},
	{"init-module", "", initModule},
	{"reboot", "", reboot},
	{"swapon", "", swapon},
	{"quotactl", "", quotactl},
}

// nowhere makes a call on a descriptor that cannot exist.
func nowhere(nr uintptr) error {
	return reached(errnoOr(raw(nr, ^uintptr(0), 0, 0, 0, 0, 0)), unix.EBADF, unix.EINVAL)
}

// bpf makes an array of one number.
func bpf([]string) error {
	const mapCreate, typeArray = 0, 2
	attr := struct{ mapType, keySize, valueSize, maxEntries uint32 }{typeArray, 4, 8, 1}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, mapCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// perfEventOpen opens a counter that counts nothing.
func perfEventOpen([]string) error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Bits: unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// fanotify opens a group that may refuse opens of other processes, without a
// mark.
func fanotify([]string) error {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// kexecLoad loads too many segments, with flags that do not exist.
func kexecLoad([]string) error {
	const segments, flags = 0xffff, 0xfff0
	return reached(errnoOr(raw(unix.SYS_KEXEC_LOAD, 0, segments, 0, flags)), unix.EINVAL)
}

// initModule loads an empty module.
func initModule([]string) error {
	return reached(unix.InitModule(nil, ""), unix.ENOEXEC)
}

// reboot passes none of the magic numbers that reboot the machine.
func reboot([]string) error {
	return reached(errnoOr(raw(unix.SYS_REBOOT, 0, 0, 0, 0)), unix.EINVAL)
}

// swapon passes no file name.
func swapon([]string) error {
	var empty [1]byte
	return reached(errnoOr(raw(unix.SYS_SWAPON, uintptr(unsafe.Pointer(&empty)), 0)), unix.ENOENT)
}

// quotactl passes no device.
func quotactl([]string) error {
	const getFormat = 0x800004 << 8
	var empty [1]byte
	return reached(errnoOr(raw(unix.SYS_QUOTACTL, getFormat, uintptr(unsafe.Pointer(&empty)), 0, 0)), unix.ENOENT, unix.ENOTBLK)
}
