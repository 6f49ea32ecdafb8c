package confine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/internal/sandbox/placeholder"
	"github.com/tetherexec/tether/internal/sandbox/stage"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// SandboxType is the protocol's name for the sandbox of this backend.
const SandboxType = "linuxSeccomp"

// LateOutput is how long the decision about a denial waits for output after
// the exit.
const LateOutput = 20 * time.Millisecond

// maxBuilds is how many sandboxes may be built at the same time: each holds
// descriptors meanwhile.
const maxBuilds = 16

// Config configures a Confiner.
type Config struct {
	Procs *proc.Supervisor

	// Shared is a directory that the servers of this user share, Own one for this
	// server alone. Both exist, and no other user can write to them.
	Shared, Own string

	// Private returns paths that are hidden from every sandbox; nil: none. The first probe
	// calls it.
	Private func() []string

	// UserSockets lets commands with an open network use the sockets of other programs
	// of this user, see [sandbox.User].
	UserSockets bool

	// Backend chooses who builds the sandboxes; empty: BackendAuto.
	Backend Backend

	// BubblewrapDirs are the directories in which bubblewrap is searched for;
	// nil: [bwrap.Dirs].
	BubblewrapDirs []string

	// Self is the program that is started again as a helper; empty: this
	// program.
	Self string

	// Earlier says that another program of this server may have left placeholders.
	Earlier bool

	Log *slog.Logger // nil: no log
}

// A Confiner prepares confined commands. It probes this machine to find out which
// kind of sandbox works here.
type Confiner struct {
	config Config
	builds slots.Slots
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// The first probe sets these, see open. All callers wait for a probe first.
	self    program
	private []string      // the paths of Config.Private, and their real paths
	user    *sandbox.User // nil: the sockets of the user are not hidden
	ledger  *placeholder.Ledger
	masks   masks

	stageImage      *os.File // the stage of native sandboxes, and its identity
	stageDev        uint64
	stageIno        uint64
	lastCapability  int
	bubblewrapImage *os.File // is executed instead of the file at its path; nil: that file is executed

	spoil func(script any, encoded []byte) // changes native scripts, in tests; else nil

	mu     sync.Mutex
	latest *probeRun // nil: none has begun
}

// masks are the files that are mounted over hidden ones.
type masks struct{ hidden, empty string }

// A program is started again as a helper. It is kept open, so that it still
// works if its name is removed or replaced.
type program struct {
	file   *os.File
	path   string
	loader string // of a program that is not static; else empty

	// The file that is executed by descriptor, set by the first probe. If a plan hides
	// /proc, path is executed instead.
	image *os.File
}

// New returns a Confiner. It only reads its configuration, because a server that starts
// has a client that waits.
func New(cfg Config) *Confiner {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.BubblewrapDirs == nil {
		cfg.BubblewrapDirs = bwrap.Dirs
	}
	c := &Confiner{config: cfg, builds: slots.New(maxBuilds)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// thisUser describes the user of this process.
func thisUser() *sandbox.User {
	u := &sandbox.User{ID: strconv.Itoa(os.Geteuid()), Env: os.Environ()}
	if me, err := user.Current(); err == nil {
		u.Name, u.Home = me.Username, me.HomeDir
	}
	if home, err := os.UserHomeDir(); err == nil {
		u.Home = home
	}
	return u
}

// withReal adds the real paths as of now. Later a command may change a link in one
// of the paths.
func withReal(paths []string) []string {
	var all []string
	for _, p := range paths {
		all = append(all, filepath.Clean(p))
	}
	for _, p := range paths {
		if real, err := filepath.EvalSymlinks(p); err == nil && !slices.Contains(all, real) {
			all = append(all, real)
		}
	}
	return all
}

// open makes what sandboxes need besides a way to build them. A probe calls it until it has
// succeeded once.
func (c *Confiner) open() error {
	if c.ledger != nil {
		return nil
	}
	if c.config.Private != nil {
		c.private = withReal(c.config.Private())
	}
	if !c.config.UserSockets {
		c.user = thisUser()
	}
	var err error
	if c.self.file == nil {
		if c.self, err = openProgram(c.config.Self); err != nil {
			return fmt.Errorf("look at this program: %w", err)
		}
	}
	c.masks = masks{hidden: filepath.Join(c.config.Own, "hidden"), empty: filepath.Join(c.config.Own, "empty")}
	for path, mode := range map[string]os.FileMode{c.masks.hidden: 0, c.masks.empty: 0o444} {
		os.Remove(path) // of an attempt that failed
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
		if err == nil {
			err = f.Chmod(mode)
			f.Close()
		}
		if err != nil {
			return fmt.Errorf("make a file to hide others with: %w", err)
		}
	}
	ledger, err := placeholder.Open(c.placeholders(), c.config.Log)
	if err != nil {
		return fmt.Errorf("open the list of placeholders: %w", err)
	}
	c.ledger = ledger
	return nil
}

// placeholders is the directory of the ledger.
func (c *Confiner) placeholders() string { return filepath.Join(c.config.Shared, "placeholders") }

// Close releases everything that the Confiner has opened. All confined commands must have
// ended.
func (c *Confiner) Close() error {
	c.cancel()
	c.tasks.Wait()
	var errs []error
	if c.ledger == nil && c.config.Earlier { // no probe has swept
		var err error
		if c.ledger, err = placeholder.Open(c.placeholders(), c.config.Log); err != nil {
			errs = append(errs, err)
		}
	}
	if c.ledger != nil {
		errs = append(errs, c.ledger.Close())
	}
	for _, f := range []*os.File{c.self.file, c.self.image, c.stageImage, c.bubblewrapImage} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// StartSweeper starts a process that removes the placeholders which Close had to leave
// because sandboxes of other users, or of servers with another state directory, need them.
// Call it after Close, and last: a supervisor that is being closed kills processes that it
// does not know. It returns the pid of the process, 0 if none was needed.
func (c *Confiner) StartSweeper() (pid int, err error) {
	if c.ledger == nil {
		return 0, nil
	}
	program := "/proc/self/exe"
	if c.config.Self != "" {
		program = c.config.Self
	}
	return c.ledger.StartSweeper(program, reexec.Argv("tether", reexec.Sweeper))
}

// A Request is a command and its sandbox.
type Request struct {
	Intent *wire.Sandbox
	Spec   proc.Spec // as it would be without a sandbox

	// EnforceManagedNetwork: the command has a network of its own, which it can leave
	// only through Gate. AllUnixSockets: it may use every unix socket that it can name.
	EnforceManagedNetwork bool
	AllUnixSockets        bool
	Gate                  Gate

	// Refusal, if not empty, is printed on the command's standard error before it
	// fails, instead of executing the command. It is for a caller without a Gate.
	Refusal string

	// NoPlaceholders: see [sandbox.Process]. Only for tether's own helpers.
	NoPlaceholders bool
}

// namesSelf reports whether the command is the program that executes it. In a native sandbox that is the stage, so this
// program is executed instead, as without a sandbox.
func (r *Request) namesSelf() bool {
	if len(r.Spec.Argv) == 0 { // it is only to be explained
		return false
	}
	switch path.Clean(r.Spec.Argv[0]) {
	case "/proc/self/exe", "/proc/thread-self/exe":
		return true
	}
	return false
}

// A Gate connects a command's own network with the outside.
type Gate interface {
	// Ports returns how many listeners are needed inside, and which variables of
	// the command get their port numbers.
	Ports() (listeners int, ports []stage.Port)

	// Serve takes the listeners over when the command is about to be executed.
	Serve(listeners []net.Listener)
}

// An Adoption describes the sandbox of a command that another program has started.
type Adoption struct {
	Files    map[proc.Which]*os.File // that the keeper has held for the launcher; they belong to it from now on
	Stays    bool                    // see [proc.Launcher]
	Reported bool                    // the launcher has reported that the command is executed
	Gate     Gate                    // as in the Request; nil: the command has no network of its own, or no way out of it

	// Closed is called if the command's own network has no way out any more.
	Closed func(why error)
}

// A Prepared command is ready to be started, once.
type Prepared struct {
	Spec   proc.Spec // how to start it
	Policy *sandbox.Policy
	Plan   *sandbox.Plan

	// Unconfined: there is nothing to enforce, and the intent asks for no sandbox
	// in that case (the draft mode auto). The command starts as without an intent.
	Unconfined bool

	release func() // nil: nothing to release
}

// Start starts the command. A failure to build its sandbox is an
// [sandbox.UnenforceableError], a failure to execute it a [proc.StartError].
func (p *Prepared) Start(ctx context.Context, procs *proc.Supervisor, sink proc.Sink) (*proc.Process, error) {
	process, err := procs.Start(ctx, p.Spec, sink)
	if err == nil {
		return process, nil
	}
	p.Abandon()
	if launch, ok := errors.AsType[*proc.LaunchError](err); ok && ctx.Err() == nil {
		if p.Spec.Launcher.First != nil {
			return nil, sandbox.Unenforceable("a process with namespaces of its own cannot be started: %w", launch.Err)
		}
		return nil, sandbox.Unenforceable("bubblewrap cannot be started with mounts of its own: %w", launch.Err)
	}
	return nil, err
}

// Start prepares a command and starts it. If a socket that is to be hidden disappears
// while the sandbox is built, the sandbox is built again. sink is called before each
// attempt.
func (c *Confiner) Start(ctx context.Context, r Request, sink func(*Prepared) proc.Sink) (*proc.Process, *Prepared, error) {
	for attempt := 1; ; attempt++ {
		prepared, err := c.Prepare(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		process, err := prepared.Start(ctx, c.config.Procs, sink(prepared))
		if err == nil || attempt == startAttempts || ctx.Err() != nil || !prepared.hidesMissing() {
			return process, prepared, err
		}
	}
}

// startAttempts is how many times a start is attempted.
const startAttempts = 3

// hidesMissing reports whether a path that the plan hides does not exist any
// more.
func (p *Prepared) hidesMissing() bool {
	return slices.ContainsFunc(p.Plan.Ops, func(op sandbox.Op) bool {
		if op.Kind != sandbox.OpMaskDir && op.Kind != sandbox.OpMaskFile {
			return false
		}
		_, err := os.Lstat(op.Path)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// Abandon releases the resources of a command that was not started.
func (p *Prepared) Abandon() {
	if p.release != nil {
		p.release()
	}
}

// Prepare builds everything that the command needs to be confined. The caller
// must start or abandon the result.
func (c *Confiner) Prepare(ctx context.Context, r Request) (*Prepared, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, prepareTime, errPrepareTime)
	defer cancel()
	support, err := c.Support(ctx)
	if err != nil {
		return nil, err
	}
	return proc.Abandonable(ctx, func() (*Prepared, error) { return c.prepare(ctx, r, support) }, (*Prepared).Abandon)
}

// unconfined reports whether a command may run as without an intent: the draft mode
// auto asks for a sandbox only if there is something to enforce.
func unconfined(r Request, plan *sandbox.Plan) bool {
	return r.Intent.Draft == wire.DraftAuto && plan.Shape == sandbox.ShapeOpen
}

// prepareTime bounds the preparation of a command: a rule may name a directory
// on a dead network disk.
const prepareTime = 30 * time.Second

var errPrepareTime = fmt.Errorf("its sandbox could not be prepared within %v", prepareTime)

// Compile returns the policy and the plan that Prepare would use, and changes
// nothing.
func (c *Confiner) Compile(r Request, support Support) (*sandbox.Policy, *sandbox.Plan, error) {
	policy, plan, err := c.compile(r, support, nil)
	if err != nil || support.Native || startsThroughProc(plan) {
		return policy, plan, err
	}
	// The plan hides /proc, so the stage is executed by its path: no command may be
	// able to replace that file.
	if access, _ := policy.Decide(c.self.path); access == sandbox.Write {
		return nil, nil, sandbox.Unenforceable("/proc is denied and %s, which starts commands, could be replaced", c.self.path)
	}
	return c.compile(r, support, []string{c.self.path})
}

// Placeholder reports whether a name exists only because a sandbox holds it.
func (c *Confiner) Placeholder(path string) bool { return c.ledger.Holds(path) }

// startsThroughProc reports whether the stage can be executed by descriptor. That
// needs /proc inside the sandbox.
func startsThroughProc(plan *sandbox.Plan) bool {
	return !slices.ContainsFunc(plan.Ops, func(op sandbox.Op) bool { return op.Kind == sandbox.OpMaskDir && op.Path == "/proc" })
}

func (c *Confiner) compile(r Request, support Support, runtime []string) (*sandbox.Policy, *sandbox.Plan, error) {
	user := c.user
	if r.NoPlaceholders {
		user = nil // our helpers connect to nothing, and a plan that names sockets would change with each new one
	}
	policy, err := sandbox.Bind(r.Intent, sandbox.Process{
		Cwd: r.Spec.Dir, Env: r.Spec.Env,
		Private: c.private, Runtime: runtime, User: user,
		EnforceManagedNetwork: r.EnforceManagedNetwork, AllUnixSockets: r.AllUnixSockets,
		Placeholder:    c.ledger.Holds,
		NoPlaceholders: r.NoPlaceholders,
		Covers:         support.Seals || support.Native,
		Root:           os.Geteuid() == 0,
		NoProc:         support.NoProc,
	}, sandbox.OS{})
	if err != nil {
		return nil, nil, err
	}
	runsSelf := !support.Native || r.NoPlaceholders || r.namesSelf()
	if access, _ := policy.Decide(c.self.loader); runsSelf && c.self.loader != "" && access == sandbox.Deny {
		return nil, nil, sandbox.Unenforceable("%s is linked dynamically and would not find %s in this sandbox: build it with CGO_ENABLED=0", c.self.path, c.self.loader)
	}
	plan, err := policy.Compile()
	return policy, plan, err
}

// openProgram opens a program; with an empty name, this program.
func openProgram(name string) (p program, err error) {
	if name == "" {
		if name, err = os.Executable(); err != nil {
			return p, err
		}
	}
	if p.path, err = filepath.EvalSymlinks(name); err != nil {
		return p, err
	}
	if p.file, err = os.Open(p.path); err != nil {
		return p, err
	}
	if p.loader, err = loaderOf(p.file); err != nil {
		p.file.Close()
	}
	return p, err
}
