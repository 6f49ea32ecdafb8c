package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/sandboxhost"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/statedir"
	"github.com/tetherexec/tether/wire"
)

// sandboxFlags say what a sandbox allows.
type sandboxFlags struct {
	profile  string
	flag     string // the name of the flag that profile comes from
	cwd      string
	writable []string
	network  bool
	machine  machineFlags
	hosts    hostFlags
	stateDir string
}

func (f *sandboxFlags) define(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.flag = "--profile"
	fs.StringVar(&f.profile, "profile", sandboxhost.ProfileWorkspaceWrite, "a `PROFILE` that says what is allowed: read-only, workspace-write (read\nall, write the workspace and /tmp), full (no sandbox), or a JSON file\nwith the sandbox or permissions object of a request")
	fs.StringVar(&f.cwd, "cwd", "", "`DIR` to start in, which is also the workspace (default: the current one)")
	fs.StringArrayVar(&f.writable, "writable", nil, "another `DIR` to allow writing to; can be repeated")
	fs.BoolVar(&f.network, "network", false, "allow the network")
	f.machine.define(fs)
	f.hosts.define(fs)
	fs.StringVar(&f.stateDir, "state-dir", "", "`PATH` of the state directory, the same as for `tether serve`\n(default $XDG_STATE_HOME/tether or ~/.local/state/tether)")
	group(fs, "Sandbox", "profile", "cwd", "writable", "network", userSockets, "allow-host", "deny-host", sandboxBackend, "state-dir")
}

// Names of flags.
const (
	userSockets    = "user-sockets"
	sandboxBackend = "sandbox-backend"
)

// machineFlags say how this machine confines commands. They are for the program that does it: a server, or a command without one.
type machineFlags struct {
	sockets bool
	backend choice
}

func (f *machineFlags) define(fs *pflag.FlagSet) {
	fs.BoolVar(&f.sockets, userSockets, false, "with the network: let sandboxed commands use the sockets of tmux, screen,\nssh-agent, gpg-agent and editors of this user, which act outside the sandbox")
	f.defineBackend(fs)
}

func (f *machineFlags) defineBackend(fs *pflag.FlagSet) {
	f.backend = choice{string(confine.BackendAuto), "BACKEND", nil}
	for _, b := range confine.Backends {
		f.backend.words = append(f.backend.words, string(b))
	}
	fs.Var(&f.backend, sandboxBackend, "what builds sandboxes: native (tether itself), bwrap (bubblewrap), or\nauto (the first of these that works)")
}

// given reports whether a flag is set that only the program can obey that confines commands.
func (f *machineFlags) given() (flag string, given bool) {
	switch {
	case f.sockets:
		return userSockets, true
	case f.backend.value != string(confine.BackendAuto):
		return sandboxBackend, true
	}
	return "", false
}

func (f *machineFlags) options(stateDir string) sandboxhost.Options {
	return sandboxhost.Options{StateDir: stateDir, UserSockets: f.sockets, Backend: confine.Backend(f.backend.value)}
}

// apply sets the same for a server.
func (f *machineFlags) apply(cfg *server.Config) {
	cfg.UserSockets = f.sockets
	if f.backend.value != string(confine.BackendAuto) {
		cfg.Backend = confine.Backend(f.backend.value)
	}
}

// workspace returns the absolute path of the directory to start in.
func (f *sandboxFlags) workspace() (string, error) {
	dir, err := filepath.Abs(f.cwd)
	if err != nil {
		return "", fmt.Errorf("find the current directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("--cwd %s: %w", f.cwd, cause(err))
	}
	if !info.IsDir() {
		return "", fmt.Errorf("--cwd %s: not a directory", f.cwd)
	}
	return dir, nil
}

// withStateDirFlag names the flag in an error about the state directory.
func withStateDirFlag(err error) error {
	if errors.Is(err, statedir.ErrUnusable) {
		return fmt.Errorf("%w or `--state-dir`", err)
	}
	if errors.Is(err, statedir.ErrInUse) {
		return fmt.Errorf("%w; give this one another directory with `--state-dir`", err)
	}
	return err
}

// cause returns a file error without its path, which the caller adds.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// intent returns the sandbox for a command that starts in cwd.
func (f *sandboxFlags) intent(cwd string) (*wire.Sandbox, error) {
	s, err := sandboxhost.Profile(f.profile, cwd)
	if err != nil {
		return nil, err
	}
	if !sandboxhost.IsProfile(f.profile) {
		if s, err = readProfile(f.profile, f.flag, s); err != nil {
			return nil, err
		}
	}
	if f.network && s.Permissions.Type != wire.PermissionsDisabled {
		s.Permissions.Network = wire.NetworkEnabled
	}
	for _, name := range f.writable {
		dir, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("find the current directory: %w", err)
		}
		if _, err := os.Stat(dir); err != nil {
			return nil, usageError{fmt.Errorf("--writable %s: %w", name, cause(err))}
		}
		if err := sandboxhost.AllowWriting(s, dir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// maxProfile bounds a profile: it is written by people, or copied from a request.
const maxProfile = 4 << 20

// readProfile reads a sandbox from a file, see sandboxhost.ParseProfile. flag is for errors.
func readProfile(name, flag string, around *wire.Sandbox) (*wire.Sandbox, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "./") {
		return nil, usageError{fmt.Errorf("unknown profile %q: expected %s, %s, %s or a JSON file",
			name, sandboxhost.ProfileReadOnly, sandboxhost.ProfileWorkspaceWrite, sandboxhost.ProfileFull)}
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("%s %s: %w", flag, name, cause(err))}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, cause(err))
	}
	if len(text) > maxProfile {
		return nil, fmt.Errorf("%s is larger than %d MiB: not a profile", name, maxProfile>>20)
	}
	return sandboxhost.ParseProfile(name, text, around)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
