package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A client behind `tether chaos` meets the faults of the flags, and each is reported and in the
// trace.
func TestChaos(t *testing.T) {
	t.Parallel()
	server := startTether(t, "serve")
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(trace, []byte("an older trace"), 0o644); err != nil {
		t.Fatal(err)
	}
	chaos := startChaos(t, "--target", server.line(t), "--trace", trace, "--seed", "1", "--latency", "1ms", "--rate", "10MiB",
		"--drop", "process/output:1", "--duplicate", "process/exited", "--hold", "answer:process/terminate:1", "--hold-for", "10ms",
		"--cut-after", "process/closed:1")
	url := chaos.line(t)
	c := tethertest.Connect(t, url)
	c.Start(tethertest.Shell("p", "echo lost", nil))
	for _, want := range []string{"process/exited", "process/exited", "process/closed"} {
		if e := c.AwaitEvent("p"); e.Method != want {
			t.Errorf("received %+v, want %s", e, want)
		}
	}
	c.Ended()
	c = tethertest.Connect(t, url)
	ask := c.Ask("process/terminate", map[string]any{"processId": "q"})
	c.Must("environment/status", map[string]any{}, nil) // passes the held message
	c.Answer(ask)
	c.Close()

	if err := chaos.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	chaos.Wait()
	told := chaos.stderr.String()
	if code := chaos.ProcessState.ExitCode(); code != 0 {
		t.Errorf("ended with %v", chaos.ProcessState)
	}
	for _, want := range []string{
		"seed 1\n", "link 1 opened\n", "link 1 dropped: process/output from the server (",
		"link 1 duplicated: process/exited from the server (", "link 2 held for 10ms: answer to process/terminate from the server (",
		"2 links, 0 refused, 0 cuts, 0 freezes; ", "1 dropped, 1 duplicated, 1 held for 10ms, 1 severed after\n",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is missing in:\n%s", want, told)
		}
	}
	checkTrace(t, trace)
}

// startChaos starts `tether chaos`, which finds its program in PATH.
func startChaos(t *testing.T, args ...string) *program {
	t.Helper()
	path := filepath.Dir(mcpBuilt(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	return startTetherEnv(t, []string{"PATH=" + path}, append([]string{"chaos"}, args...)...)
}

// checkTrace looks for the dropped output in a trace.
func checkTrace(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the trace is %v, %v", info.Mode(), err)
	}
	dropped := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Link       int
			From, Fate string
			Message    struct{ Method string }
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Link == 0 {
			t.Fatalf("line %s: %v", lines.Bytes(), err)
		}
		if line.Fate == "dropped" && line.From == "server" && line.Message.Method == "process/output" {
			dropped++
		}
	}
	if dropped != 1 {
		t.Errorf("%d dropped outputs in the trace, want 1", dropped)
	}
}

// A signal ends it at once, also in the middle of an outage.
func TestChaosEndsBySignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := startChaos(t, "--target", "ws://127.0.0.1:1", "--cut-every", "5ms", "--cut-for", "1h", "--freeze-every", "5ms")
		p.line(t)
		p.Process.Signal(sig)
		p.Wait()
		if code := p.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.stderr.String(), "0 links") {
			t.Errorf("%v: ended with %v: %s", sig, p.ProcessState, p.stderr)
		}
	}
}
