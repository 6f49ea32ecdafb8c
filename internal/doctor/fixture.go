package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/wire"
)

// A fixture is what the checks attack: a workspace, files beside it that commands
// must not change, and a process that they must not reach.
type fixture struct {
	config Config
	dir    string
	intent *wire.Sandbox

	work    string // the workspace
	outside string // readable, not writable
	denied  string // neither
	deep    string // in the workspace, an ancestor of secret
	secret  string // a denied file
	planted string // a directory with a bwrap of our own

	socket   string // a listener is there; empty: the path is too long
	listener net.Listener
	victim   *proc.Process
}

const (
	deniedText = "denied by a rule of the doctor\n"
	// maxSocketPath is how long the address of a socket may be.
	maxSocketPath = 100
)

func newFixture(ctx context.Context, cfg Config) (f *fixture, err error) {
	dir, err := os.MkdirTemp("", "tether-doctor-")
	if err != nil {
		return nil, err
	}
	f = &fixture{config: cfg, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	f.work, f.outside = filepath.Join(dir, "work"), filepath.Join(dir, "outside")
	f.denied, f.planted = filepath.Join(dir, "denied"), filepath.Join(dir, "planted")
	f.deep = filepath.Join(f.work, "deep")
	f.secret = filepath.Join(f.deep, "er", "secret", "key")
	for _, d := range []string{f.work, f.outside, f.denied, f.planted, filepath.Dir(f.secret)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
	}{
		f.secret:                          {deniedText, 0o644},
		filepath.Join(f.denied, "key"):    {deniedText, 0o644},
		filepath.Join(f.denied, "tool"):   {"#!/bin/sh\nexit 0\n", 0o755},
		filepath.Join(f.planted, "bwrap"): {"#!/bin/sh\n: > '" + f.outside + "/planted-ran'\n", 0o755},
	} {
		if err := os.WriteFile(name, []byte(file.text), file.mode); err != nil {
			return nil, err
		}
	}
	if f.intent, err = f.makeIntent(); err != nil {
		return nil, err
	}
	if socket := filepath.Join(f.outside, "socket"); len(socket) <= maxSocketPath {
		if f.listener, err = net.Listen("unix", socket); err != nil {
			return nil, err
		}
		f.socket = socket
	}
	return f, f.startVictim(ctx)
}

// makeIntent returns a sandbox with a writable workspace, and a denied directory
// in it and beside it.
func (f *fixture) makeIntent() (*wire.Sandbox, error) {
	uri := func(path string) (wire.PathURI, error) { return wire.ParsePathURI(wire.PathToURI(path)) }
	special := func(kind string, access wire.Access) wire.SandboxEntry {
		return wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: kind}}, Access: access}
	}
	root, err := uri(f.work)
	if err != nil {
		return nil, err
	}
	entries := []wire.SandboxEntry{special(wire.SpecialRoot, wire.AccessRead), special(wire.SpecialProjectRoots, wire.AccessWrite)}
	for _, path := range []string{f.denied, filepath.Dir(f.secret)} {
		denied, err := uri(path)
		if err != nil {
			return nil, err
		}
		entries = append(entries, wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: denied}, Access: wire.AccessDeny})
	}
	return &wire.Sandbox{
		Cwd: &root, WorkspaceRoots: []wire.PathURI{root}, WindowsSandboxLevel: wire.WindowsDisabled,
		Permissions: wire.Permissions{
			Type: wire.PermissionsManaged, Network: wire.NetworkRestricted,
			FileSystem: wire.FileSystemPolicy{Type: wire.FileSystemRestricted, Entries: entries},
		},
	}, nil
}

// startVictim starts a process that only waits and must not be reached.
func (f *fixture) startVictim(ctx context.Context) (err error) {
	f.victim, err = f.config.Procs.Start(ctx, proc.Spec{
		Argv: []string{"cat"}, Dir: "/", Env: f.env(), PipeStdin: true, // it waits for input that never comes
	}, new(proc.Capture))
	if err != nil {
		return fmt.Errorf("start a process that the checks attack: %w", err)
	}
	return nil
}

func (f *fixture) close() error {
	if f.victim != nil {
		f.victim.Kill()
	}
	if f.listener != nil {
		f.listener.Close()
	}
	if err := os.RemoveAll(f.dir); err != nil {
		return fmt.Errorf("remove the files of the checks: %w", err)
	}
	return nil
}

// env returns the environment of commands, with directories to put before the
// PATH.
func (f *fixture) env(first ...string) []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	return append([]string{"PATH=" + strings.Join(append(first, path), ":"), "LC_ALL=C"}, f.config.Env...)
}

// run runs a command in the workspace.
func (f *fixture) run(ctx context.Context, argv ...string) (Outcome, error) {
	return f.config.Runner.Run(ctx, Command{Argv: argv, Dir: f.work, Env: f.env(), Intent: f.intent})
}

// probe runs a probe in the workspace.
func (f *fixture) probe(ctx context.Context, args ...string) (Outcome, error) {
	return f.run(ctx, reexec.Argv(f.config.Self, reexec.Probe, args...)...)
}

// contained runs a probe that decides by itself, because it has more than one way to escape.
func (f *fixture) contained(ctx context.Context, args ...string) (string, error) {
	o, err := f.probe(ctx, args...)
	switch {
	case err != nil:
		return "", fmt.Errorf("the command could not be started: %w", err)
	case o.Code == 0 && strings.HasSuffix(o.Output, "contained"):
		return "contained", nil
	}
	return "", fmt.Errorf("not contained: %s", strings.ReplaceAll(o.Output, "\n", "; "))
}

// refused runs a probe that must fail, with one of these reasons if any is
// given.
func (f *fixture) refused(ctx context.Context, args []string, reasons ...string) (detail string, err error) {
	o, err := f.probe(ctx, args...)
	if err != nil {
		return "", fmt.Errorf("the command could not be started: %w", err)
	}
	return judgeRefusal(o, args[0], reasons)
}

func judgeRefusal(o Outcome, name string, reasons []string) (string, error) {
	if o.Code == 0 {
		return "", errors.New("it was possible")
	}
	_, reason, found := strings.Cut(o.Output, name+": ")
	if o.Code != 1 || !found {
		return "", fmt.Errorf("the probe %s did not work: exit code %d, %q", name, o.Code, o.Output)
	}
	reason, _, _ = strings.Cut(reason, " ")
	for _, r := range reasons {
		if r == reason {
			return "refused: " + reason, nil
		}
	}
	if len(reasons) > 0 {
		return "", fmt.Errorf("it failed, but with %s and not with %s", reason, strings.Join(reasons, " or "))
	}
	return "refused: " + reason, nil
}

// absent returns an error if a path exists, and removes it.
func absent(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	os.RemoveAll(path) // the whole fixture is removed anyway
	return fmt.Errorf("%s was left behind", filepath.Base(path))
}
