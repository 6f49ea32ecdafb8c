package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/mountinfo"
)

var viewAttacks = []probe{{"view", "PATHS", view}}

// view prints all that a process can see and do, a line for each fact, and which files it can read and change. Two sandboxes of the
// same plan print the same.
func view(args []string) error {
	for _, f := range []func() error{viewProcess, viewDevices, viewMounts} {
		if err := f(); err != nil {
			return err
		}
	}
	for name := range strings.SplitSeq(args[0], ":") {
		viewPath(name)
	}
	return nil
}

func viewProcess() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if slices.Contains([]string{"Umask", "Uid", "Gid", "Groups", "NStgid", "NSpid", "NSpgid", "NSsid", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
			"NoNewPrivs", "Seccomp", "Seccomp_filters", "SigBlk", "SigIgn", "TracerPid"}, name) {
			fmt.Printf("status %s: %s\n", name, strings.Join(strings.Fields(value), " "))
		}
	}
	for _, name := range []string{"uid_map", "gid_map", "setgroups", "limits", "oom_score_adj", "net/dev"} {
		text, err := os.ReadFile("/proc/self/" + name)
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if strings.HasPrefix(name, "net/") {
			fmt.Printf("%s: %d lines, %v\n", name, len(lines), err)
			continue
		}
		for _, line := range lines {
			fmt.Printf("%s: %s, %v\n", name, strings.Join(strings.Fields(line), " "), err)
		}
	}
	for _, entry := range slices.Sorted(slices.Values(os.Environ())) {
		fmt.Println("environment:", entry)
	}
	names, err := readDirNames("/proc/self/ns")
	if err != nil {
		return err
	}
	for _, name := range names {
		link, _ := os.Readlink("/proc/self/ns/" + name)
		fmt.Printf("namespace %s: of the host: %v\n", name, strings.Contains(os.Getenv("HOST_NAMESPACES"), link))
	}
	cwd, err := os.Getwd()
	host, _ := os.Hostname()
	sid, _ := unix.Getsid(0)
	fmt.Printf("cwd %s %v, host %s, pid %d, parent %d, group %d, session %d, umask %o\n", cwd, err, host, os.Getpid(), os.Getppid(), unix.Getpgrp(), sid, unix.Umask(0))
	return inherited(nil)
}

func viewDevices() error {
	names, err := readDirNames("/dev")
	if err != nil {
		fmt.Println("devices:", err)
		return nil
	}
	for _, name := range names {
		var st unix.Stat_t
		err := unix.Lstat("/dev/"+name, &st)
		link, _ := os.Readlink("/dev/" + name)
		fmt.Printf("device %s: %o %d:%d -> %q, %v\n", name, st.Mode, unix.Major(st.Rdev), unix.Minor(st.Rdev), link, err)
	}
	return nil
}

// viewMounts prints the mounts that are not covered by others.
func viewMounts() error {
	text, err := os.ReadFile(mountinfo.Own)
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(text)) {
		points = append(points, strings.Fields(line)[4])
	}
	slices.Sort(points)
	for _, name := range slices.Compact(points) {
		var st unix.Statx_t
		if unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, 0, &st) != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
			continue
		}
		fmt.Printf("mount %s: %s\n", name, fileSystem(name))
	}
	return nil
}

// fileSystem describes the file system of a path, with the flags that restrict it.
func fileSystem(name string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(name, &fs); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%#x", fs.Type)
	for _, flag := range []struct {
		bit  int64
		name string
	}{{unix.ST_RDONLY, "ro"}, {unix.ST_NOSUID, "nosuid"}, {unix.ST_NODEV, "nodev"}, {unix.ST_NOEXEC, "noexec"}} {
		if fs.Flags&flag.bit != 0 {
			text += " " + flag.name
		}
	}
	return text
}

// viewPath prints what can be done with a path. What it changes it changes back.
func viewPath(name string) {
	var st unix.Stat_t
	err := unix.Lstat(name, &st)
	fmt.Printf("%s: mode %o, owner %d:%d, %v; %s\n", name, st.Mode, st.Uid, st.Gid, err, fileSystem(name))
	if st.Mode&unix.S_IFMT == unix.S_IFDIR || err != nil {
		names, err := readDirNames(name)
		fmt.Printf("%s: lists %q, %v\n", name, names, errnoOf(err))
		made := filepath.Join(name, "made-by-the-probe")
		err = os.Mkdir(made, 0o700)
		os.Remove(made)
		fmt.Printf("%s: make: %v\n", name, errnoOf(err))
	} else {
		_, err := os.ReadFile(name)
		fmt.Printf("%s: read: %v\n", name, errnoOf(err))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			f.Close()
		}
		fmt.Printf("%s: write: %v\n", name, errnoOf(err))
	}
	err = os.Chmod(name, os.FileMode(st.Mode&0o777))
	fmt.Printf("%s: chmod: %v\n", name, errnoOf(err))
	err = os.Rename(name, name+".moved")
	if err == nil {
		err = os.Rename(name+".moved", name)
	}
	fmt.Printf("%s: rename: %v\n", name, errnoOf(err))
}

// errnoOf returns the error without the path.
func errnoOf(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	if e, ok := err.(*os.LinkError); ok {
		return e.Err
	}
	return err
}
