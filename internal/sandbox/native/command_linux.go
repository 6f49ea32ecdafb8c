package native

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

const (
	firstStdio    = 3 // the command's descriptors 0 to 2 are passed as these: see [proc.Launcher]
	maxDescriptor = 1<<32 - 1
	controlHeader = unix.SizeofCmsghdr
)

// runCommand executes the command as process 2, reports that, and waits for its end. The new process shares the memory of this
// one, which waits until the new process has executed the command or ended.
func (c *compiler) runCommand() {
	pid, child, over := c.cell(), c.label(), c.label()
	c.step(stepClone, "")
	c.call(unix.SYS_CLONE, number(unix.CLONE_VM|unix.CLONE_VFORK|uint(unix.SIGCHLD)), number(0)).into(pid)
	c.jumpEqual(pid.content(), everything, number(0), child)
	c.jump(over)
	c.place(child)
	c.becomeCommand()
	c.place(over)
	c.wait(pid)
}

// becomeCommand gives process 2 what the command has, and executes the command.
func (c *compiler) becomeCommand() {
	c.takeDescriptors()
	c.step(stepSession, "")
	c.call(unix.SYS_SETSID)
	if c.command.TTY {
		c.step(stepTerminal, "")
		c.call(unix.SYS_IOCTL, number(0), number(unix.TIOCSCTTY), number(0))
	}
	c.step(stepDescriptors, "")
	c.call(unix.SYS_CLOSE_RANGE, number(firstStdio), number(uint64(maxDescriptor)), number(unix.CLOSE_RANGE_CLOEXEC))
	c.step(stepDirectory, c.command.Dir)
	c.call(unix.SYS_CHDIR, c.text(c.command.Dir))
	send := c.prepareReport()
	report := func() {
		send()
		c.limitFiles()
	}
	if c.command.Refusal != "" {
		report()
		c.step(stepRefuse, "")
		text := c.command.Refusal + "\n"
		c.call(unix.SYS_WRITE, number(2), c.text(text), number(len(text))).mayFail()
		c.call(unix.SYS_EXIT_GROUP, number(stage.ExitRefused))
		return
	}
	c.execute(report)
}

// limitFiles gives the command its limit of open files. It comes behind the last call that opens a file and behind the report: the
// limit may be lower than the number of files that are open, and than that of all descriptors that processes of this user are sending.
func (c *compiler) limitFiles() {
	limit := c.limit.address()
	switch most := c.command.OpenFiles; {
	case most != 0:
		limit = c.numbers(most, most)
	case c.limit == 0:
		return
	}
	c.step(stepLimit, "")
	c.call(unix.SYS_PRLIMIT64, number(0), number(unix.RLIMIT_NOFILE), limit, number(0))
}

// takeDescriptors gives the command its 0, 1 and 2.
func (c *compiler) takeDescriptors() {
	c.step(stepDescriptors, "")
	stdin := number(firstStdio)
	if c.command.NoStdin {
		// The descriptor that was passed belongs to a mount of the host.
		fd, opened := c.cell(), c.label()
		c.call(unix.SYS_OPENAT, here, c.text("/dev/null"), number(unix.O_RDONLY|unix.O_CLOEXEC), number(0)).into(fd).mayFail()
		c.jumpEqual(fd.content(), signBit, number(0), opened)
		// /dev/null is hidden: a pipe without a writer. pipe2 stores two 32-bit numbers; as an argument, the cell's upper half is ignored.
		ends := c.room(16)
		c.call(unix.SYS_PIPE2, ends.address(), number(unix.O_CLOEXEC))
		c.call(callSet, ends.content()).into(fd)
		c.close(ends.at(4))
		c.place(opened)
		stdin = fd.content()
	}
	for i, from := range []value{stdin, number(firstStdio + 1), number(firstStdio + 2)} {
		c.call(unix.SYS_DUP3, from, number(i), number(0))
	}
}

// execute finds the program as [proc.FindProgram] does, and executes it.
func (c *compiler) execute(report func()) {
	argv := c.command.Argv
	if c.command.Arg0 != nil {
		argv = append([]string{*c.command.Arg0}, argv[1:]...)
	}
	arguments, environment := c.list(argv), c.list(c.command.Env)
	execve := func(program string) {
		report()
		c.step(stepExecute, program)
		c.call(unix.SYS_EXECVE, c.text(program), arguments.address(), environment.address())
	}
	name := c.command.Argv[0]
	if c.order.OwnProgram {
		report()
		c.step(stepExecute, name)
		c.call(unix.SYS_EXECVEAT, number(programFile), c.text(""), arguments.address(), environment.address(), number(unix.AT_EMPTY_PATH))
		return
	}
	if strings.Contains(name, "/") {
		c.step(stepProgram, fmt.Sprintf("program %q", name))
		c.candidate(name, nil)
		execve(name)
		return
	}
	search := proc.SearchPath(c.command.Env)
	refused := c.cell()
	c.call(callSet, number(int(unix.ENOENT))).into(refused)
	for folder := range strings.SplitSeq(search, ":") {
		program := folder + "/" + name
		if folder == "" {
			program = "./" + name
		}
		next := c.label()
		c.step(stepProgram, fmt.Sprintf("program %q in PATH %q", name, search))
		c.candidate(program, &lookup{next, refused})
		execve(program)
		c.place(next)
	}
	c.step(stepProgram, fmt.Sprintf("program %q in PATH %q", name, search))
	c.call(callFail, refused.content())
}

// A lookup goes on to the next candidate after an error. If a candidate exists but cannot be executed, that is the error if no
// other is found.
type lookup struct {
	next    label
	refused cell
}

// candidate checks whether a program can be executed. Without a lookup, an error ends the start; only if the program must
// not be executed, the kernel decides.
func (c *compiler) candidate(program string, l *lookup) {
	result := c.cell()
	denied, usable := c.label(), c.label()
	check := func(nr int, args ...value) {
		if l == nil {
			strict := c.label()
			c.call(nr, args...).into(result).mayFail()
			c.jumpEqual(result.content(), signBit, number(0), strict)
			c.jumpEqual(result.content(), everything, number(-int64(unix.EACCES)), usable)
			c.call(nr, args...) // again, to fail with this error; if it succeeds now, the program can be executed
			c.place(strict)
			return
		}
		fine := c.label()
		c.call(nr, args...).into(result).mayFail()
		c.jumpEqual(result.content(), signBit, number(0), fine)
		c.jumpEqual(result.content(), everything, number(-int64(unix.EACCES)), denied)
		c.jump(l.next)
		c.place(fine)
	}
	check(unix.SYS_STATX, here, c.text(program), number(0), number(unix.STATX_BASIC_STATS), c.statx.address())
	c.refuseStage(l)
	mode := c.statx.at(statxMode).content()
	format, directory := number(uint64(unix.S_IFMT)<<32), number(uint64(unix.S_IFDIR)<<32)
	if l == nil {
		c.jumpEqual(mode, format, directory, usable) // execve refuses it
	} else {
		c.jumpEqual(mode, format, directory, denied)
	}
	check(unix.SYS_FACCESSAT, here, c.text(program), number(unix.X_OK))
	if l != nil {
		c.jump(usable)
		c.place(denied)
		c.call(callSet, number(int(unix.EACCES))).into(l.refused)
		c.jump(l.next)
	}
	c.place(usable)
}

// refuseStage treats the stage as a program that does not exist. Process 2 is the stage until it executes the command, so a name in /proc/self
// can lead to it.
func (c *compiler) refuseStage(l *lookup) {
	same, other, during := c.label(), c.label(), c.steps[len(c.steps)-1]
	c.jumpEqual(c.statx.at(statxInode).content(), everything, number(c.order.StageIno), same)
	c.place(other)
	c.later = append(c.later, func() {
		c.step(during.kind, during.path)
		missing := c.label()
		if l != nil {
			missing = l.next
		}
		c.place(same)
		c.jumpEqual(c.statx.at(statxDevice).content(), everything, inStatx(c.order.StageDev), missing)
		c.jump(other)
		if l == nil {
			c.place(missing)
			c.call(callFail, number(int(unix.ENOENT)))
		}
	})
}

// prepareReport fills in the message by which process 2 tells the server that it is about to execute the command, with a
// descriptor of itself and the listeners. The returned function sends it.
func (c *compiler) prepareReport() (send func()) {
	c.step(stepReport, "")
	pid, self := c.cell(), c.cell()
	c.call(unix.SYS_GETPID).into(pid)
	c.call(unix.SYS_PIDFD_OPEN, pid.content(), number(0)).into(self)
	size := controlHeader + 4*(1+len(c.listeners))
	control := c.room(size + 8)
	binary.LittleEndian.PutUint64(c.data[control:], uint64(size))
	binary.LittleEndian.PutUint32(c.data[control+8:], unix.SOL_SOCKET)
	binary.LittleEndian.PutUint32(c.data[control+12:], unix.SCM_RIGHTS)
	for i, fd := range append([]cell{self}, c.listeners...) {
		c.call(callSet, fd.content()).into(control.at(controlHeader + 4*i)) // the next one overwrites the upper half
	}
	message, vector := c.room(unix.SizeofMsghdr), c.room(unix.SizeofIovec)
	c.pointTo(vector, c.constant(string([]byte{stage.ReportNative})))
	binary.LittleEndian.PutUint64(c.data[vector+8:], 1)
	c.pointTo(message.at(16), vector.address())
	binary.LittleEndian.PutUint64(c.data[message+24:], 1)
	c.pointTo(message.at(32), control.address())
	binary.LittleEndian.PutUint64(c.data[message+40:], uint64(size))
	return func() {
		c.step(stepReport, "")
		c.call(unix.SYS_SENDMSG, number(reportFile), message.address(), number(unix.MSG_NOSIGNAL))
	}
}

// wait reaps every process of the namespace until the command has ended, and ends in the same way. The kernel then kills
// all others, before the end of this process can be seen. The resources that they all have used are those of the
// children of this process, which its parent gets when it reaps this process.
func (c *compiler) wait(pid cell) {
	c.step(stepWait, "")
	again, over, executed := c.label(), c.label(), c.label()
	status, ended := c.cell(), c.cell()
	c.jumpEqual(value{isHeader, headerErrno}, everything, number(0), executed)
	c.call(unix.SYS_EXIT_GROUP, number(exitBroken)) // process 2 has reported why
	c.place(executed)
	// The server takes the end of the report as the proof that the command was executed. All other descriptors belong
	// to the command.
	c.call(unix.SYS_CLOSE_RANGE, number(0), number(uint64(maxDescriptor)), number(0))
	c.place(again)
	c.call(unix.SYS_WAIT4, number(-1), status.address(), number(unix.WALL), number(0)).into(ended)
	c.jumpEqual(ended.content(), everything, pid.content(), over)
	c.jump(again)
	c.place(over)
	c.call(callExitLike, status.content())
}
