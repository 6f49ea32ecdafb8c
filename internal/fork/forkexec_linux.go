package fork

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// forkExec starts a program by the standard library. The pid is noted after the start.
func forkExec(c *Command) (Child, error) {
	if len(c.Files) < leastFiles {
		return Child{}, errFewFiles
	}
	switch {
	case c.Sibling:
		return Child{}, &Error{StepClone, unix.ENOSYS}
	case len(c.Limits) > 0:
		return Child{}, &Error{StepLimit, unix.ENOSYS}
	}
	for _, w := range c.Writes {
		if !w.Optional {
			return Child{}, &Error{w.Step, unix.ENOSYS}
		}
	}
	dir := "/"
	if c.Dir >= 0 {
		dir = fmt.Sprintf("/proc/self/fd/%d", c.Dir)
	}
	child := Child{Pidfd: -1}
	sys := &syscall.SysProcAttr{
		Setsid:       true,
		Setctty:      c.Terminal, // descriptor 0
		Pdeathsig:    c.DeathSignal,
		Unshareflags: c.Namespaces,
		PidFD:        &child.Pidfd,
		UseCgroupFD:  c.Cgroup >= 0,
		CgroupFD:     c.Cgroup,
	}
	if c.Namespaces&unix.CLONE_NEWUSER != 0 {
		uid, gid := unix.Geteuid(), unix.Getegid()
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	files := make([]uintptr, len(c.Files))
	for i, fd := range c.Files {
		files[i] = uintptr(fd)
	}
	var err error
	child.Pid, err = syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{Dir: dir, Env: c.Env, Files: files, Sys: sys})
	if err != nil {
		return Child{}, failed(StepExec, err)
	}
	if c.Note != nil {
		*c.Note = Note{Pid: int32(child.Pid)}
	}
	return child, nil
}
