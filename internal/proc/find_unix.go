//go:build linux || darwin

package proc

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is the search path for a bare name when the child has no PATH.
const defaultPath = "/bin:/usr/bin"

// A startPoint is where a child begins: its directory, as an open descriptor, and the
// path of its program relative to that.
type startPoint struct {
	dir     int // a descriptor
	program string
}

func (p startPoint) close() { unix.Close(p.dir) }

// find opens the directory and finds the program, so that the error can say which
// of them is missing.
func find(spec Spec) (startPoint, error) {
	name := spec.Dir
	if name == "" {
		name = "."
	}
	dir, err := openRetrying(name, openDirectory|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err == nil {
		if err = unix.Faccessat(dir, ".", unix.X_OK, 0); err != nil {
			unix.Close(dir)
		}
	}
	if err != nil {
		return startPoint{}, &StartError{err, fmt.Sprintf("working directory %q", spec.Dir)}
	}
	program, err := findProgram(dir, spec.Argv[0], spec.Env)
	if err != nil {
		unix.Close(dir)
		return startPoint{}, err
	}
	return startPoint{dir, program}, nil
}

func openRetrying(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// FindProgram returns the path of a program as seen from the current directory,
// for a process with this environment.
func FindProgram(name string, env []string) (string, error) {
	return findProgram(unix.AT_FDCWD, name, env)
}

// findProgram follows execvp: the first candidate that can be executed wins. If a
// candidate exists but cannot be executed, that is the error.
func findProgram(dir int, name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(dir, name); err != nil && err != unix.EACCES { // for EACCES, exec itself decides
			return "", &StartError{err, fmt.Sprintf("program %q", name)}
		}
		return name, nil
	}
	path := SearchPath(env)
	var result error = unix.ENOENT
	for _, folder := range strings.Split(path, ":") {
		candidate := folder + "/" + name
		if folder == "" {
			candidate = "./" + name
		}
		switch err := executable(dir, candidate); err {
		case nil:
			return candidate, nil
		case unix.EACCES:
			result = err
		}
	}
	return "", &StartError{result, fmt.Sprintf("program %q in PATH %q", name, path)}
}

// SearchPath returns where the program of a process with this environment is searched for.
func SearchPath(env []string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			return value
		}
	}
	return defaultPath
}

func executable(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, 0); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EACCES
	}
	return unix.Faccessat(dir, name, unix.X_OK, 0)
}

// ExecError adds to an error of fork or exec what it was about.
func ExecError(err error, program string) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err
	}
	switch errno {
	case unix.ENOENT: // the program itself existed a moment ago
		return &StartError{errno, fmt.Sprintf("the interpreter or loader of program %q", program)}
	case unix.EACCES, unix.ENOEXEC, unix.ENOTDIR, unix.ELOOP, unix.EPERM:
		return &StartError{errno, fmt.Sprintf("program %q", program)}
	}
	return &StartError{Err: errno}
}
