package mcprelay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// A Command is an MCP server to run on the executor. It runs without a sandbox.
type Command struct {
	Argv []string
	Dir  string // absolute path on the executor, or a file: URI; required, unless Server.Dir is set

	// Env is added to the few variables of the executor that servers inherit: PATH, HOME and
	// similar ones.
	Env map[string]string

	// RemoteEnv are names of further variables, with the values that the executor has.
	RemoteEnv []string
}

// inherited are the variables that a server with RemoteEnv gets from the executor besides those.
// Without RemoteEnv, the executor uses its own list.
var inherited = []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER", "__CF_USER_TEXT_ENCODING",
	"LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"}

// check refuses a server that could not be started as described.
func (s *Server) check() error {
	c := &s.Command
	if len(c.Argv) == 0 {
		return errors.New("no MCP server to start")
	}
	if c.Dir == "" && s.Dir == nil {
		return errors.New("executor stdio server requires an explicit cwd")
	}
	unicode := func(what string, texts ...string) error {
		if slices.ContainsFunc(texts, func(text string) bool { return !utf8.ValidString(text) }) {
			return fmt.Errorf("%s must be valid Unicode for remote MCP stdio", what)
		}
		return nil
	}
	if err := errors.Join(unicode("command", c.Argv[0]), unicode("argument", c.Argv[1:]...),
		unicode("environment variable name", c.RemoteEnv...)); err != nil {
		return err
	}
	for name, value := range c.Env {
		if err := errors.Join(unicode("environment variable name", name), unicode("environment variable value", value)); err != nil {
			return err
		}
	}
	return nil
}

// policy says which variables of the executor's environment the server gets.
func (c *Command) policy() *wire.EnvPolicy {
	p := &wire.EnvPolicy{Inherit: wire.InheritCore, IgnoreDefaultExcludes: true,
		Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}}
	for name, value := range c.Env {
		p.Set[name] = value
	}
	if len(c.RemoteEnv) > 0 {
		p.Inherit, p.IncludeOnly = wire.InheritAll, slices.Concat(inherited, c.RemoteEnv)
	}
	return p
}

// started numbers the servers of this program.
var started atomic.Uint64

// startTries is how many numbers are tried: in a session that was resumed, servers of an earlier
// program may have the first ones.
const startTries = 64

// start starts the server in a session.
func (s *Server) start(ctx context.Context, executor *client.Client) (p *client.Process, err error) {
	c, dir := &s.Command, s.Command.Dir
	if s.Dir != nil {
		if dir, err = s.Dir(executor); err != nil {
			return nil, err
		}
	}
	for range startTries {
		id := fmt.Sprintf("mcp-stdio-%d", started.Add(1))
		p, err = executor.Start(ctx, client.Command{ID: id, Argv: c.Argv, Dir: dir, Env: c.Env, EnvPolicy: c.policy(), Stdin: true})
		if !errors.Is(err, client.ErrProcessExists) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start MCP server %q: %w", c.Argv[0], err)
	}
	return p, nil
}
