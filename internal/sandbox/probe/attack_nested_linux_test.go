package probe

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Attacks by a command that has made itself root of its own namespaces.
var nestedAttacks = []probe{
	{"nested-proc", "", nestedProc},
}

// nestedProc mounts a new /proc in namespaces of its own, and uncovers the old
// one, where root could change settings of the whole machine. It opens a
// setting for writing, and writes nothing.
func nestedProc([]string) error {
	const setting = "/proc/sys/kernel/core_pattern"
	flags, err := mountFlags("/proc")
	if err != nil {
		return at("statfs", err)
	}
	// Only a child of an unshare would be in the new process namespace.
	s := script{flags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	s.becomeRoot()
	label := func(i int, text string) int { s.calls[i].name = text; return i }
	open := func(text string) int {
		return label(s.try("open", unix.SYS_OPENAT, atCWD, s.text(setting), unix.O_WRONLY|quick, 0), text)
	}
	attempts := []int{
		label(s.remount("/proc/sys", flags&^unix.MS_RDONLY), "remount /proc/sys"),
		open("open in the old"),
		s.try("mount /proc", unix.SYS_MOUNT, s.text("proc"), s.text("/proc"), s.text("proc"), 0, 0),
		open("open in the new"),
	}
	results, err := s.run()
	if f, ok := errors.AsType[*failure](err); ok && f.call == "clone" {
		fmt.Printf("clone: %s\ncontained\n", outcome(f.err))
		return errQuiet
	}
	if err != nil {
		return err
	}
	var opened []string
	for _, i := range attempts {
		errno := results[i].errno
		fmt.Printf("%s: %s\n", s.calls[i].name, outcome(errnoOr(errno)))
		if s.calls[i].nr == unix.SYS_OPENAT && errno == 0 {
			opened = []string{setting}
		}
	}
	return printConclusion(opened)
}
