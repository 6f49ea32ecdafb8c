package stage

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
)

// The command's descriptors 0 to 2 are passed as these: see [proc.Launcher].
const firstStdio = 3

// exitBroken is the exit status if the command is not executed. The report
// tells the server why.
const exitBroken = 125

func init() { reexec.Register(reexec.Sandbox, runHelper) }

// runHelper runs the stage in descriptor args[0], reports to descriptor args[1], and
// returns only after an error. It must be called while the program is being
// initialized: then it runs on the main thread, to which filters and sessions belong.
func runHelper(args []string) int {
	if unix.Gettid() != unix.Getpid() {
		fmt.Fprintln(os.Stderr, "tether: this helper was started too late")
		return exitBroken
	}
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "tether: this helper is started by tether itself")
		return exitBroken
	}
	stageFd, err1 := strconv.Atoi(args[0])
	reportFd, err2 := strconv.Atoi(args[1])
	if err1 != nil || err2 != nil {
		fmt.Fprintln(os.Stderr, "tether: this helper takes two descriptors")
		return exitBroken
	}
	err := run(stageFd, reportFd)
	if werr := send(reportFd, reportOf(err), nil); werr != nil {
		fmt.Fprintf(os.Stderr, "tether: %v (the report to the server failed: %v)\n", err, werr)
	}
	return exitBroken
}

func run(stageFd, reportFd int) error {
	if err := at.CloseOnExecFrom(firstStdio); err != nil {
		return fmt.Errorf("mark descriptors: %w", err)
	}
	encoded, err := io.ReadAll(io.NewSectionReader(os.NewFile(uintptr(stageFd), "stage"), 0, 1<<40))
	if err != nil {
		return fmt.Errorf("read the stage: %w", err)
	}
	stage, err := Decode(encoded)
	if err != nil {
		return err
	}
	if err := stage.finishMounts(); err != nil {
		return err
	}
	if err := stage.verify(); err != nil {
		return err
	}
	if err := stage.takeDescriptors(); err != nil {
		return err
	}
	if err := stage.takeSession(); err != nil {
		return err
	}
	if err := unix.Chdir(stage.Dir); err != nil {
		return &proc.StartError{Err: err, Detail: fmt.Sprintf("working directory %q", stage.Dir)}
	}
	program, err := proc.FindProgram(stage.Argv[0], stage.Env)
	if err != nil {
		return err
	}
	listeners, err := stage.listen()
	if err != nil {
		return err
	}
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	if err := load(stage.Filter); err != nil {
		return err
	}
	if err := ready(reportFd, stage.Session, listeners); err != nil {
		return err
	}
	if stage.Refusal != "" {
		unix.Write(2, []byte(stage.Refusal+"\n"))
		os.Exit(ExitRefused)
	}
	if err := stage.limitFiles(); err != nil {
		return err
	}
	argv := stage.Argv
	if stage.Arg0 != nil {
		argv = append([]string{*stage.Arg0}, argv[1:]...)
	}
	return proc.ExecError(syscall.Exec(program, argv, stage.Env), program)
}

// takeDescriptors gives the command its 0, 1 and 2.
func (s *Config) takeDescriptors() error {
	stdin := firstStdio
	if s.NoStdin {
		// The descriptor that was passed belongs to a mount of the host.
		var err error
		if stdin, err = nothing(); err != nil {
			return fmt.Errorf("open an empty standard input: %w", err)
		}
	}
	for i, from := range []int{stdin, firstStdio + 1, firstStdio + 2} {
		if err := unix.Dup3(from, i, 0); err != nil {
			return fmt.Errorf("take over descriptor %d: %w", i, err)
		}
	}
	return nil
}

// nothing opens an empty input: the sandbox's own /dev/null or, if that is hidden, a
// pipe without a writer.
func nothing() (int, error) {
	if fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		return fd, nil
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return -1, err
	}
	unix.Close(ends[1])
	return ends[0], nil
}

// takeSession makes the command the leader of its own session: Ctrl-C, job
// control and /dev/tty work as outside.
func (s *Config) takeSession() error {
	if !s.Session {
		return nil
	}
	if _, err := unix.Setsid(); err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	if s.TTY {
		if err := unix.IoctlSetInt(0, unix.TIOCSCTTY, 0); err != nil {
			return fmt.Errorf("take the terminal: %w", err)
		}
	}
	return nil
}

// limitFiles gives the command its limit of open files. It comes last: the stage may have more files open, and while processes of this
// user are sending more descriptors than the limit, the report would fail.
func (s *Config) limitFiles() error {
	if s.OpenFiles == 0 {
		return nil
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: s.OpenFiles, Max: s.OpenFiles}); err != nil {
		return fmt.Errorf("set the limit of open files: %w", err)
	}
	return nil
}

// load installs a filter for this thread, which executes the command.
func load(program []byte) error {
	if len(program) == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	filters := make([]unix.SockFilter, len(program)/unix.SizeofSockFilter)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filters[0])), len(program)), program)
	fprog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return fmt.Errorf("load the system call filter: %w", errno)
	}
	return nil
}

// ready reports to the server that the command is about to be executed. With a
// process namespace of its own, it sends descriptors of this process and of the first
// process in the namespace, because their pids differ outside. The listeners follow
// them.
func ready(reportFd int, namespace bool, listeners []int) error {
	var rights []byte
	if namespace {
		self, err := unix.PidfdOpen(unix.Getpid(), 0)
		if err != nil {
			return fmt.Errorf("name this process: %w", err)
		}
		init, err := unix.PidfdOpen(1, 0)
		if err != nil {
			return fmt.Errorf("name the first process: %w", err)
		}
		rights = unix.UnixRights(append([]int{self, init}, listeners...)...)
	}
	if err := send(reportFd, []byte{reportReady}, rights); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func send(fd int, message, rights []byte) error {
	return unix.Sendmsg(fd, message, rights, nil, unix.MSG_NOSIGNAL)
}
