package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/fork"
	"github.com/tetherexec/tether/internal/mountinfo"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/sandbox/bwrap"
	"github.com/tetherexec/tether/wire"
)

// probeTime bounds a probe.
const probeTime = 20 * time.Second

// probe finds the backend that works here, and the way in which it does.
func (c *Confiner) probe(ctx context.Context) Support {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTime, fmt.Errorf("no sandbox was built within %v", probeTime))
	defer cancel()
	if err := c.self.load(); err != nil {
		return Support{Problem: err}
	}
	if b := c.config.Backend; b == BackendNative || b == BackendBubblewrap {
		return c.probeOne(ctx, b)
	}
	own := c.probeOne(ctx, BackendNative)
	if own.Problem == nil || ctx.Err() != nil {
		return own
	}
	v := c.probeOne(ctx, BackendBubblewrap)
	if v.Problem == nil {
		return v
	}
	// Where both fail, they fail for the same reason, unless bubblewrap is missing or unusable.
	if v.Bubblewrap.Version == "" {
		return own
	}
	return v
}

// probeOne finds the way in which a backend works here.
func (c *Confiner) probeOne(ctx context.Context, b Backend) Support {
	if b == BackendNative {
		return c.probeNative(ctx)
	}
	return c.probeBubblewrap(ctx)
}

// probeNative builds real sandboxes by the native backend until one works.
func (c *Confiner) probeNative(ctx context.Context) Support {
	v := Support{Native: true}
	if v.Problem = c.loadStage(); v.Problem != nil {
		return v
	}
	c.lastCapability = lastCapability()
	return c.tryAll(ctx, v, nativeCandidates())
}

// nativeCandidates returns the ways to build a native sandbox, best first.
func nativeCandidates() []Support {
	list := []Support{{Native: true}, {Native: true, NoProc: true}}
	if os.Geteuid() == 0 {
		list = append(list, Support{Native: true, NoUser: true})
	}
	return list
}

// probeBubblewrap finds bubblewrap and builds real sandboxes until one works.
func (c *Confiner) probeBubblewrap(ctx context.Context) Support {
	var v Support
	path, err := bwrap.Find(c.config.BubblewrapDirs)
	v.Bubblewrap.Path = path
	if err == nil {
		v.Bubblewrap, err = bwrap.Check(ctx, path)
	}
	if err == nil {
		err = c.loadBubblewrap(path)
	}
	v.Problem = err
	if v.Problem != nil {
		v.Advice = toolAdvice(v.Problem)
		return v
	}
	return c.tryAll(ctx, v, candidates())
}

// tryAll returns the first candidate that works, or v with the reason why none does.
func (c *Confiner) tryAll(ctx context.Context, v Support, candidates []Support) Support {
	for i, candidate := range candidates {
		candidate.Bubblewrap = v.Bubblewrap
		err := c.try(ctx, candidate)
		if err == nil {
			return candidate
		}
		// The error of the best candidate is the most useful, or one that names the right that is missing.
		if i == 0 || ctx.Err() != nil || atStep(err, fork.StepUser) {
			v.Problem = err
		}
		if ctx.Err() != nil || momentary(err) {
			break
		}
	}
	v.Advice = hostAdvice(v.Problem, kernelSetting, os.Geteuid() == 0)
	return v
}

// momentary reports whether an error is temporary and has nothing to do with the
// candidate: the next one would probably fail too.
func momentary(err error) bool {
	for _, errno := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// candidates returns the ways to build a sandbox, best first. For the
// command, all are equally strong.
func candidates() []Support {
	asUser := []Support{{Mounts: proc.PrivateAsUser}, {Mounts: proc.PrivateAsUser, NoProc: true}}
	if os.Geteuid() == 0 {
		return append([]Support{
			{Mounts: proc.PrivateMounts, Seals: true},
			{Mounts: proc.PrivateMounts},
			{Mounts: proc.PrivateMounts, NoProc: true},
			// Not also without a new procfs: bubblewrap would be visible in the outer
			// procfs, and without a user namespace in between its files could be
			// reached.
			// Without a user namespace bubblewrap leaves capabilities in the bounding set, and only a stage that seals
			// can remove them.
			{Mounts: proc.PrivateMounts, NoUser: true, Seals: true},
		}, asUser...)
	}
	// If no mount is shared, the mounts of this process will do. A bubblewrap with the
	// set-user-ID bit may work with them where this process cannot make a copy.
	if nothingShared() {
		return append(asUser, Support{Mounts: proc.SharedMounts}, Support{Mounts: proc.SharedMounts, NoProc: true})
	}
	return asUser
}

// nothingShared reports whether no mount of this process is shared with other
// namespaces. Then a mount that another process makes later cannot appear in a
// sandbox.
func nothingShared() bool {
	text, err := os.ReadFile(mountinfo.Own)
	if err != nil {
		return false
	}
	mounts, err := mountinfo.Parse(string(text))
	return err == nil && !slices.ContainsFunc(mounts, func(m mountinfo.Mount) bool { return m.Follows() != "" })
}

func init() { reexec.Register(reexec.Trial, func([]string) int { return 0 }) }

// try runs a command that does nothing in a read-only sandbox.
func (c *Confiner) try(ctx context.Context, candidate Support) error {
	p, err := c.prepare(ctx, Request{
		Intent: wire.ReadOnly(),
		Spec:   proc.Spec{Argv: reexec.Argv(c.self.path, reexec.Trial), Dir: "/"},
	}, candidate)
	if err != nil {
		return err
	}
	var trial proc.Capture
	process, err := p.Start(ctx, c.config.Procs, &trial)
	if err != nil {
		return err
	}
	select {
	case <-process.Done():
	case <-ctx.Done():
		process.Kill()
		return context.Cause(ctx)
	}
	if _, code := trial.Result(); code != 0 {
		return fmt.Errorf("a trial command in a sandbox failed with status %d", code)
	}
	return nil
}

// toolAdvice returns how to get a bubblewrap that works.
func toolAdvice(err error) string {
	const install = "Install it with the package manager of this machine, for example `apt-get install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`. " + triesAgain
	switch {
	case errors.Is(err, bwrap.ErrMissing):
		return install
	case errors.Is(err, bwrap.ErrOld):
		return "Install version 0.5 or later. " + triesAgain
	case errors.Is(err, bwrap.ErrUnsafe):
		return "Make it and the directories above it writable for their owner only. " + triesAgain
	}
	return "Run `tether doctor` to see more"
}

// triesAgain ends an advice that helps a running server too, see reprobeAfter.
const triesAgain = "tether tries again with the first command that needs a sandbox more than 30 s after this attempt"

// hostAdvice returns what prevents this machine from building sandboxes, and how to
// change that. setting returns a setting of the kernel, root says whether this program runs as root.
func hostAdvice(err error, setting func(name string) string, root bool) string {
	switch {
	case setting("user/max_user_namespaces") == "0":
		return "User namespaces are switched off: `sysctl user.max_user_namespaces=15000` allows them. " + triesAgain
	case setting("kernel/unprivileged_userns_clone") == "0" && !root:
		return "User namespaces are switched off for users: `sysctl kernel.unprivileged_userns_clone=1` allows them. " + triesAgain
	case setting("kernel/apparmor_restrict_unprivileged_userns") == "1" && !root:
		return "AppArmor keeps programs without a profile from using user namespaces: give tether a profile with `userns,` (docs/sandbox.md has one) and restart tether, or `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, which needs no restart. " + triesAgain
	case root && atStep(err, fork.StepUser):
		return "Without the capability SETFCAP, root cannot map its own id into a user namespace: run tether as another user, or give it that capability (Docker's default has it, Kubernetes' `drop: [ALL]` takes it away). Then restart tether"
	case errors.Is(err, unix.EPERM) || strings.Contains(err.Error(), "No permissions to create") || strings.Contains(err.Error(), "Operation not permitted"): // a process keeps its filter
		return "Something forbids new namespaces or mounts in them, such as the system call filter of a container: allow `unshare`, `clone`, `mount`, `umount2` and `pivot_root` there (for Docker: `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`). Then restart tether"
	case errors.Is(err, unix.ENOSYS):
		return "Native sandboxes need Linux 5.12, and a system call filter of a container that allows `open_tree`, `move_mount`, `fsopen` and `mount_setattr`. Otherwise install bubblewrap and use `--sandbox-backend auto`"
	}
	return "Run `tether doctor` to see more"
}

// atStep reports whether a first process has failed at a step before it executed its program.
func atStep(err error, step fork.Step) bool {
	failed, ok := errors.AsType[*fork.Error](err)
	return ok && failed.Step == step
}

// kernelSetting returns a setting below /proc/sys; empty: there is none.
func kernelSetting(name string) string {
	text, _ := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(text))
}
