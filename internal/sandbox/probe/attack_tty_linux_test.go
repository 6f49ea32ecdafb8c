package probe

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var ttyAttacks = []probe{
	{"tty", "", tty},
	{"tiocsti", "", tiocsti},
}

// tty prints facts about the terminal of this process.
func tty([]string) error {
	for fd := range 3 {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		fmt.Printf("isatty %d: %t\n", fd, err == nil)
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	fmt.Println("open /dev/tty:", outcome(err))
	if err != nil {
		fd = 0
	} else {
		defer unix.Close(fd)
	}
	if size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err != nil {
		fmt.Println("size:", outcome(err))
	} else {
		fmt.Printf("size: %dx%d\n", size.Col, size.Row)
	}
	sid, err := unix.Getsid(0)
	fmt.Println("session leader:", err == nil && sid == os.Getpid())
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil {
		fmt.Println("foreground:", outcome(err))
	} else {
		fmt.Println("foreground:", group == unix.Getpgrp())
	}
	return errQuiet
}

// tiocsti types nothing on the terminal: its pointer leads to no byte.
func tiocsti([]string) error {
	return reached(errnoOr(raw(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0)), unix.EFAULT)
}
