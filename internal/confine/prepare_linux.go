package confine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/internal/sandbox/native"
	"github.com/tetherexec/tether/internal/sandbox/placeholder"
	"github.com/tetherexec/tether/internal/sandbox/seccomp"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// maxPrepares is how many times a plan is made if the files that it is about
// change while it is carried out.
const maxPrepares = 10

// firstFile is the number that the first of the Spec's Files has in the launcher, see
// [proc.Launcher].
const firstFile = 6

func (c *Confiner) prepare(ctx context.Context, r Request, support Support) (*Prepared, error) {
	var err error
	for range maxPrepares {
		var p *Prepared
		if p, err = c.prepareOnce(ctx, r, support); err == nil {
			return p, nil
		}
		if _, changed := errors.AsType[*changedError](err); !changed {
			return nil, err
		}
	}
	return nil, sandbox.Unenforceable("%v", err)
}

// A changedError means that a file has changed since the plan was made.
type changedError struct{ err error }

func (e *changedError) Error() string { return e.err.Error() }
func (e *changedError) Unwrap() error { return e.err }

func (c *Confiner) prepareOnce(ctx context.Context, r Request, support Support) (*Prepared, error) {
	policy, plan, err := c.Compile(r, support)
	if cwd, ok := errors.AsType[*sandbox.CwdError](err); ok {
		return nil, &proc.StartError{Err: cwd.Err, Detail: fmt.Sprintf("working directory %q", cwd.Path)}
	}
	if err != nil {
		return nil, err
	}
	p := &Prepared{Spec: r.Spec, Policy: policy, Plan: plan, Unconfined: unconfined(r, plan)}
	if p.Unconfined {
		return p, nil
	}
	p.Spec.LateOutput = LateOutput
	switch plan.Shape {
	case sandbox.ShapeOpen:
		return p, nil
	case sandbox.ShapeFilter:
		return p, c.filter(ctx, p)
	}
	if err := support.refusal(); err != nil {
		return nil, err
	}
	return p, c.wrap(ctx, p, r, support)
}

// filterMode returns the seccomp mode for a plan.
func filterMode(f sandbox.Filter) seccomp.Mode {
	switch f {
	case sandbox.FilterOpen:
		return seccomp.Open
	case sandbox.FilterProxy:
		return seccomp.Proxy
	case sandbox.FilterProxyUnix:
		return seccomp.ProxyUnix
	}
	return seccomp.Restricted
}

func filterProgram(mode seccomp.Mode) ([]byte, error) {
	program, err := seccomp.Program(mode, seccomp.Arch(runtime.GOARCH))
	if err != nil {
		return nil, sandbox.Unenforceable("%v", err)
	}
	return seccomp.Encode(program), nil
}

// filter prepares a command that runs under a system call filter and nothing
// else.
func (c *Confiner) filter(ctx context.Context, p *Prepared) error {
	program, err := filterProgram(filterMode(p.Plan.Filter))
	if err != nil {
		return err
	}
	config := &stage.Config{Argv: p.Spec.Argv, Arg0: p.Spec.Arg0, Env: p.Spec.Env, Dir: p.Spec.Dir, Filter: program,
		OpenFiles: p.Spec.Limits[proc.LimitFiles]}
	l, err := c.newLaunch(ctx, p)
	if err != nil {
		return err
	}
	if err := l.giveStage(config); err != nil {
		l.end()
		return err
	}
	l.launcher.Argv = l.stageArgv()
	l.finish()
	return nil
}

// wrap prepares a command for which a backend carries out the plan and a stage
// executes the command.
func (c *Confiner) wrap(ctx context.Context, p *Prepared, r Request, support Support) error {
	// The program that gets the right to change mounts must be our own,
	// executed by descriptor.
	seals := support.Native || support.Seals && startsThroughProc(p.Plan)
	program, err := filterProgram(filterMode(p.Plan.Filter))
	if err != nil {
		return err
	}
	var last []byte
	// The filter SetID refuses openat2. The stage needs that call, so it loads this
	// filter last; our helpers need it all the time.
	if !p.Policy.FullWrite && !r.NoPlaceholders {
		if last, err = filterProgram(seccomp.SetID); err != nil {
			return err
		}
	}
	l, err := c.newLaunch(ctx, p)
	if err != nil {
		return err
	}
	if err := l.holdPlaceholders(); err != nil {
		l.end()
		return err
	}
	mounts, err := l.expected(seals, support.Bubblewrap.Descriptors && !support.Native)
	if err != nil {
		l.end()
		return err
	}
	config := &stage.Config{
		Argv: p.Spec.Argv, Arg0: p.Spec.Arg0, Env: withVariables(p.Spec.Env, p.Plan.Env), Dir: p.Plan.Cwd,
		Session: true, TTY: p.Spec.TTY, NoStdin: !p.Spec.TTY && !p.Spec.PipeStdin && p.Spec.Stdin == nil, Confined: true, Mounts: mounts,
		Filter: last, OpenFiles: p.Spec.Limits[proc.LimitFiles],
	}
	if config.Dir == "" {
		config.Dir = "/"
	}
	if p.Plan.Managed() {
		if err := l.openGate(r, config); err != nil {
			l.end()
			return err
		}
	}
	if support.Native {
		err = l.useNative(support, program, config, r.NoPlaceholders || r.namesSelf() && startsThroughProc(p.Plan))
	} else {
		err = l.wrapInBubblewrap(support, program, config, seals)
	}
	if err != nil {
		l.end()
		return err
	}
	l.finish()
	return nil
}

// wrapInBubblewrap lets bubblewrap carry out the plan. seals: the stage does a part of it.
func (l *launch) wrapInBubblewrap(support Support, program []byte, config *stage.Config, seals bool) error {
	if seals {
		config.Freeze, config.Seal = toMakeReadOnly(config.Mounts)
		for _, op := range l.prepared.Plan.Ops {
			if op.Kind == sandbox.OpCover {
				config.Cover = append(config.Cover, op.Path)
			}
		}
	}
	return l.useBubblewrap(support, program, config)
}

// toMakeReadOnly returns the mounts that the stage makes read-only, not bubblewrap:
// parts of the new procfs, and masks and devices.
func toMakeReadOnly(mounts []stage.Mount) (freeze, seal []string) {
	for _, m := range mounts {
		switch {
		case !m.ReadOnly:
		case m.Kind == stage.MountProc:
			freeze = append(freeze, m.Path)
		case m.Kind == stage.MountMask, m.Kind == stage.MountDevice:
			seal = append(seal, m.Path)
		}
	}
	return freeze, seal
}

// withVariables sets variables in an environment.
func withVariables(env []string, set []sandbox.Variable) []string {
	result := make([]string, 0, len(env)+len(set))
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		replaced := false
		for _, v := range set {
			replaced = replaced || v.Name == name
		}
		if !replaced {
			result = append(result, entry)
		}
	}
	for _, v := range set {
		result = append(result, v.Name+"="+v.Value)
	}
	return result
}

// maxSources is how many files are bound by descriptor. Further files are bound by
// name, and verified inside all the same.
const maxSources = 256

// expected returns the mounts that the stage must find inside. A file that a command
// could replace while the sandbox is built is kept open, to be bound by descriptor.
// seals: the stage will make the devices read-only. descriptors: bubblewrap can bind by
// descriptor.
func (l *launch) expected(seals, descriptors bool) ([]stage.Mount, error) {
	var base, mounts []stage.Mount
	add := func(m stage.Mount) {
		mounts = append(mounts, m)
		// The base of every sandbox comes first, and a rule may cover it.
		kept := base[:0]
		for _, old := range base {
			if old.Path != m.Path && !strings.HasPrefix(old.Path, m.Path+"/") {
				kept = append(kept, old)
			}
		}
		base = kept
	}
	bind := func(op sandbox.Op, source string, readOnly bool) error {
		m := stage.Mount{Path: op.Path, Kind: stage.MountBind, ReadOnly: readOnly}
		f, err := m.Identify(source)
		if errors.Is(err, unix.EMFILE) {
			return cannotBuild(err)
		}
		if err != nil {
			return &changedError{fmt.Errorf("%s has changed while the sandbox was built: %w", source, err)}
		}
		swappable := !readOnly || op.Guard
		if descriptors && swappable && source == op.Path && source != "/" && len(l.sources) < maxSources {
			l.sources[source] = l.give(f)
		} else {
			f.Close()
		}
		add(m)
		return nil
	}
	for _, op := range l.prepared.Plan.Ops {
		var err error
		switch op.Kind {
		case sandbox.OpBindRO:
			err = bind(op, op.Path, true)
		case sandbox.OpBindRW, sandbox.OpPin:
			err = bind(op, op.Path, false)
		case sandbox.OpMaskFile:
			err = bind(op, l.confiner.maskFile(op.Mode), true)
		case sandbox.OpCover:
			add(stage.Mount{Path: op.Path, Kind: stage.MountDevice, ReadOnly: true})
		case sandbox.OpMaskDir:
			add(stage.Mount{Path: op.Path, Kind: stage.MountMask, ReadOnly: true})
		case sandbox.OpProc:
			base = append(base, stage.Mount{Path: op.Path, Kind: stage.MountProc})
		case sandbox.OpFreeze:
			base = append(base, stage.Mount{Path: op.Path, Kind: stage.MountProc, ReadOnly: true})
		case sandbox.OpDev:
			base = append(base, stage.Mount{Path: op.Path, Kind: stage.MountDev})
			for _, name := range sandbox.Devices { // root could change the devices of the host
				base = append(base, stage.Mount{Path: op.Path + "/" + name, Kind: stage.MountDevice, ReadOnly: seals})
			}
		case sandbox.OpScratch, sandbox.OpDir, sandbox.OpSymlink, sandbox.OpSeal, sandbox.OpPlaceholder:
		}
		if err != nil {
			return nil, err
		}
	}
	return append(base, mounts...), nil
}

func (c *Confiner) maskFile(mode fs.FileMode) string {
	if sandbox.UnixMode(mode) == 0 {
		return c.masks.hidden
	}
	return c.masks.empty
}

// launcherEnv is the environment of launchers. The stage is small: it starts faster
// without a second thread. The command's environment is in the Config of the stage.
var launcherEnv = []string{"GOMAXPROCS=1"}

// A launch is a command that is being prepared; later it owns the resources
// of the running sandbox.
type launch struct {
	confiner *Confiner
	prepared *Prepared
	launcher *proc.Launcher

	files       []*os.File // for the launcher; closed once it runs
	channel     *stage.Channel
	diagnostics *os.File // standard error of the launcher
	lease       *placeholder.Lease
	building    bool
	gate        Gate // nil: no connection to the outside
	listens     int  // how many listeners the gate gets
	listeners   []net.Listener

	script   *native.Script // of a native sandbox; else nil
	runsSelf bool           // its command is this program

	sources map[string]int // descriptors of the files that are bound by descriptor

	selfFd, bubblewrapFd, stageFd, reportFd int // numbers in the launcher
}

// newLaunch waits until a sandbox may be built, and makes what every launcher
// needs.
func (c *Confiner) newLaunch(ctx context.Context, p *Prepared) (_ *launch, err error) {
	l := &launch{confiner: c, prepared: p, launcher: &proc.Launcher{Env: launcherEnv, LimitsFiles: true}, sources: map[string]int{}}
	defer func() {
		if err != nil {
			l.end()
		}
	}()
	if err := c.builds.Take(ctx); err != nil {
		return nil, err
	}
	l.building = true
	diagnostics, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	l.diagnostics, l.launcher.Stderr = diagnostics, theirs
	return l, nil
}

// give passes a file to the launcher and returns its descriptor number there.
func (l *launch) give(f *os.File) int {
	l.files = append(l.files, f)
	return firstFile + len(l.files) - 1
}

// giveBytes passes a file with these bytes to the launcher.
func (l *launch) giveBytes(name string, b []byte) (int, error) {
	f, err := inMemory(name, b)
	if err != nil {
		return 0, err
	}
	return l.give(f), nil
}

// inMemory returns a file in memory with these bytes, at its beginning.
func inMemory(name string, b []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, fmt.Errorf("fill a file in memory: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, fmt.Errorf("rewind a file in memory: %w", err)
	}
	return f, nil
}

// giveStage passes the Config to the launcher, and the socket on which the stage
// reports. These are the last files before the images that finish adds.
func (l *launch) giveStage(s *stage.Config) (err error) {
	if l.stageFd, err = l.giveBytes("stage", s.Encode()); err != nil {
		return err
	}
	channel, theirs, err := stage.NewChannel()
	if err != nil {
		return err
	}
	l.channel = channel
	l.reportFd = l.give(theirs)
	l.selfFd = firstFile + len(l.files)
	l.bubblewrapFd = l.selfFd + 1
	return nil
}

// stageArgv returns the command line of the stage: through a descriptor, if that is
// possible.
func (l *launch) stageArgv() []string {
	self := l.confiner.self.path
	if startsThroughProc(l.prepared.Plan) {
		self = at.ProcPath(l.selfFd)
	}
	return reexec.Argv(self, reexec.Sandbox, strconv.Itoa(l.stageFd), strconv.Itoa(l.reportFd))
}

// useBubblewrap sets the launcher's command line to a bubblewrap that carries
// out the plan.
func (l *launch) useBubblewrap(support Support, filter []byte, config *stage.Config) error {
	filterFd, err := l.giveBytes("filter", filter)
	if err != nil {
		return err
	}
	layout := bwrap.Layout{
		Filter: filterFd, HiddenFile: l.confiner.masks.hidden, EmptyFile: l.confiner.masks.empty, NoUserSpace: support.NoUser,
		Sources: l.sources,
	}
	if len(config.Freeze)+len(config.Seal)+len(config.Cover) > 0 {
		layout.Capabilities = stage.Capabilities
	}
	args, err := bwrap.Arguments(l.prepared.Plan, layout)
	if err != nil {
		return sandbox.Unenforceable("%v", err)
	}
	argsFd, err := l.giveBytes("arguments", []byte(strings.Join(args, "\x00")+"\x00"))
	if err != nil {
		return err
	}
	if err := l.giveStage(config); err != nil {
		return err
	}
	program := support.Bubblewrap.Path
	if l.confiner.bubblewrapImage != nil {
		program = at.ProcPath(l.bubblewrapFd)
	}
	l.launcher.Argv = append([]string{program, "--args", strconv.Itoa(argsFd), "--"}, l.stageArgv()...)
	l.launcher.Mounts, l.launcher.Stays = support.Mounts, true
	return nil
}

// maxPlaceholders bounds the placeholders of one sandbox: each costs a descriptor.
const maxPlaceholders = 1024

// holdPlaceholders makes the placeholders that the plan needs on the host,
// and guards the existing names that the plan depends on.
func (l *launch) holdPlaceholders() (err error) {
	var wants []placeholder.Want
	made := 0
	for _, op := range l.prepared.Plan.Ops {
		switch {
		case op.Kind == sandbox.OpPlaceholder:
			wants = append(wants, placeholder.Want{Path: op.Path, Dir: op.Mode.IsDir()})
			made++
		case op.Guard:
			wants = append(wants, placeholder.Want{Path: op.Path, Exists: true})
		}
	}
	switch {
	case wants == nil:
		return nil
	case made > maxPlaceholders:
		return sandbox.Unenforceable("%d names that do not exist would have to be held, at most %d can be", made, maxPlaceholders)
	}
	if l.lease, err = l.confiner.ledger.Acquire(wants); err != nil {
		if _, exists := errors.AsType[*placeholder.ChangedError](err); exists {
			return &changedError{err}
		}
		return cannotBuild(err)
	}
	pointPlaceholders.Passed()
	return nil
}

// cannotBuild is the error of a sandbox that cannot be built because of err.
func cannotBuild(err error) error {
	var limit unix.Rlimit
	if errors.Is(err, unix.EMFILE) && unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		return sandbox.Unenforceable("it needs more open files than the limit of %d allows: raise that limit of the server (`ulimit -Hn`), or use fewer entries", limit.Cur)
	}
	return sandbox.Unenforceable("%w", err)
}

var pointPlaceholders = crash.NewPoint("confine.placeholders")

// finish puts everything into the Spec: from here on, the command can be started.
func (l *launch) finish() {
	l.launcher.Confirm, l.launcher.Ended = l.confirm, l.end
	if l.channel != nil {
		l.launcher.Report = l.channel.File()
	}
	if l.lease != nil {
		l.launcher.Locks = l.lease.Locks()
	}
	l.prepared.release = l.end
	files := append(l.files[:len(l.files):len(l.files)], l.images()...)
	for _, image := range files[len(l.files):] {
		image.Chmod(executable) // before Linux 6.3, an earlier command could have changed the mode
	}
	l.prepared.Spec.Files, l.prepared.Spec.Launcher = files, l.launcher
}

// images returns the programs that the launcher executes. They are the last of its files.
func (l *launch) images() []*os.File {
	c := l.confiner
	switch {
	case l.script != nil && l.runsSelf:
		return []*os.File{c.stageImage, c.self.image}
	case l.script != nil:
		return []*os.File{c.stageImage}
	case c.bubblewrapImage != nil:
		return []*os.File{c.self.image, c.bubblewrapImage}
	}
	return []*os.File{c.self.image}
}

// confirm waits until the command runs.
func (l *launch) confirm(ctx context.Context, keep func(proc.Launched, []*os.File) error) (proc.Launched, error) {
	defer l.endBuild()
	l.closeTheirs()
	launched, listeners, err := l.channel.Await(ctx, keep)
	l.channel.Close()
	l.channel = nil
	if err == nil && l.gate != nil {
		err = l.serve(listeners)
	}
	err = l.explained(err)
	l.freeScript() // it is as large as all else that is kept for a command
	switch {
	case err == nil:
		return launched, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = sandbox.Unenforceable("%s", l.stderrTail())
	case errors.Is(err, stage.ErrBroken):
		err = sandbox.Unenforceable("%v", err)
	}
	return launched, err
}

// maxStderr is how much of a launcher's standard error is reported, and
// stderrTime how long to wait for it.
const (
	maxStderr  = 4 << 10
	stderrTime = time.Second
)

// stderrTail returns the error output of a launcher that failed.
func (l *launch) stderrTail() string {
	l.diagnostics.SetReadDeadline(time.Now().Add(stderrTime))
	text, _ := io.ReadAll(io.LimitReader(l.diagnostics, maxStderr))
	if said := strings.TrimSpace(string(text)); said != "" {
		return said
	}
	return "it ended before the command was executed, without a message"
}

// endBuild lets the next launch build its sandbox.
func (l *launch) endBuild() {
	if l.building {
		l.building = false
		l.confiner.builds.Free()
	}
}

// closeTheirs closes the files of which the launcher has its own copies.
func (l *launch) closeTheirs() {
	for _, f := range l.files {
		f.Close()
	}
	if l.launcher.Stderr != nil {
		l.launcher.Stderr.Close()
	}
}

func (l *launch) freeScript() {
	if l.script != nil {
		l.script.Free()
		l.script = nil
	}
}

// end releases everything. A second call does nothing.
func (l *launch) end() {
	l.endBuild()
	l.freeScript()
	l.closeTheirs()
	if l.channel != nil {
		l.channel.Close()
	}
	if l.diagnostics != nil {
		l.diagnostics.Close()
	}
	if l.lease != nil {
		l.lease.Release()
	}
	for _, one := range l.listeners {
		one.Close()
	}
}
