package observe

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// stranger is a variable: this program, started as another user, inspects the
// process with the pid in it.
const stranger = "TETHER_TEST_LOOK_AT"

func TestMain(m *testing.M) {
	if pid, err := strconv.Atoi(os.Getenv(stranger)); err == nil {
		json.NewEncoder(os.Stdout).Encode(Decide(inspect(processTree{root: pid, members: []int{pid}})))
		return
	}
	os.Exit(m.Run())
}

// started is a command that ends with the test.
func started(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// awaitVerdict inspects until the verdict is the expected one.
func awaitVerdict(t *testing.T, look func() Verdict, want Activity) Verdict {
	t.Helper()
	for deadline := time.Now().Add(hang.Limit); ; time.Sleep(time.Millisecond) {
		v := look()
		if v.Activity == want {
			return v
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want %s", v, want)
		}
	}
}

// Without the permission to inspect a process, its state is visible, and the
// verdict is marked as partial.
func TestLookWithoutPermission(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	pid := started(t, exec.Command("sleep", "1000"))
	v := awaitVerdict(t, func() (v Verdict) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{stranger + "=" + strconv.Itoa(pid)}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("cannot become another user: %v", err)
		}
		if err := json.Unmarshal(out, &v); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return v
	}, Waiting)
	if !v.Partial || len(v.Seen) != 1 || v.Seen[0].Saw != "state S, system call not visible" || v.Name != "sleep" {
		t.Errorf("%+v", v)
	}
}

// The holder of a pipe is found outside of the tree, too.
func TestLookFindsHoldersOutsideTheTree(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("sleep", "1000")
	holder.ExtraFiles = []*os.File{w}
	holderPID := started(t, holder)
	cat := exec.Command("cat")
	cat.Stdin = r
	pid := started(t, cat)
	r.Close()
	w.Close()
	v := awaitVerdict(t, func() Verdict {
		v := Decide(inspect(processTree{root: pid, members: []int{pid}}))
		if v.Partial && v.Holder.PID == 0 { // a busy machine has cut the inspection short
			v.Activity = Unknown
		}
		return v
	}, BlockedOnPipe)
	if v.Holder != (Holder{holderPID, "sleep"}) {
		t.Errorf("%+v", v)
	}
}

func TestLookAtMissingProcess(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if v := Decide(inspect(processTree{root: cmd.Process.Pid, members: []int{cmd.Process.Pid}})); v.Activity != Unknown {
		t.Errorf("%+v", v)
	}
}

// A name may contain anything; its form in the verdict fits into a line.
func TestLookAtAStrangeName(t *testing.T) {
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	name := dir + "/) R\n 1 (x"
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(name, program, 0o755); err != nil {
		t.Fatal(err)
	}
	pid := started(t, exec.Command(name, "1000"))
	v := awaitVerdict(t, func() Verdict { return Decide(inspect(processTree{root: pid, members: []int{pid}})) }, Sleeping)
	if v.Name != ") R? 1 (x" || strings.Contains(v.Text, "\n") {
		t.Errorf("%+v", v)
	}
}

// A zombie is recognised, and its parent's waiting explains more.
func TestLookAtAZombie(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	pid := cmd.Process.Pid
	v := awaitVerdict(t, func() Verdict { return Decide(inspect(processTree{root: pid, members: []int{pid}})) }, Zombie)
	if v.PID != pid || v.Seen[0].Saw != "state Z" {
		t.Errorf("%+v", v)
	}
}

// The inspection of many processes is bounded, and says that it is partial.
func TestLookIsBounded(t *testing.T) {
	pid := started(t, exec.Command("sleep", "1000"))
	members := make([]int, maxProcesses+1)
	for i := range members {
		members[i] = pid
	}
	e := inspect(processTree{root: pid, members: members})
	if len(e.Processes) > maxProcesses || !e.Partial {
		t.Errorf("%d processes, partial %t", len(e.Processes), e.Partial)
	}
}
