package fork

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A view is what the kernel tells about a process.
type view struct {
	Argv, Env, Dir, Exe string
	Files               []string // "number target"
	Limit               string   // of open files
	Session, Terminal   string   // "own" if the process leads the session
	Blocked, Ignored    string
	Cgroup              string
	Mounts, User        string // namespaces
	Users, Groups       string // mappings
}

func inspect(t *testing.T, pid int) (v view) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", pid)
	read := func(name string) string {
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	link := func(name string) string {
		target, err := os.Readlink(dir + name)
		if err != nil {
			t.Error(err)
		}
		return target
	}
	v.Argv, v.Env, v.Dir, v.Exe = read("cmdline"), read("environ"), link("cwd"), link("exe")
	entries, err := os.ReadDir(dir + "fd")
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		v.Files = append(v.Files, entry.Name()+" "+link("fd/"+entry.Name()))
	}
	slices.Sort(v.Files)
	v.Limit = lineOf(read("limits"), "Max open files")
	stat := read("stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if v.Session = fields[3]; v.Session == strconv.Itoa(pid) && fields[2] == v.Session {
		v.Session = "own"
	}
	v.Terminal = fields[4]
	status := statusOf(t, pid)
	v.Blocked, v.Ignored = lineOf(status, "SigBlk:"), lineOf(status, "SigIgn:")
	v.Cgroup, v.Mounts, v.User = read("cgroup"), link("ns/mnt"), link("ns/user")
	v.Users, v.Groups = read("uid_map"), read("gid_map")
	return v
}

func statusOf(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// lineOf returns the line that begins with prefix, without it.
func lineOf(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return strings.Join(strings.Fields(rest), " ")
		}
	}
	return "missing"
}

// A station is a command that runs cat: it has ended its own start when it answers.
type station struct {
	*Command
	in, out *os.File
	theirs  []*os.File
}

// newStation makes a command whose descriptors 0 and 1 are pipes.
func newStation(t *testing.T) *station {
	t.Helper()
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &station{
		Command: &Command{
			Path: "/bin/cat", Argv: []string{"cat"}, Env: []string{"A=1"}, Dir: descriptor(dir), Cgroup: -1,
			Files: []int{descriptor(inRead), descriptor(outWrite), descriptor(null)},
		},
		in: inWrite, out: outRead, theirs: []*os.File{inRead, outWrite, null, dir},
	}
	t.Cleanup(func() {
		for _, file := range append(s.theirs, s.in, s.out) {
			file.Close()
		}
	})
	return s
}

// descriptor is the number of a file, which becomes blocking, as programs expect it.
func descriptor(file *os.File) (number int) {
	conn, err := file.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			number = int(fd)
			unix.SetNonblock(number, false)
		})
	}
	if err != nil {
		panic(err)
	}
	return number
}

// view starts the command, looks at it and ends it.
func (s *station) view(t *testing.T, start func(*Command) (Child, error)) view {
	t.Helper()
	child, err := start(s.Command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.in.WriteString("hello\n"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(s.out, make([]byte, len("hello\n"))); err != nil {
		t.Error(err)
	}
	v := inspect(t, child.Pid)
	for _, file := range s.theirs {
		file.Close()
	}
	s.in.Close()
	if rest, err := io.ReadAll(s.out); err != nil || len(rest) > 0 {
		t.Errorf("the rest of the output is %q, %v", rest, err)
	}
	if status := reap(t, child); !status.Exited() || status.ExitStatus() != 0 {
		t.Errorf("cat ended with %#x", status)
	}
	return v
}

// reap waits for the child.
func reap(t testing.TB, child Child) (status unix.WaitStatus) {
	t.Helper()
	if child.Pidfd >= 0 {
		var info unix.Siginfo
		if err := waitid(child.Pidfd, &info); err != nil {
			t.Errorf("the pidfd of %d: %v", child.Pid, err)
		}
		unix.Close(child.Pidfd)
	}
	for {
		_, err := unix.Wait4(child.Pid, &status, 0, nil)
		if err == nil {
			return status
		}
		if err != unix.EINTR {
			t.Errorf("wait for %d: %v", child.Pid, err)
			return 0
		}
	}
}

func waitid(pidfd int, info *unix.Siginfo) error {
	for {
		err := unix.Waitid(unix.P_PIDFD, pidfd, info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// openDescriptors lists the descriptors of this program.
func openDescriptors(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range names {
		if target, err := os.Readlink(name); err == nil { // fails for the descriptor of the list itself
			list = append(list, filepath.Base(name)+" "+target)
		}
	}
	return list
}

// children lists the children of this program.
func children(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	names, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range names {
		text, _ := os.ReadFile(name) // fails for a thread that has ended
		all.Write(text)
	}
	return all.String()
}
