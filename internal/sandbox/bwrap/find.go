package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Dirs are the directories in which bubblewrap is searched for. No request
// and no PATH adds to them.
var Dirs = []string{"/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"}

// Name is the name of the program.
const Name = "bwrap"

var (
	// ErrMissing means that bubblewrap is in none of the directories.
	ErrMissing = errors.New("bubblewrap is not installed")
	// ErrUnsafe means that another user could replace it.
	ErrUnsafe = errors.New("bubblewrap could be replaced by another user")
	// ErrOld means that it lacks an option that a sandbox needs.
	ErrOld = errors.New("bubblewrap is too old")
)

// Find returns the real path of bubblewrap in the first of dirs that has it.
func Find(dirs []string) (string, error) {
	for _, dir := range dirs {
		name, err := filepath.EvalSymlinks(filepath.Join(dir, Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("look for bubblewrap: %w", err)
		}
		return name, trusted(name)
	}
	return "", fmt.Errorf("%w (looked in %s)", ErrMissing, strings.Join(dirs, ", "))
}

// trusted refuses a program that a user other than its owner or root can
// change.
func trusted(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return fmt.Errorf("look at bubblewrap: %w", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%w: %s is not a program", ErrMissing, name)
	}
	for at := name; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("look at bubblewrap: %w", err)
		}
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0 // only owners can replace a file in it
		if info.Mode()&0o022 != 0 && !sticky || !ownerTrusted(info) {
			return fmt.Errorf("%w: %s is writable for others (%v)", ErrUnsafe, at, info.Mode())
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// needed are the options that a plan may use.
var needed = []string{"--args", "--perms", "--seccomp", "--remount-ro", "--cap-drop", "--die-with-parent"}

// checkTime is how long bubblewrap may take to describe itself.
const checkTime = 5 * time.Second

// A Tool is a bubblewrap that has all needed options.
type Tool struct {
	Path, Version string
	Descriptors   bool // it can bind the file behind a descriptor
}

// Check runs the program to find out its version and options.
func Check(ctx context.Context, name string) (Tool, error) {
	t := Tool{Path: name}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	ask := func(flag string) (string, error) {
		cmd := exec.CommandContext(ctx, name, flag)
		cmd.Env, cmd.Dir = []string{}, "/"
		text, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", name, flag, err)
		}
		return string(text), nil
	}
	help, err := ask("--help")
	if err != nil {
		return t, err
	}
	has := func(option string) bool {
		return strings.Contains(help, option+" ") || strings.Contains(help, option+"\n")
	}
	for _, option := range needed {
		if !has(option) {
			return t, fmt.Errorf("%w: %s has no %s", ErrOld, name, option)
		}
	}
	t.Descriptors = has("--bind-fd") && has("--ro-bind-fd")
	text, err := ask("--version")
	t.Version = strings.TrimSpace(text)
	return t, err
}
