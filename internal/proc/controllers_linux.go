package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/mountinfo"
)

// Controllers of the kernel, in the order of the limits that they enforce.
var controllerNames = [...]string{LimitMemory: "memory", LimitCPUs: "cpu", LimitProcesses: "pids"}

// groupLimits is how many limits control groups enforce: the first ones.
const groupLimits = len(controllerNames)

// memberships says in which cgroups this program is, and where they are mounted.
type memberships struct {
	mounts []mountinfo.Mount
	paths  map[string]string // by controller; "": version 2
}

func ownMemberships() (*memberships, error) {
	mounts, err := os.ReadFile(mountinfo.Own)
	if err != nil {
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return parseMemberships(string(mounts), string(groups))
}

// parseMemberships reads a list of mounts, and /proc/PID/cgroup.
func parseMemberships(mounts, groups string) (*memberships, error) {
	list, err := mountinfo.Parse(mounts)
	if err != nil {
		return nil, err
	}
	m := &memberships{list, map[string]string{}}
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		for _, controller := range strings.Split(fields[1], ",") {
			m.paths[controller] = fields[2]
		}
	}
	return m, nil
}

// ownCgroup is the directory of the cgroup (version 2) of this program.
func ownCgroup() (string, error) {
	m, err := ownMemberships()
	if err != nil {
		return "", err
	}
	return m.locate("", "cgroup2")
}

// locate joins the mount point of a hierarchy with the path of this program's cgroup in it. A controller has a
// hierarchy of its own in version 1, of the type cgroup; the hierarchy of version 2 has the controller "".
func (m *memberships) locate(controller, kind string) (string, error) {
	what := "a cgroup of version 2"
	if controller != "" {
		what = "a cgroup of the controller " + controller
	}
	path := m.paths[controller]
	if path == "" || strings.HasPrefix(path, "/..") {
		return "", fmt.Errorf("not in %s that can be seen", what)
	}
	for _, mount := range m.mounts {
		if mount.Type != kind || controller != "" && !slices.Contains(strings.Split(mount.Super, ","), controller) {
			continue
		}
		if below, err := filepath.Rel(mount.Root, path); err == nil && below != ".." && !strings.HasPrefix(below, "../") {
			return filepath.Join(mount.Point, below), nil
		}
	}
	return "", fmt.Errorf("no file system for %s is mounted", what)
}

// leafPrefix begins the name of the cgroup into which a server moves itself. The kernel enables no controllers below a
// cgroup that has processes.
const leafPrefix = "server-tether-"

// delegated are the controllers of version 2 that this program may use. That of the processors is enabled when it is needed: with it,
// the kernel divides the processors between groups instead of threads.
type delegated struct {
	own     string // the cgroup in which those of commands are made
	leaf    string // where this program is instead; "": it is in own
	enabled [groupLimits]bool
	missing error // why not all are, except for the processors

	keeper     Keeper // nil: none
	alone      bool   // this program and its keeper may be moved
	cpu        sync.Once
	cpuMissing error // why that of the processors is not enabled
}

// enable enables the controllers below the cgroup of this program.
func (d *delegated) enable(own string, keeper Keeper, alone bool) {
	d.own, d.keeper, d.alone = own, keeper, alone
	if strings.HasPrefix(filepath.Base(own), leafPrefix) { // an earlier program of the keeper has moved
		d.own, d.leaf = filepath.Dir(own), own
	}
	sweepLeaves(d.own)
	has := strings.Fields(readText(d.own + "/cgroup.controllers"))
	if !slices.ContainsFunc(controllerNames[:], func(c string) bool { return slices.Contains(has, c) }) {
		d.missing = fmt.Errorf("the cgroup %s has no controllers", d.own)
		return
	}
	d.missing = d.subtree(slices.DeleteFunc([]string{"memory", "pids", "io"}, func(c string) bool { return !slices.Contains(has, c) }))
}

// enableCPU enables the controller of the processors, also in the cgroups of commands, below parent.
func (d *delegated) enableCPU(parent string) {
	cpu := controllerNames[LimitCPUs]
	switch {
	case d.missing != nil:
		d.cpuMissing = d.missing
	case !slices.Contains(strings.Fields(readText(d.own+"/cgroup.controllers")), cpu):
		d.cpuMissing = fmt.Errorf("the cgroup %s does not have it", d.own)
	default:
		if d.cpuMissing = d.subtree([]string{cpu}); d.cpuMissing == nil {
			d.cpuMissing = writeText(parent+"/cgroup.subtree_control", "+"+cpu)
		}
	}
	d.enabled[LimitCPUs] = d.cpuMissing == nil
}

// can reports whether the controller of a limit works in the cgroups of commands, or why not.
func (c *cgroups) can(l Limit) (bool, error) {
	d := &c.delegated
	if l == LimitCPUs {
		d.cpu.Do(func() { d.enableCPU(c.parent.path) })
		return d.enabled[l], d.cpuMissing
	}
	return d.enabled[l], d.missing
}

// subtree lets the controllers work below own.
func (d *delegated) subtree(wanted []string) error {
	control := d.own + "/cgroup.subtree_control"
	enabled := strings.Fields(readText(control))
	missing := slices.DeleteFunc(slices.Clone(wanted), func(c string) bool { return slices.Contains(enabled, c) })
	if len(missing) == 0 {
		return nil
	}
	if err := d.ours(); err != nil {
		return err
	}
	text := "+" + strings.Join(missing, " +")
	err := writeText(control, text)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if err := d.move(); err != nil {
		return err
	}
	return writeText(control, text)
}

// ours reports why the cgroup of this program must not be changed; nil: it may be. A service manager that has not
// delegated a cgroup undoes changes.
func (d *delegated) ours() error {
	if _, err := os.Stat("/run/systemd/system"); err != nil || os.Geteuid() != 0 {
		return nil // without a manager it is the administrator's; another user can only write what was delegated to it
	}
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		value := make([]byte, 1)
		if n, err := unix.Getxattr(d.own, name, value); err == nil && n == 1 && value[0] == '1' {
			return nil
		}
	}
	return fmt.Errorf("the cgroup %s is not delegated to this program (Delegate=yes of its service)", d.own)
}

// move moves this program and its keeper into a leaf.
func (d *delegated) move() error {
	ours := []int{os.Getpid()}
	if d.keeper != nil {
		ours = append([]int{d.keeper.Pid()}, ours...)
	}
	for _, pid := range (&cgroup{path: d.own}).list() {
		if !slices.Contains(ours, pid) {
			return fmt.Errorf("the cgroup %s has other processes", d.own)
		}
	}
	if !d.alone || strings.Contains(d.own, "/"+cgroupPrefix) { // in the second case it is the cgroup of a command of another server
		return fmt.Errorf("the cgroup %s is not for a server alone", d.own)
	}
	leaf := filepath.Join(d.own, leafPrefix+strconv.Itoa(ours[0]))
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	d.leaf = leaf
	for _, pid := range ours {
		if err := writeText(leaf+"/cgroup.procs", strconv.Itoa(pid)); err != nil {
			d.leave()
			return err
		}
	}
	return nil
}

// leave undoes enable at the end of this program, if there are no other processes below the cgroup.
func (d *delegated) leave() {
	if d.leaf == "" {
		return
	}
	control := d.own + "/cgroup.subtree_control"
	for _, controller := range strings.Fields(readText(control)) {
		if writeText(control, "-"+controller) != nil {
			return // another program uses it
		}
	}
	for _, pid := range (&cgroup{path: d.leaf}).list() {
		if writeText(d.own+"/cgroup.procs", strconv.Itoa(pid)) != nil {
			return
		}
	}
	unix.Rmdir(d.leaf)
}

// sweepLeaves removes the leaves of programs that have died.
func sweepLeaves(own string) {
	leaves, _ := filepath.Glob(filepath.Join(own, leafPrefix+"*"))
	for _, leaf := range leaves {
		unix.Rmdir(leaf) // not possible if a process is in it
	}
}

// enableBelow lets the controllers work in the cgroups of commands, below parent.
func (d *delegated) enableBelow(parent string) {
	if d.missing != nil {
		return
	}
	for _, controller := range strings.Fields(readText(parent + "/cgroup.controllers")) {
		if controller == controllerNames[LimitCPUs] {
			continue // see enableCPU
		}
		err := writeText(parent+"/cgroup.subtree_control", "+"+controller)
		if i := slices.Index(controllerNames[:], controller); i >= 0 {
			d.enabled[i] = err == nil
			d.missing = errors.Join(d.missing, err)
		}
	}
}

// readText returns the content of a small file; "" if it cannot be read.
func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// writeText writes a text to a file of the kernel in one system call.
func writeText(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte(text))
		unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", text, path, err)
	}
	return nil
}
