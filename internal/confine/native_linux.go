package confine

import (
	"bytes"
	"errors"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/native"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// loadStage opens the image of the native stage, unless that was done before.
func (c *Confiner) loadStage() error {
	if c.stageImage != nil {
		return nil
	}
	program, err := native.Image()
	if err != nil {
		return err
	}
	image, err := sealed("stage", bytes.NewReader(program))
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &st); err != nil {
		image.Close()
		return err
	}
	c.stageImage, c.stageDev, c.stageIno = image, st.Dev, st.Ino
	return nil
}

// markBlockable finds the mounts that a process of root may be unable to reach once it has no capabilities. For other users the
// server has found them with the rights that the command has.
func markBlockable(mounts []stage.Mount) {
	if os.Geteuid() != 0 {
		return
	}
	known := map[string]bool{"/": false}
	var blocked func(dir string) bool
	blocked = func(dir string) bool {
		is, ok := known[dir]
		if !ok {
			var st unix.Stat_t
			err := unix.Lstat(dir, &st)
			is = blocked(path.Dir(dir)) || err == nil && st.Uid != 0 && st.Mode&unix.S_IXOTH == 0
			known[dir] = is
		}
		return is
	}
	for i := range mounts {
		mounts[i].Blockable = mounts[i].Path != "/" && blocked(path.Dir(mounts[i].Path))
	}
}

// lastCapability returns the number of the last capability that the kernel has.
func lastCapability() int {
	n, err := strconv.Atoi(kernelSetting("kernel/cap_last_cap"))
	if err != nil {
		return unix.CAP_LAST_CAP
	}
	return n
}

// firstPort is the port of the first listener inside. In a network that no process has used every port is free.
const firstPort = 41000

// useNative makes the launcher the first process of the sandbox, which carries out the plan as a script. ownProgram: the command
// is this program, whatever its name.
func (l *launch) useNative(support Support, filter []byte, config *stage.Config, ownProgram bool) error {
	c := l.confiner
	markBlockable(config.Mounts)
	order := native.Order{
		Plan: l.prepared.Plan, Config: config, Filter: filter, Hidden: c.masks.hidden, Empty: c.masks.empty,
		UID: os.Geteuid(), LastCapability: c.lastCapability, OwnProgram: ownProgram,
		StageDev: c.stageDev, StageIno: c.stageIno,
	}
	for i := range config.Listen {
		order.Ports = append(order.Ports, firstPort+i)
	}
	if err := config.SetPorts(order.Ports); err != nil {
		return err
	}
	script, err := native.Compile(&order)
	if err != nil {
		return sandbox.Unenforceable("%v", err)
	}
	encoded, err := script.Encode()
	if err != nil {
		return sandbox.Unenforceable("%v", err)
	}
	if c.spoil != nil {
		c.spoil(script, encoded)
	}
	if _, err := l.giveBytes("script", encoded); err != nil {
		return err
	}
	channel, theirs, err := stage.NewChannel()
	if err != nil {
		return err
	}
	l.channel = channel
	l.give(theirs)
	l.script, l.runsSelf = script, ownProgram
	l.launcher.Path, l.launcher.Argv, l.launcher.Env = at.ProcPath(firstFile+len(l.files)), []string{"tether: sandbox"}, nil
	ns := l.prepared.Plan.Namespaces
	l.launcher.First = &proc.Namespaces{
		User: ns.User && !support.NoUser, IPC: ns.IPC, Net: ns.Net,
		// The filter lets no process bind, connect or listen: there is nothing in the network by which two commands could meet.
		NetUnused: l.prepared.Plan.Filter == sandbox.FilterRestricted,
	}
	l.launcher.Stays = true
	return nil
}

// explained names the step of a native sandbox that has failed.
func (l *launch) explained(err error) error {
	failed, ok := errors.AsType[*stage.StepError](err)
	if !ok || l.script == nil {
		return err
	}
	err = l.script.Explain(failed.Address, uint64(failed.Errno))
	if _, ok := errors.AsType[*proc.StartError](err); ok {
		return err
	}
	return cannotBuild(err)
}
