package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// hiddenOrphan is a process that no search of its command's tree finds: it has left the session
// and closed the outputs, and its parent has exited.
const hiddenOrphan = `(setsid sh -c 'trap "" TERM; echo pid=$$; exec >/dev/null 2>&1; while :; do sleep 1000; done' &); `

func init() {
	helpers["end"] = func() {
		s := New(Config{Subreaper: true, NoCgroups: true})
		sink := printSink{make(chan struct{})}
		if _, err := s.Start(background, shell(hiddenOrphan), sink); err != nil {
			panic(err)
		}
		<-sink.done // it has printed its pid and closed its outputs
		other := exec.Command("sleep", "1000")
		if err := other.Start(); err != nil {
			panic(err)
		}
		s.Close()
		fmt.Printf("spared=%d\n", other.Process.Pid)
		io.Copy(io.Discard, os.Stdin) // until the test has checked
		other.Process.Kill()
		other.Wait()
	}
}

// At its end a subreaper kills all processes that its commands left, even hidden ones, and no
// others.
func TestSubreaperKillsOrphansAtItsEnd(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdin io.Closer
	cmd, lines := startHelper(t, "end", func(cmd *exec.Cmd) {
		cmd.Path = "/bin/sh"
		cmd.Args = []string{"sh", "-c", `setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo spared=$!; exec "$0"`, exe}
		if stdin, err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	})
	var hiddenOrphans, spared []int
	for len(spared) < 2 && lines.Scan() {
		var pid int
		if _, err := fmt.Sscanf(lines.Text(), "pid=%d", &pid); err == nil {
			hiddenOrphans = append(hiddenOrphans, pid)
		}
		if _, err := fmt.Sscanf(lines.Text(), "spared=%d", &pid); err == nil {
			spared = append(spared, pid)
		}
	}
	if len(hiddenOrphans) != 1 || len(spared) != 2 {
		t.Errorf("hiddenOrphans %v, spared %v", hiddenOrphans, spared)
	}
	for _, pid := range hiddenOrphans {
		if alive(pid) {
			t.Errorf("the orphan %d is alive after the end", pid)
			syscall.Kill(-pid, syscall.SIGKILL) // it leads its group
		}
	}
	for _, pid := range spared {
		p, err := pin(pid)
		if err != nil || !alive(pid) {
			t.Errorf("process %d, which no command started, was killed (%v)", pid, err)
			continue
		}
		p.signal(9)
		p.close()
	}
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// A program can find out whether it has children without reading the whole process
// table.
func TestHasChildren(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !hasChildren() {
		t.Error("the child is not found")
	}
	cmd.Process.Kill()
	cmd.Wait()
}
