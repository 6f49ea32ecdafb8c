package launch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/internal/environ"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/shellsnap"
	"github.com/tetherexec/tether/wire"
)

// fromSnapshot starts the command in a shell that restores a snapshot. ok is false if
// that is not possible: there is no snapshot, or it leaves no room for the arguments.
func (s *start) fromSnapshot() (child *proc.Process, ok bool, err error) {
	spec := s.spec
	snapshot := s.launcher.snapshots.Get(s.ctx, snapshotKey(s.command, spec), s.loginShell())
	if snapshot == nil {
		return nil, false, nil
	}
	argv, env := snapshot.Restore(spec.Argv, adopted(s.command.params, snapshot))
	spec.Argv, spec.Env = argv, slices.Concat(spec.Env, env)
	child, err = s.exec(s.ctx, spec, nil)
	return child, !errors.Is(err, syscall.E2BIG), err
}

// loginShell is the shell whose state is captured if there is no snapshot yet. It runs
// in the sandbox of the command, with the command's environment.
func (s *start) loginShell() *shellsnap.Shell {
	spec := s.spec
	spec.Arg0, spec.TTY, spec.PipeStdin = nil, false, false
	spec.OneStream = false // the state is read from standard output alone
	spec.Exited = nil      // the command itself exits later
	return &shellsnap.Shell{
		Kind: s.command.snapshot.Kind, Path: s.command.snapshot.Path, Env: spec.Env,
		Start: func(ctx context.Context, argv []string, sink proc.Sink) (*proc.Process, error) {
			spec.Argv = argv
			return s.exec(ctx, spec, sink)
		},
		Left: s.launcher.owner.Keep,
	}
}

// decisiveVariables are the variables that determine which start-up files a shell reads and
// what a sandbox allows. Other variables may differ between commands that share a
// snapshot.
var decisiveVariables = []string{"HOME", "ZDOTDIR", "BASH_ENV", "ENV", "POSIXLY_CORRECT", "TMPDIR", "SSL_CERT_FILE"}

// snapshotKey differs for commands that must not share a snapshot. Above all, state
// that a shell could create in one sandbox must not reach a command in another.
func snapshotKey(c *Command, spec proc.Spec) string {
	key := *c.params
	key.ProcessID, key.Metadata, key.Arg0, key.Retry, key.Size = "", nil, nil, nil, nil
	key.TTY, key.PipeStdin, key.OneStream, key.Limits = false, false, nil, nil
	if key.NetworkProxy != nil {
		proxy := *key.NetworkProxy
		proxy.AuditMetadata, proxy.ExecutionID = wire.AuditMetadata{}, nil // they differ from command to command
		key.NetworkProxy = &proxy
	}
	key.Argv = []string{string(c.snapshot.Kind), c.cwd}
	key.Env = map[string]string{}
	for _, entry := range spec.Env {
		if name, value, _ := strings.Cut(entry, "="); slices.Contains(decisiveVariables, name) {
			key.Env[name] = value
		}
	}
	return encode(key)
}

// adopted says which variables of a command the snapshot may set or unset. Three kinds
// stay as they are: those that the client gave the command by name, those that lead to
// the command's own proxies, and those that the command's policy removes.
func adopted(p *wire.StartParams, snapshot *shellsnap.Snapshot) func(name string) bool {
	filter := wire.EnvPolicy{Inherit: wire.InheritAll, IgnoreDefaultExcludes: true}
	if p.EnvPolicy != nil {
		filter = *p.EnvPolicy
		filter.Inherit, filter.Set = wire.InheritAll, nil
	}
	names := make([]string, 0, len(snapshot.Set))
	for name := range snapshot.Set {
		names = append(names, name+"=")
	}
	kept := environ.Build(names, &filter, nil, nil) // those that the policy does not remove
	return func(name string) bool {
		if _, given := p.Env[name]; given || (p.NetworkProxy != nil || managed(p)) && netproxy.Owns(name) {
			return false // the ports of proxies differ from command to command
		}
		if p.EnvPolicy != nil {
			if _, given := p.EnvPolicy.Set[name]; given {
				return false
			}
		}
		_, set := snapshot.Set[name]
		return !set || slices.Contains(kept, name+"=") // not set: the snapshot unsets it
	}
}
