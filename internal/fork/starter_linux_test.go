//go:build amd64 || arm64

package fork

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// modes are the ways to start a program: by the calls of a new kernel, and by what is left where
// some of them are missing.
var modes = []struct {
	name    string
	prepare func(*Starter)
}{
	{"all calls", func(*Starter) {}},
	{"no reserved descriptors", func(s *Starter) { s.slots.close() }},
	{"no close_range", func(s *Starter) { s.noCloseRange = true }},
	{"no clone3", func(s *Starter) { s.noClone3 = true }},
	{"neither", func(s *Starter) { s.noClone3, s.noCloseRange = true, true }},
}

func inAllModes(t *testing.T, test func(t *testing.T, s *Starter)) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			s := newStarter(t)
			mode.prepare(s)
			test(t, s)
		})
	}
}

func newStarter(t testing.TB) *Starter {
	s := NewStarter()
	t.Cleanup(s.Close)
	return s
}

// A program finds itself in the same state as if the standard library had started it.
func TestStateOfAProgram(t *testing.T) {
	signal.Ignore(unix.SIGUSR2)
	defer signal.Reset(unix.SIGUSR2)
	handled := make(chan os.Signal, 1)
	signal.Notify(handled, unix.SIGUSR1)
	defer signal.Stop(handled)
	for _, row := range []struct {
		name    string
		prepare func(t *testing.T, s *station)
	}{
		{"plain", func(*testing.T, *station) {}},
		{"with a death signal", func(_ *testing.T, s *station) { s.DeathSignal = unix.SIGTERM }},
		{"in the root directory", func(_ *testing.T, s *station) { s.Dir = -1 }},
		{"without environment", func(_ *testing.T, s *station) { s.Env = nil }},
		{"relative to its directory", func(t *testing.T, s *station) {
			if err := os.Symlink("/bin/cat", filepath.Join(s.theirs[3].Name(), "program")); err != nil {
				t.Fatal(err)
			}
			s.Path, s.Argv = "./program", []string{"cat", "-"}
		}},
		{"many files", func(_ *testing.T, s *station) {
			for range 3 * slotsEach {
				s.Files = append(s.Files, s.Files[2])
			}
		}},
		{"files in the place of others", func(_ *testing.T, s *station) {
			s.Files = append(s.Files, 2, 1, 0, s.Files[1], s.Files[0])
		}},
		{"in a cgroup", func(t *testing.T, s *station) {
			group := newCgroup(t)
			s.Cgroup, s.theirs = descriptor(group), append(s.theirs, group)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			reference := newStation(t)
			row.prepare(t, reference)
			want := reference.view(t, forkExec)
			inAllModes(t, func(t *testing.T, s *Starter) {
				own := newStation(t)
				row.prepare(t, own)
				if own.Cgroup >= 0 && s.noClone3 {
					t.Skip("needs clone3")
				}
				got := own.view(t, s.Start)
				for _, v := range []*view{&want, &got} {
					v.forget(reference.theirs)
					v.forget(own.theirs)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("the program has\n%+v\nand by the standard library\n%+v", got, want)
				}
			})
		})
	}
}

// forget removes the differences between two stations from a view: directories and pipes.
func (v *view) forget(files []*os.File) {
	dir := files[3].Name()
	v.Dir = strings.ReplaceAll(v.Dir, dir, "DIR")
	for i, file := range v.Files {
		number, target, _ := strings.Cut(file, " ")
		if kind, _, ok := strings.Cut(target, ":["); ok {
			target = kind
		}
		v.Files[i] = number + " " + target
	}
}

// newCgroup makes a cgroup below that of this program.
func newCgroup(t *testing.T) *os.File {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	for line := range strings.Lines(string(own)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				parent := filepath.Join(root, strings.TrimSpace(path))
				if _, err := os.Stat(parent + "/cgroup.procs"); err == nil {
					dir = filepath.Join(parent, fmt.Sprintf("fork-test-%d", os.Getpid()))
				}
			}
		}
	}
	if dir == "" {
		t.Skip("no cgroup file system of version 2 here")
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return group
}

// A program has no other descriptors than its own, although this program has some without
// close-on-exec, below and above its reserved ones.
func TestOnlyItsOwnDescriptors(t *testing.T) {
	leaks := []int{}
	defer func() {
		for _, fd := range leaks {
			unix.Close(fd)
		}
	}()
	for _, least := range []int{3, 5, firstSlot, 200, 3000} {
		fd, err := unix.FcntlInt(2, unix.F_DUPFD, least)
		if err != nil {
			t.Fatal(err)
		}
		leaks = append(leaks, fd)
	}
	inAllModes(t, func(t *testing.T, s *Starter) {
		if s.noCloseRange {
			t.Skip("needs close_range")
		}
		own := newStation(t)
		own.Files = append(own.Files, own.Files[0])
		numbers := []string{}
		for _, file := range own.view(t, s.Start).Files {
			number, _, _ := strings.Cut(file, " ")
			numbers = append(numbers, number)
		}
		if want := []string{"0", "1", "2", "3"}; !slices.Equal(numbers, want) {
			t.Errorf("the program has descriptors %v, want %v", numbers, want)
		}
	})
}

// However many descriptors this program has, the child copies only those below a small number.
func TestCopiesFewDescriptors(t *testing.T) {
	s := newStarter(t)
	const many = 500
	for range many {
		fd, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	newStation(t).view(t, s.Start)
	if !s.noClone3 && s.image.cloneArgs.flags&unix.CLONE_FILES == 0 {
		t.Error("the child has got a copy of all descriptors")
	}
	p, err := s.slots.place([]int{0, 1, 2, 0}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.slots.release(p)
	if !p.shared || p.bound > many/2 {
		t.Errorf("the table is shared: %v, and the child copies %d descriptors", p.shared, p.bound)
	}
}

// A start, also one that fails, leaves no descriptor and no child, and closes none of the caller's.
func TestStartLeavesNothing(t *testing.T) {
	inAllModes(t, func(t *testing.T, s *Starter) {
		own := newStation(t)
		before := openDescriptors(t)
		for i := range 10 {
			command := *own.Command
			command.Path, command.Argv = []string{"/none", "/bin/true"}[i%2], []string{"true"}
			if child, err := s.Start(&command); err == nil {
				reap(t, child)
			}
		}
		if after := openDescriptors(t); !slices.Equal(before, after) {
			t.Errorf("descriptors before: %q, after: %q", before, after)
		}
		if left := children(t); left != "" {
			t.Errorf("children left: %s", left)
		}
	})
}

func TestControllingTerminal(t *testing.T) {
	inAllModes(t, func(t *testing.T, s *Starter) {
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		fd := descriptor(slave)
		child, err := s.Start(&Command{
			Path: "/bin/sh", Argv: []string{"sh", "-c", "exec echo through the terminal >/dev/tty"},
			Dir: -1, Cgroup: -1, Files: []int{fd, fd, fd}, Terminal: true,
		})
		slave.Close()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		io.Copy(&text, master) // ends with an error when the child has ended
		if reap(t, child) != 0 || text.String() != "through the terminal\r\n" {
			t.Errorf("the terminal got %q", text.String())
		}
	})
}

// Each failure has the step and the errno; the errno is that of the standard library.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	plain, err := os.Open(write("file", "", 0o644))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	const closed = 1 << 20
	for _, row := range []struct {
		name    string
		prepare func(*Command)
		step    Step
		errno   syscall.Errno
	}{
		{"no program", func(c *Command) { c.Path = "/none" }, StepExec, unix.ENOENT},
		{"a directory", func(c *Command) { c.Path = "/" }, StepExec, unix.EACCES},
		{"below a file", func(c *Command) { c.Path = "/etc/passwd/x" }, StepExec, unix.ENOTDIR},
		{"a loop of links", func(c *Command) { c.Path = loop }, StepExec, unix.ELOOP},
		{"not executable", func(c *Command) { c.Path = write("data", "x", 0o644) }, StepExec, unix.EACCES},
		{"unknown format", func(c *Command) { c.Path = write("text", "echo", 0o755) }, StepExec, unix.ENOEXEC},
		{"no interpreter", func(c *Command) { c.Path = write("script", "#!/none\n", 0o755) }, StepExec, unix.ENOENT},
		{"a long argument", func(c *Command) { c.Argv = append(c.Argv, strings.Repeat("x", 1<<20)) }, StepExec, unix.E2BIG},
		{"a NUL", func(c *Command) { c.Argv = append(c.Argv, "a\x00b") }, StepExec, unix.EINVAL},
		{"no directory", func(c *Command) { c.Dir = descriptor(plain) }, StepDirectory, unix.ENOTDIR},
		{"a closed file", func(c *Command) { c.Files[1] = closed }, StepFiles, unix.EBADF},
		{"no terminal", func(c *Command) { c.Terminal = true }, StepTerminal, unix.ENOTTY},
	} {
		t.Run(row.name, func(t *testing.T) {
			command := newStation(t).Command
			row.prepare(command)
			if _, err := forkExec(command); !errors.Is(err, row.errno) {
				t.Errorf("the standard library says %v", err)
			}
			inAllModes(t, func(t *testing.T, s *Starter) {
				failed, ok := errors.AsType[*Error](start(s, command))
				if !ok || *failed != (Error{row.step, row.errno}) {
					t.Errorf("failed with %v, want %v", failed, &Error{row.step, row.errno})
				}
			})
		})
	}
}

// start returns only the error. The child, if any, is left to the test's failure.
func start(s *Starter, c *Command) error {
	_, err := s.Start(c)
	return err
}

func TestFewFilesAreRefused(t *testing.T) {
	for _, start := range []func(*Command) (Child, error){newStarter(t).Start, forkExec} {
		if _, err := start(&Command{Path: "/bin/true", Argv: []string{"true"}, Dir: -1, Cgroup: -1, Files: []int{0, 1}}); err != errFewFiles {
			t.Errorf("started with two descriptors: %v", err)
		}
	}
}

// A cgroup that the kernel refuses is an error, and the next start without one works.
func TestRefusedCgroup(t *testing.T) {
	inAllModes(t, func(t *testing.T, s *Starter) {
		own := newStation(t)
		own.Cgroup = own.Files[0] // not a cgroup
		err := start(s, own.Command)
		if failed, ok := errors.AsType[*Error](err); !ok || failed.Step != StepClone || s.noClone3 != (failed.Errno == unix.ENOSYS) {
			t.Errorf("failed with %v", err)
		}
		own.Cgroup = -1
		own.view(t, s.Start)
	})
}

// The child gives up if its parent died before it could ask for the death signal.
func TestParentDiedBefore(t *testing.T) {
	s := newStarter(t)
	own := newStation(t)
	own.DeathSignal = unix.SIGTERM
	place, err := s.slots.place(own.Files, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.slots.release(place)
	own.Dir = -1
	if err := s.image.compile(own.Command, place, false, false); err != nil {
		t.Fatal(err)
	}
	for i := range s.image.calls {
		if c := &s.image.calls[i]; c.nr == unix.SYS_GETPPID {
			c.want++
		}
	}
	note := &s.image.note
	s.image.prepareClone(own.Command, note, place.shared, false)
	child := Child{Pid: int(s.image.run(note)), Pidfd: int(s.image.pidfd)}
	if status := reap(t, child); status.ExitStatus() != exitCode {
		t.Errorf("the child ended with %#x", status)
	}
	if failed := note.Failure.Err(); failed == nil || *failed != (Error{StepDeathSignal, unix.ESRCH}) {
		t.Errorf("the child noted %v", failed)
	}
}

// A child has the namespaces that it asks for, and in its own user namespace only this user.
func TestNamespaces(t *testing.T) {
	for _, row := range []struct {
		name  string
		flags uintptr
	}{
		{"mounts", unix.CLONE_NEWNS},
		{"mounts and user", unix.CLONE_NEWNS | unix.CLONE_NEWUSER},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.flags&unix.CLONE_NEWUSER == 0 {
				need.Root(t, "to make a mount namespace")
			}
			reference := newStation(t)
			reference.Namespaces = row.flags
			want := reference.view(t, forkExec)
			plain := newStation(t)
			ours := plain.view(t, forkExec)
			inAllModes(t, func(t *testing.T, s *Starter) {
				own := newStation(t)
				own.Namespaces = row.flags
				got := own.view(t, s.Start)
				if got.Mounts == ours.Mounts || (got.User == ours.User) != (want.User == ours.User) {
					t.Errorf("namespaces %s %s, ours are %s %s", got.Mounts, got.User, ours.Mounts, ours.User)
				}
				if got.Users != want.Users || got.Groups != want.Groups {
					t.Errorf("users %q, groups %q, want %q and %q", got.Users, got.Groups, want.Users, want.Groups)
				}
			})
		})
	}
}

// In a user namespace of the child, no cgroup namespace can be made; the limit of this program stays as it is.
func TestNoCgroupNamespacesInside(t *testing.T) {
	const setting = "/proc/sys/user/max_cgroup_namespaces"
	if _, err := os.Stat(setting); err != nil {
		need.CannotRun(t, "%s: %v", setting, err)
	}
	before, err := os.ReadFile(setting)
	if err != nil {
		t.Fatal(err)
	}
	inAllModes(t, func(t *testing.T, s *Starter) {
		own := newStation(t)
		own.Namespaces, own.Argv = unix.CLONE_NEWUSER, []string{"cat", setting}
		child, err := s.Start(own.Command)
		if err != nil {
			t.Fatal(err)
		}
		inside := make([]byte, 16)
		n, err := own.out.Read(inside)
		if err != nil || string(inside[:n]) != "0\n" {
			t.Errorf("the limit inside is %q, %v", inside[:n], err)
		}
		reap(t, child)
		if after, err := os.ReadFile(setting); err != nil || string(after) != string(before) {
			t.Errorf("the limit outside was %q and is %q, %v", before, after, err)
		}
	})
}
