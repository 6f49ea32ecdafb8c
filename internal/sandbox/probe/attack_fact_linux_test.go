package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Facts that can be seen from inside.
var factAttacks = []probe{
	{"fds", "", inherited},
	{"status", "", status},
	{"sigmask", "", sigmask},
	{"listproc", "", listProc},
	{"netdev", "", netDev},
}

// inherited prints the descriptors that this program was started with, on one
// line. Descriptors that the program opened itself are close-on-exec, and
// inherited ones are not.
func inherited([]string) error {
	names, err := readDirNames("/proc/self/fd")
	if err != nil {
		return err
	}
	var fds []int
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			return err
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return printNumbers(fds)
}

// listProc prints the processes in /proc, on one line.
func listProc([]string) error {
	names, err := readDirNames("/proc")
	if err != nil {
		return err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return printNumbers(pids)
}

func printNumbers(numbers []int) error {
	slices.Sort(numbers)
	fmt.Println(strings.Trim(fmt.Sprint(numbers), "[]"))
	return errQuiet
}

// status prints the identity and the privileges of this process.
func status([]string) error {
	err := printStatus("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
	if err != nil {
		return err
	}
	for _, name := range []string{"uid_map", "gid_map", "setgroups"} {
		text, err := readText("/proc/self/" + name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			fmt.Printf("%s: %s\n", name, strings.Join(strings.Fields(line), " "))
		}
	}
	return errQuiet
}

// sigmask prints the signals that are blocked and ignored, as masks. The Go runtime
// unblocks a few of the blocked ones, and handles the ignored ones except HUP, INT
// and the signals of job control. So the inherited state of PIPE cannot be seen.
func sigmask([]string) error {
	if err := printStatus("SigBlk", "SigIgn"); err != nil {
		return err
	}
	return errQuiet
}

// printStatus prints some lines of /proc/self/status as "KEY: VALUE".
func printStatus(keys ...string) error {
	text, err := readText("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if slices.Contains(keys, key) {
			fmt.Printf("%s: %s\n", key, strings.TrimSpace(value))
		}
	}
	return nil
}

// netDev prints the network interfaces, on one line.
func netDev([]string) error {
	text, err := readText("/proc/net/dev")
	if err != nil {
		return err
	}
	var names []string
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(line, ":"); ok { // the two header lines have none
			names = append(names, strings.TrimSpace(name))
		}
	}
	slices.Sort(names)
	fmt.Println(strings.Join(names, " "))
	return errQuiet
}

func readText(path string) (string, error) {
	b, err := os.ReadFile(path)
	return string(b), bare(err)
}

func readDirNames(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, bare(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return names, bare(err)
}

// bare returns the failed call of an error of package os.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return at(e.Op, e.Err)
	}
	return err
}
