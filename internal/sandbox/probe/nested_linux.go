package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var nestedProbes = []probe{
	{"nested", "PATHS…", nested},
	{"nested-cgroup", "", nestedCgroup},
}

// nested makes itself root of a user and mount namespace inside this one, where
// it has every capability, and tries to get rid of the mounts that protect paths:
// it makes / writable, unmounts each path, covers the directory around it with a
// copy that leaves out the mounts below, and writes there.
//
// It prints the result of each step, then "contained" if nothing could be
// uncovered or written, else "ESCAPED" and the paths, and fails.
func nested(paths []string) error {
	flags, err := mountFlags("/")
	if err != nil {
		return at("statfs", err)
	}
	var s script
	// If this fails, the rest is skipped: it would change the namespace
	// outside.
	entered := s.must("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNS)
	s.becomeRoot()
	remounted := s.remount("/", flags&^unix.MS_RDONLY)
	var attempts []pathSteps
	for _, path := range paths {
		attempts = append(attempts, s.attack(path))
	}
	results, err := s.run()
	if err != nil {
		return err
	}
	if errno := results[entered].errno; errno != 0 {
		fmt.Printf("unshare: %s\ncontained\n", outcome(errno))
		return errQuiet
	}
	fmt.Printf("remount /: %s\n", outcome(errnoOr(results[remounted].errno)))
	return conclude(attempts, results)
}

// conclude prints the results of the attempts, and the last line.
func conclude(attempts []pathSteps, results []result) error {
	var open []string
	for _, a := range attempts {
		unmounted, bound, written := results[a.umount].errno, results[a.bind].errno, results[a.create].errno
		if written == unix.ENOTDIR { // it is a file
			written = results[a.open].errno
		}
		fmt.Printf("umount %s: %s\n", a.path, outcome(errnoOr(unmounted)))
		fmt.Printf("bind %s: %s\n", filepath.Dir(a.path), outcome(errnoOr(bound)))
		fmt.Printf("write %s: %s\n", a.path, outcome(errnoOr(written)))
		if unmounted == 0 || written == 0 || bound == 0 && a.mounted {
			open = append(open, a.path)
		}
	}
	return printConclusion(open)
}

// printConclusion prints the last line of a nested probe.
func printConclusion(open []string) error {
	if len(open) > 0 {
		fmt.Println("ESCAPED", strings.Join(open, " "))
		return errPrinted
	}
	fmt.Println("contained")
	return errQuiet
}

// nestedCgroup makes itself root of a user, mount and cgroup namespace inside this one, by unshare and by clone. There it
// mounts each hierarchy of control groups and opens a file of it for writing, but writes nothing. Through these files
// root could freeze other processes of the machine and change limits, also its own.
//
// It prints the result of each step, then "contained" or "ESCAPED" and the hierarchies, as nested does.
func nestedCgroup([]string) error {
	const spaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // of a kernel without control groups
		return at("read", err)
	}
	var open []string
	for _, way := range []string{"unshare", "clone"} {
		var s script
		if way == "clone" {
			s.flags = spaces
		} else {
			s.must("unshare", unix.SYS_UNSHARE, spaces)
		}
		s.becomeRoot()
		attempts := s.mountCgroups(string(text))
		results, err := s.run()
		if err == nil && way == "unshare" {
			err = errnoOr(results[0].errno)
		}
		fmt.Printf("%s: %s\n", way, outcome(err))
		if err != nil {
			continue
		}
		for _, a := range attempts {
			mounted, opened := results[a.mount].errno, results[a.open].errno
			fmt.Printf("mount %s: %s\n", a.name, outcome(errnoOr(mounted)))
			if mounted != 0 {
				continue
			}
			fmt.Printf("open %s: %s\n", a.name, outcome(errnoOr(opened)))
			if opened == 0 {
				open = append(open, a.name)
			}
		}
	}
	return printConclusion(open)
}

// A cgroupSteps has the steps against one hierarchy of control groups.
type cgroupSteps struct {
	name        string
	mount, open int // steps
}

// mountCgroups adds steps that mount each hierarchy in the text of /proc/self/cgroup, one over the other, and open a file
// of it for writing.
func (s *script) mountCgroups(text string) (attempts []cgroupSteps) {
	const on = "/proc" // a directory that every sandbox has
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, ":")
		controllers, _, _ := strings.Cut(rest, ":")
		a := cgroupSteps{name: "cgroup " + controllers}
		kind, options := "cgroup", s.text(controllers)
		if controllers == "" {
			a.name, kind, options = "cgroup2", "cgroup2", 0
		}
		a.mount = s.try("mount", unix.SYS_MOUNT, s.text("none"), s.text(on), s.text(kind), 0, options)
		a.open = s.then(a.mount, "open", unix.SYS_OPENAT, atCWD, s.text(on+"/cgroup.procs"), unix.O_WRONLY|quick, 0)
		attempts = append(attempts, a)
	}
	return attempts
}

// becomeRoot adds the steps to be root in a new user namespace. If they fail, the
// capabilities stay.
func (s *script) becomeRoot() {
	for _, file := range []struct{ path, text string }{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/uid_map", fmt.Sprintf("0 %d 1", os.Geteuid())},
		{"/proc/self/gid_map", fmt.Sprintf("0 %d 1", os.Getegid())},
	} {
		fd := s.try("open", unix.SYS_OPENAT, atCWD, s.text(file.path), unix.O_WRONLY, 0)
		s.on(fd, "write", unix.SYS_WRITE, s.text(file.text), uintptr(len(file.text)))
	}
}

// atCWD is AT_FDCWD in a register.
const atCWD = ^uintptr(-unix.AT_FDCWD - 1)

// A pathSteps has the steps against one path.
type pathSteps struct {
	path                       string
	mounted                    bool // something is mounted there
	umount, bind, create, open int  // steps
}

// attack adds steps to uncover a path, to make and remove a file in it, and to open
// it for writing. The third is for a directory, the fourth for a file.
func (s *script) attack(path string) pathSteps {
	name := s.text(fmt.Sprintf("%s/.tether-probe-%d", path, os.Getpid()))
	around := s.text(filepath.Dir(path))
	a := pathSteps{path: path, mounted: isMountPoint(path)}
	a.umount = s.try("umount", unix.SYS_UMOUNT2, s.text(path), unix.MNT_DETACH)
	a.bind = s.try("mount", unix.SYS_MOUNT, around, around, 0, unix.MS_BIND, 0)
	a.create = s.try("create", unix.SYS_OPENAT, atCWD, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|quick, 0o600)
	s.then(a.create, "unlink", unix.SYS_UNLINKAT, atCWD, name, 0)
	a.open = s.try("open", unix.SYS_OPENAT, atCWD, s.text(path), unix.O_WRONLY|quick, 0)
	return a
}

// isMountPoint reports whether path is on another mount than its parent
// directory.
func isMountPoint(path string) bool {
	var inside, around unix.Statx_t
	err1 := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &inside)
	err2 := unix.Statx(unix.AT_FDCWD, filepath.Dir(path), 0, unix.STATX_MNT_ID, &around)
	return err1 == nil && err2 == nil && inside.Mnt_id != around.Mnt_id
}

// remount adds a step that changes the flags of one mount, not of its file
// system.
func (s *script) remount(path string, flags uintptr) int {
	return s.try("mount", unix.SYS_MOUNT, 0, s.text(path), 0, unix.MS_REMOUNT|unix.MS_BIND|flags, 0)
}

// mountFlags returns the flags that a remount must repeat to keep them.
func mountFlags(path string) (uintptr, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	// These have the same value for statfs and mount.
	const same = unix.ST_RDONLY | unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC | unix.ST_NOATIME | unix.ST_NODIRATIME
	flags := uintptr(st.Flags) & same
	if st.Flags&unix.ST_RELATIME != 0 {
		flags |= unix.MS_RELATIME
	}
	return flags, nil
}
