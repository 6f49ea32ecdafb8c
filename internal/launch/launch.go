package launch

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/environ"
	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/shellsnap"
	"github.com/tetherexec/tether/wire"
)

// Config is shared by all starts of a server.
type Config struct {
	Procs     *proc.Supervisor
	Confiner  *confine.Confiner // nil: a command that asks for a sandbox is refused
	Env       []string          // the server's environment
	Shell     string            // the user's login shell, for terminals
	Decisions *NetworkDecisions

	// Limits returns those of each command that asks for none, and the most that a client may ask for, as of now; nil: there are none.
	Limits func() proc.Limits

	// Total limits all commands together. No client gets more for one of them: control groups of version 1 refuse it.
	Total proc.Limits

	// Own reports whether the server listens on an address; nil: it listens
	// nowhere.
	Own func(netip.AddrPort) bool
}

// An Owner has what a Launcher needs to know about its session, and the functions of the session that it calls.
type Owner struct {
	Principal string // of the session's client

	// Ask sends a request to the session's client and returns its result. It
	// returns ErrNoClient if no client is attached, or if the client leaves before
	// the request is sent.
	Ask func(ctx context.Context, method string, params any) (wire.RawValue, error)

	// Tell sends the session's client a notification, if one is attached and not
	// far behind. It never waits.
	Tell func(method string, params any)

	// Decided is told each decision about a host that a command wants to reach; nil: it is not called. It must return at once.
	Decided func(wire.NetworkDecision)

	// Keep lets the processes that a command has left running live until the
	// session ends.
	Keep func(*proc.Process)
}

// A Launcher starts the commands of one session.
type Launcher struct {
	config    Config
	owner     Owner
	log       *slog.Logger
	snapshots *shellsnap.Cache
	networks  sync.WaitGroup // open networks of commands; none is added after Close was called
}

// New returns a launcher. Close it when the last command has ended.
func New(c Config, owner Owner, log *slog.Logger) *Launcher {
	if c.Decisions == nil {
		c.Decisions = new(NetworkDecisions)
	}
	return &Launcher{config: c, owner: owner, log: log, snapshots: shellsnap.NewCache(log)}
}

// Close waits until everything that was opened for commands is closed. Call it after
// the commands have ended.
func (l *Launcher) Close() {
	l.snapshots.Close()
	l.networks.Wait()
}

// A Command is a checked request to start a command.
type Command struct {
	params   *wire.StartParams
	cwd      string
	rules    *netpolicy.Rules // of its network proxy; nil: no proxy requested
	snapshot *shellsnap.Want  // nil: no snapshot requested

	Trace *Trace // nil: none. It is set before Start.

	// Exited is called once when the command has exited and it is known whether its sandbox was the cause; nil: it is not called. It
	// must return at once.
	Exited func(code int)

	setUp [2]time.Time // when its sandbox began to be made, and when the program was executed in it

	limits     proc.Limits // set by checkLimits
	bestEffort bool

	child      atomic.Pointer[proc.Process] // set before Start or Adopt returns, but not always before the command ends
	unconfined bool                         // its sandbox has nothing to enforce; set before Start returns
	denial     Denial                       // set before the exit is in the log

	bound atomic.Pointer[boundPolicy] // of its sandbox; nil: there is none, or it is not known or not kept
	hosts hostDecisions
}

// Check returns the command that a client asks for, or an error if the request is
// invalid.
func Check(p *wire.StartParams) (*Command, error) {
	rules, err := networkRules(p)
	if err != nil {
		return nil, err
	}
	cwd, err := nativeCwd(p)
	if err != nil {
		return nil, err
	}
	snapshot, err := shellsnap.Wanted(p.ShellSnapshot, p.Argv)
	if err != nil {
		return nil, err
	}
	if len(p.Argv) == 0 {
		return nil, ErrEmptyArgv
	}
	return &Command{params: p, cwd: cwd, rules: rules, snapshot: snapshot}, nil
}

// A Record is where a command is recorded, so that [Launcher.Adopt] of another program can take it over.
type Record struct {
	Slot   *arena.Slot                // see proc.Spec
	Policy func(encoded []byte) error // records a text for Found.Policy
}

// Start starts a command and returns when it runs. Its events go to log. ctx limits
// only the start: the command does not end with it. If record is nil, the command ends with this
// program.
func (l *Launcher) Start(ctx context.Context, c *Command, log *outlog.Log, record *Record) (child *proc.Process, err error) {
	defer func() { c.child.Store(child) }()
	if err := l.checkLimits(c); err != nil {
		return nil, err
	}
	s := &start{launcher: l, command: c, ctx: ctx, log: log, record: record, spec: l.spec(c)}
	if s.network, err = l.openNetwork(c, s.spec.Env, netproxy.Listen); err != nil {
		return nil, err
	}
	if s.network == nil {
		return s.run()
	}
	s.spec.Env = s.network.env
	if record != nil {
		s.spec.Listeners, err = s.network.copies()
	}
	if err == nil {
		child, err = s.run()
		closeAll(s.spec.Listeners)
	}
	if err != nil {
		s.network.close()
		return nil, err
	}
	l.endWith(child, s.network)
	return child, nil
}

// spec describes a command as it is without sandbox, network and snapshot.
func (l *Launcher) spec(c *Command) proc.Spec {
	spec := proc.Spec{
		Argv: c.params.Argv, Arg0: c.params.Arg0, Dir: c.cwd,
		Env:   environ.Build(l.config.Env, c.params.EnvPolicy, c.params.Env, c.params.Metadata),
		Owner: l.owner.Principal, Exited: c.Exited,
		TTY: c.params.TTY, PipeStdin: c.params.PipeStdin, OneStream: c.params.OneStream != nil && *c.params.OneStream,
	}
	spec.Env = c.traced(spec.Env)
	if spec.TTY {
		spec.Env = environ.WithShell(spec.Env, l.config.Shell)
	}
	if size := c.params.Size; size != nil {
		spec.Rows, spec.Cols = size.Rows, size.Cols
	}
	return spec
}

// A Trace is the trace that a command belongs to.
type Trace struct {
	wire.Trace      // as the environment of the command names it
	Life       Life // the span of the command's life; nil: it is not recorded
}

// A Life is a span that ends with a command.
type Life interface {
	End(session, process, program, kind string, code int)
}

// The variables that tell a command its trace.
const (
	traceparentVariable = "TRACEPARENT"
	tracestateVariable  = "TRACESTATE"
)

func isTrace(name string) bool { return name == traceparentVariable || name == tracestateVariable }

// traced adds the command's trace to its environment, unless the client has set one of the variables.
func (c *Command) traced(env []string) []string {
	if c.Trace == nil || setsTrace(c.params.Env) || c.params.EnvPolicy != nil && setsTrace(c.params.EnvPolicy.Set) {
		return env
	}
	kept := env[:0]
	for _, entry := range env {
		if name, _, _ := strings.Cut(entry, "="); !isTrace(name) { // the trace of the server
			kept = append(kept, entry)
		}
	}
	kept = append(kept, traceparentVariable+"="+c.Trace.Parent())
	if c.Trace.State != "" {
		kept = append(kept, tracestateVariable+"="+c.Trace.State)
	}
	return kept
}

func setsTrace(vars map[string]string) bool {
	_, parent := vars[traceparentVariable]
	_, state := vars[tracestateVariable]
	return parent || state
}

// A start holds the state of a start in progress.
type start struct {
	launcher *Launcher
	command  *Command
	ctx      context.Context
	log      *outlog.Log
	record   *Record // nil: the command ends with this program
	spec     proc.Spec
	network  *network // nil: the command uses the machine's network
}

// run starts the command, from its snapshot if there is one.
func (s *start) run() (*proc.Process, error) {
	if s.command.snapshot != nil {
		if child, ok, err := s.fromSnapshot(); ok {
			return child, err
		}
	}
	return s.exec(s.ctx, s.spec, nil)
}

// Same reports whether two starts have the same parameters, except for the retry
// mark.
func Same(a, b *wire.StartParams) bool {
	text := func(p wire.StartParams) string {
		p.Retry = nil
		return encode(p)
	}
	return text(*a) == text(*b)
}

// encode returns a text that differs if the parameters differ.
func encode(p wire.StartParams) string {
	b, err := wire.AppendNotification(nil, wire.MethodProcessStart, p)
	if err != nil {
		panic(err) // parameters that were decoded can be encoded
	}
	if s := p.Sandbox; s != nil { // AppendNotification omits these members of the draft form
		b = fmt.Appendf(b, "%s %t", s.Draft, s.EnforceManagedNetwork)
	}
	return string(b)
}
