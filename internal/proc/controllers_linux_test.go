package proc

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/fork"
)

func init() {
	// The helper enables a controller below its cgroup, tells what has changed, and undoes it.
	helpers["delegated"] = func() {
		in := bufio.NewReader(os.Stdin)
		in.ReadString('\n') // until it is in its cgroup
		own, err := ownCgroup()
		if err != nil {
			fmt.Println(err)
			return
		}
		d := delegated{own: own, alone: true}
		tell := func(err error) {
			now, _ := ownCgroup()
			below, _ := filepath.Rel(own, now)
			fmt.Printf("%s|%s|%v\n", strings.TrimPrefix(below, leafPrefix+strconv.Itoa(os.Getpid())), strings.TrimSpace(readText(own+"/cgroup.subtree_control")), err)
		}
		tell(d.subtree(strings.Fields(readText(own + "/cgroup.controllers"))[:1]))
		in.ReadString('\n')
		d.leave()
		tell(nil)
	}
}

// A server that is alone in a cgroup with controllers moves into a leaf of it, and back at its end. If another process is there,
// nothing is changed. (This needs a cgroup that has controllers of version 2, as that of a service with Delegate=yes.)
func TestDelegatedControllers(t *testing.T) {
	own, err := ownCgroup()
	if err != nil {
		t.Skip(err)
	}
	group := filepath.Join(own, "delegated-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip(err)
	}
	defer removeCgroup(group)
	controllers := strings.Fields(readText(group + "/cgroup.controllers"))
	if len(controllers) == 0 {
		t.Skip("no controllers of version 2 here")
	}
	join := func(pid int) {
		if err := writeText(group+"/cgroup.procs", strconv.Itoa(pid)); err != nil {
			t.Fatal(err)
		}
	}
	for _, shared := range []bool{false, true} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), helperVariable+"=delegated")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		join(cmd.Process.Pid)
		lines, other := bufio.NewScanner(out), exec.Command("sleep", "1000")
		if shared {
			if err := other.Start(); err != nil {
				t.Fatal(err)
			}
			join(other.Process.Pid)
		}
		var told []string
		for range 2 {
			fmt.Fprintln(in)
			if lines.Scan() {
				told = append(told, lines.Text())
			}
		}
		in.Close()
		cmd.Wait()
		if shared {
			other.Process.Kill()
			other.Wait()
		}
		want := []string{"|" + controllers[0] + "|<nil>", ".||<nil>"}
		if shared {
			want[0] = ".||the cgroup " + group + " has other processes"
		}
		if strings.Join(told, "\n") != strings.Join(want, "\n") {
			t.Errorf("with another process %t: %q, want %q", shared, told, want)
		}
		if left, _ := filepath.Glob(group + "/" + leafPrefix + "*"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// The controller of the processors is enabled when a limit needs it, and no earlier: then the kernel divides the processors between
// groups instead of threads.
func TestCPUControllerOnDemand(t *testing.T) {
	own := t.TempDir()
	parent := filepath.Join(own, "parent")
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{own, parent} {
		for name, text := range map[string]string{"cgroup.controllers": "cpu io memory pids", "cgroup.subtree_control": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := &cgroups{parent: parentGroup{path: parent}}
	if c.delegated.own = own; c.delegated.ours() != nil { // a service manager is here
		if err := unix.Setxattr(own, "user.delegate", []byte("1"), 0); err != nil {
			t.Skip(err)
		}
	}
	c.delegated.enable(own, nil, false)
	c.delegated.enableBelow(parent)
	control := func() string {
		return readText(own+"/cgroup.subtree_control") + readText(parent+"/cgroup.subtree_control")
	}
	for _, l := range []Limit{LimitMemory, LimitProcesses} {
		if can, err := c.can(l); !can || err != nil {
			t.Errorf("%s: %v", l, err)
		}
	}
	if strings.Contains(control(), "cpu") || !strings.Contains(control(), "+memory +pids +io") {
		t.Errorf("enabled: %q", control())
	}
	if can, err := c.can(LimitCPUs); !can || err != nil || strings.Count(control(), "+cpu") != 2 {
		t.Errorf("enabled: %q, %v", control(), err)
	}
}

// The files of both versions get their values in the form that the kernel expects. When a command of version 2 has too much
// memory, all its processes are killed; when all commands together have too much, not all commands are.
func TestLimitFiles(t *testing.T) {
	limits := Limits{LimitMemory: 1 << 30, LimitCPUs: 1500, LimitProcesses: 256}
	all := [groupLimits]bool{true, true, true}
	for _, row := range []struct {
		name string
		set  func(dir string) error
		want map[string]string
	}{
		{"a command, version 2", func(dir string) error {
			return (&Enforced{Limits: limits, By: [LimitCount]By{ByCgroup2, ByCgroup2, ByCgroup2}}).set(dir)
		}, map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "150000 100000", "pids.max": "256"}},
		{"all commands, version 2", func(dir string) error {
			l := &limiter{total: limits, v2: &cgroups{parent: parentGroup{path: dir}, delegated: delegated{enabled: all}}}
			l.v2.delegated.cpu.Do(func() {}) // it is enabled
			l.limitAll()
			return l.totalErrs
		}, map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "", "cpu.max": "150000 100000", "pids.max": "256"}},
		{"version 1", func(dir string) (err error) {
			for i := range groupLimits {
				if e := setLimit(dir, ByCgroup1, Limit(i), limits[i]); !swapCounts() {
					err = errors.Join(err, e)
				}
			}
			return err
		}, map[string]string{"memory.limit_in_bytes": "1073741824", "cpu.cfs_quota_us": "150000", "pids.max": "256"}},
	} {
		dir := t.TempDir()
		for name := range row.want {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := row.set(dir); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		for name, text := range row.want {
			if got := readText(filepath.Join(dir, name)); got != text {
				t.Errorf("%s: %s has %q, want %q", row.name, name, got, text)
			}
		}
	}
}

// If the kernel refuses a cgroup that was used before, it is made again. (A command that enables controllers below its cgroup makes the
// kernel refuse it, too.)
func TestCgroupThatIsRefusedIsMadeAgain(t *testing.T) {
	s := newSupervisor(t, Config{})
	if s.host.cgroups == nil {
		t.Skip("no writable cgroup file system of version 2 here")
	}
	finish(t, s, shell("true"))
	group, fd, err := s.host.cgroups.take(&Enforced{})
	if err != nil {
		t.Fatal(err)
	}
	group.before.System = time.Hour
	if err := unix.Rmdir(group.path); err != nil {
		t.Fatal(err)
	}
	r := &forkRequest{ctx: t.Context(), program: "/bin/sleep", argv: []string{"sleep", "1000"}, dir: -1, files: []int{0, 1, 2}, group: group, cgroup: fd, close: []int{fd}}
	f, starter := s.host.forks, fork.NewStarter()
	defer starter.Close()
	result := f.serve(starter, r)
	if result.err != nil {
		t.Fatal(result.err)
	}
	if !result.inCgroup || !group.members()[result.pid] || group.before.System != 0 {
		t.Errorf("%+v, members %v, CPU time of others %+v", result, group.members(), group.before)
	}
	f.discard(result)
	group.await(time.Now().Add(testTimeout))
	r.giveUp()
}
