//go:build amd64 || arm64

package fork

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/fork/nofile"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// shell is a command of a helper, with the helper's descriptors.
func shell(code string) *Command {
	return &Command{Path: "/bin/sh", Argv: []string{"sh", "-c", code}, Dir: -1, Cgroup: -1, Files: []int{0, 1, 2}}
}

// finish starts a command of a helper and waits for it.
func finish(s *Starter, c *Command) {
	child, err := s.Start(c)
	must(err)
	_, err = unix.Wait4(child.Pid, nil, 0, nil)
	must(err)
}

func init() {
	helpers["death signal"] = func() {
		runtime.LockOSThread()
		command := shell("trap 'echo got the signal; exit' TERM; echo ready; read line")
		command.DeathSignal = unix.SIGTERM
		_, err := NewStarter().Start(command)
		must(err)
		unix.Pause() // until it is killed
	}
	helpers["limit"] = func() {
		var own unix.Rlimit
		must(unix.Getrlimit(unix.RLIMIT_NOFILE, &own))
		fmt.Println("started with", nofile.Soft, "has", own.Cur)
		s := NewStarter()
		print := shell("ulimit -S -n; ulimit -H -n")
		finish(s, print)
		own.Cur = 400
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &own))
		finish(s, print)
	}
	helpers["sibling"] = func() {
		command := shell("read line; exit 7")
		command.Sibling, command.DeathSignal = true, unix.SIGTERM
		s, plain := NewStarter(), NewStarter()
		child, err := s.Start(command)
		must(err)
		fmt.Println(child.Pid)
		command.Path, command.Note = "/none", new(Note)
		if _, err = s.Start(command); err == nil {
			fmt.Println("started")
		}
		fmt.Println(command.Note.Pid)
		finish(plain, shell("true"))
		fmt.Println("as any other child:", s.noClone3 == plain.noClone3)
	}
	helpers["private mounts"] = func() {
		for _, flags := range []uintptr{0, unix.CLONE_NEWNS} {
			command := shell("grep -c ' shared:' /proc/self/mountinfo")
			command.Namespaces = flags
			finish(NewStarter(), command)
		}
	}
	helpers["filter"] = func() {
		for _, row := range []struct {
			nr    uint32
			errno unix.Errno
		}{{unix.SYS_CLONE3, unix.ENOSYS}, {unix.SYS_CLOSE_RANGE, unix.EPERM}} {
			must(refuse(row.nr, row.errno))
			s := NewStarter()
			finish(s, shell("echo works"))
			fmt.Println(s.noClone3, s.noCloseRange)
		}
	}
}

// lines returns the lines of a helper that ends well.
func lines(t *testing.T, name, shell string, files ...*os.File) string {
	t.Helper()
	cmd, scanner := startHelper(t, name, shell, files...)
	var all []string
	for scanner.Scan() {
		all = append(all, scanner.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return strings.Join(all, "|")
}

func TestDeathSignal(t *testing.T) {
	in, out, err := os.Pipe() // so that the child ends with the test in any case
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	cmd, scanner := startHelper(t, "death signal", `exec "$0" <&3 3<&-`, in)
	if !scanner.Scan() || scanner.Text() != "ready" {
		t.Fatalf("the child says %q", scanner.Text())
	}
	cmd.Process.Kill()
	if !scanner.Scan() || scanner.Text() != "got the signal" {
		t.Errorf("the child says %q", scanner.Text())
	}
	cmd.Wait()
}

// A program gets the limit of open files that this program was started with, unless this program
// has set another.
func TestLimitOfOpenFiles(t *testing.T) {
	want := "started with 300 has 999|300|1000|400|1000"
	if got := lines(t, "limit", `ulimit -S -n 300; ulimit -H -n 1000; exec "$0"`); got != want {
		t.Errorf("the helper printed %q, want %q", got, want)
	}
	want = "started with 1000 has 1000|1000|1000|400|1000"
	if got := lines(t, "limit", `ulimit -n 1000; exec "$0"`); got != want {
		t.Errorf("the helper printed %q, want %q", got, want)
	}
}

// A sibling is a child of the program's parent, which here is the test, whether or not its start
// succeeds.
func TestSibling(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	cmd, scanner := startHelper(t, "sibling", `exec "$0" <&3 3<&-`, in)
	defer cmd.Wait()
	var pids [2]int
	for i := range pids {
		if !scanner.Scan() {
			t.Fatal("the helper has ended")
		}
		if pids[i], err = strconv.Atoi(scanner.Text()); err != nil {
			t.Fatal(err)
		}
	}
	if !scanner.Scan() || scanner.Text() != "as any other child: true" {
		t.Errorf("the helper says %q", scanner.Text())
	}
	out.Close()
	for i, want := range []int{7, exitCode} {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pids[i], &status, unix.WALL, nil); err != nil || status.ExitStatus() != want {
			t.Errorf("sibling %d: %v, %#x, want %d", i, err, status, want)
		}
	}
}

// In a mount namespace of its own, a program does not get the mounts of other processes.
func TestPrivateMounts(t *testing.T) {
	need.Root(t, "to make mounts shared")
	got := lines(t, "private mounts", `exec unshare --mount --propagation shared "$0"`)
	if shared, private, _ := strings.Cut(got, "|"); shared == "0" || private != "0" {
		t.Errorf("mounts that are shared before and after: %s", got)
	}
}

// Starts work under a filter of system calls, as containers have.
func TestFilteredCalls(t *testing.T) {
	want := "works|true false|works|true true"
	if got := lines(t, "filter", `exec "$0"`); got != want {
		t.Errorf("the helper printed %q, want %q", got, want)
	}
}

// refuse makes a system call fail in all threads of this program.
func refuse(nr uint32, errno unix.Errno) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const loadNumber, isEqual, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	code := []unix.SockFilter{
		{Code: loadNumber},
		{Code: isEqual, K: nr, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(code)
	if failed != 0 {
		return failed
	}
	return nil
}

// FuzzArguments checks that a program gets each byte of its arguments and environment.
func FuzzArguments(f *testing.F) {
	f.Add("one\ntwo words\n\n\xff", "A=1\nB\n=")
	f.Fuzz(func(t *testing.T, args, env string) {
		const most = 1 << 16 // the kernel limits an argument to 128 KiB
		if strings.ContainsRune(args+env, 0) || len(args)+len(env) > most {
			t.Skip()
		}
		own := newStation(t)
		own.Path, own.Argv = "/bin/sh", append([]string{"sh", "-c", "read line; echo $line; read line", "name"}, strings.Split(args, "\n")...)
		own.Env = strings.Split(env, "\n")
		child, err := newStarter(t).Start(own.Command)
		if err != nil {
			t.Fatal(err)
		}
		own.in.WriteString("hello\n")
		if line, err := bufio.NewReader(own.out).ReadString('\n'); line != "hello\n" {
			t.Errorf("the program says %q, %v", line, err)
		}
		v := inspect(t, child.Pid)
		own.in.Close()
		reap(t, child)
		if want := strings.Join(own.Argv, "\x00") + "\x00"; v.Argv != want {
			t.Errorf("arguments %q, want %q", v.Argv, want)
		}
		if want := strings.Join(own.Env, "\x00") + "\x00"; v.Env != want {
			t.Errorf("environment %q, want %q", v.Env, want)
		}
	})
}
