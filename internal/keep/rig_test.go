//go:build linux && (amd64 || arm64)

package keep

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/executable"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// dirVariable is in the environment of all processes of a rig, so that those that are left over can be found.
const dirVariable = "KEEP_TEST_DIR"

// A rig is a keeper with its workers.
type rig struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	ledger *ledger
	pid    int // of the keeper
	ended  bool
}

// softFiles is the soft limit of descriptors with which a rig is started. The Go runtime raises its own.
const softFiles = 150

// startRig starts a keeper and returns when it listens.
func startRig(t *testing.T, s firstStage) *rig {
	t.Helper()
	s.Dir = t.TempDir()
	if s.Mode == "" {
		s.Mode = modeServe
	}
	r := &rig{t: t, dir: s.Dir}
	memory, err := unix.MemfdCreate("ledger", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(memory), "ledger")
	defer file.Close()
	if r.ledger, err = openLedger(file); err != nil {
		t.Fatal(err)
	}
	settings, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(s.Dir, "tether") // a name of its own, which a test may replace
	if err := os.Link(self, name); err != nil {
		if err := executable.Copy(self, name); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("ulimit -Sn %d; exec %s", softFiles, name)
	if s.Before {
		script = fmt.Sprintf("env -i sleep 1000 & echo $! >%s/before; %s", s.Dir, script)
	}
	if s.Ignore != "" {
		script = fmt.Sprintf("trap '' %s; %s", s.Ignore, script)
	}
	r.cmd = exec.Command("/bin/sh", "-c", script)
	r.cmd.Env = append(os.Environ(), firstVariable+"="+string(settings), dirVariable+"="+s.Dir, "GORACE=atexit_sleep_ms=0")
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: !s.Job, Setpgid: s.Job} // without a terminal, as a service
	r.cmd.ExtraFiles = []*os.File{file}
	r.cmd.Stderr = log
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.pid = r.cmd.Process.Pid
	t.Cleanup(r.close)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the first stage said %q: %v\n%s", line, err, r.log())
	}
	return r
}

// close kills what is left, and shows the log of a failed test.
func (r *rig) close() {
	if !r.ended {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	}
	for _, pid := range r.processes() {
		unix.Kill(pid, unix.SIGKILL)
	}
	if r.t.Failed() {
		r.t.Logf("log:\n%s", r.log())
	}
}

func (r *rig) log() string {
	text, _ := os.ReadFile(filepath.Join(r.dir, "log"))
	return string(text)
}

// try sends a request to the worker. A connection waits for the next worker if there is none.
func (r *rig) try(q request) (answer response, err error) {
	conn, err := net.Dial("unix", filepath.Join(r.dir, "socket"))
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return answer, err
	}
	return answer, json.NewDecoder(conn).Decode(&answer)
}

// patience is much longer than any answer takes.
const patience = hang.Limit

// ask is try for a request that must be answered.
func (r *rig) ask(q request) response {
	r.t.Helper()
	answer, err := r.try(q)
	if err == nil && answer.Err != "" {
		err = fmt.Errorf("%s", answer.Err)
	}
	if err != nil {
		r.t.Fatalf("%+v: %v", q, err)
	}
	return answer
}

// until waits until a condition holds that no event announces.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			r.t.Fatalf("in vain waited until %s", what)
		}
	}
}

// killWorker kills the worker and returns the first answer of the next one.
func (r *rig) killWorker(sig unix.Signal) response {
	r.t.Helper()
	before := r.ask(request{})
	unix.Kill(before.Pid, sig)
	return r.nextWorker(before)
}

// nextWorker returns the first answer of a worker after this one.
func (r *rig) nextWorker(before response) (answer response) {
	r.t.Helper()
	r.until("the next worker answers", func() bool {
		var err error
		answer, err = r.try(request{})
		return err == nil && answer.Number > before.Number
	})
	return answer
}

// stop ends the server with a signal and checks its exit status, and that nothing is left.
func (r *rig) stop(sig unix.Signal, status int) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
	r.wait(status)
}

// wait waits for the end of the keeper.
func (r *rig) wait(status int) {
	r.t.Helper()
	r.cmd.Wait()
	r.ended = true
	got := r.cmd.ProcessState.Sys().(interface{ ExitStatus() int }).ExitStatus()
	if got != status {
		r.t.Errorf("the keeper ended with status %d (%v), not %d", got, r.cmd.ProcessState, status)
	}
	r.until("no process is left", func() bool { return len(r.processes()) == 0 })
}

// processes returns the pids of all processes of the rig.
func (r *rig) processes() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		env, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(env, []byte(dirVariable+"="+r.dir+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// children returns the children of the keeper, zombies too.
func (r *rig) children() (pids []int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", r.pid, r.pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, field := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// descriptors returns what the descriptors of the keeper are, without those that the Go runtime has for itself.
func (r *rig) descriptors() (links []string) {
	r.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", r.pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, entry := range entries {
		link, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if err == nil && !strings.HasPrefix(link, "/sys/fs/cgroup/") {
			links = append(links, link)
		}
	}
	return links
}

// state returns the state of a process as in /proc/PID/stat; 0 if there is none.
func state(pid int) byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte(") "))
	return rest[0]
}
