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

// restored starts a login shell from a snapshot. It reports false if that is not
// possible: there is no snapshot, or it leaves no room for the arguments.
func (s *start) restored() (child *proc.Process, ok bool, err error) {
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

// loginShell is the shell of a command, which is captured with the sandbox and
// environment of the command.
func (s *start) loginShell() *shellsnap.Shell {
	spec := s.spec
	spec.Arg0, spec.TTY, spec.PipeStdin = nil, false, false
	spec.OneStream = false // the captured state is read from standard output alone
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
	key.TTY, key.PipeStdin, key.OneStream = false, false, nil
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

// adopted says which environment changes of start-up files apply to a command:
// variables that the command was given by name stay, and variables that its policy
// removes do not come back.
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
	kept := environ.Build(names, &filter, nil, nil)
	return func(name string) bool {
		if _, given := p.Env[name]; given || (p.NetworkProxy != nil || managed(p)) && netproxy.Owns(name) {
			return false // ports differ from network to network
		}
		if p.EnvPolicy != nil {
			if _, given := p.EnvPolicy.Set[name]; given {
				return false
			}
		}
		_, set := snapshot.Set[name]
		return !set || slices.Contains(kept, name+"=")
	}
}
