//go:build interop

package interop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// approvalMethod is the method by which the client asks its user about a command.
const approvalMethod = "item/commandExecution/requestApproval"

// commands returns a script with which the model runs one command per request and then ends the turn. The shell is no login shell,
// because the time of its profiles would count as time of the command.
func commands(each ...string) func(turn int, outputs []string) modelItem {
	return func(turn int, _ []string) modelItem {
		if turn > len(each) {
			return say("done")
		}
		return execCommand(turn, map[string]any{"cmd": each[turn-1], "login": false})
	}
}

// lateDenials is how often the model tries a command whose denial comes too late.
const lateDenials = 8

// untilAsked returns a script with which the model runs commands, and repeats the last one as long as its denial came too late for a
// question. No machine is fast enough every time.
func untilAsked(each ...string) func(turn int, outputs []string) modelItem {
	once := commands(each...)
	return func(turn int, outputs []string) modelItem {
		if turn > len(each) && turn < len(each)+lateDenials && strings.Contains(outputs[len(outputs)-1], "Read-only file system") {
			return execCommand(turn, map[string]any{"cmd": each[len(each)-1], "login": false})
		}
		return once(turn, outputs)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// wantDenied checks the attempt in the sandbox: the request, the answer of the executor, and the verdict in the exit. The verdict of
// the reference may come before the words of the denial.
func (a *appServer) wantDenied(s tappedStart, e tappedExit) {
	t := a.t
	t.Helper()
	if !strings.Contains(string(s.Sandbox), `"permissions"`) || s.Type != "linuxSeccomp" {
		t.Errorf("the first start has sandbox %s and the answer %q %v, want an intent and linuxSeccomp", s.Sandbox, s.Type, s.err)
	}
	if e.Code == 0 || e.Denied == nil || !*e.Denied && a.who != ref {
		t.Errorf("the attempt in the sandbox ended with %v, want sandboxDenied true", e)
	}
	t.Logf("start to answer %v, answer to exit %v", s.answered.Sub(s.asked), e.at.Sub(s.answered))
}

// window is how long after the answer to a start the client looks for a denial, less the time that the exit may need to reach it.
const window = 50 * time.Millisecond

// askedOnce checks that the user was asked once, about this command. The reference needs so long to set up a sandbox that on a busy
// machine it always misses the window of its client. Then askedOnce returns false, and the test ends here.
func (a *appServer) askedOnce(command string) bool {
	a.t.Helper()
	if starts, exits := a.wire.commands(command); a.who == ref && len(a.asked) == 0 && len(starts) == lateDenials {
		soonest := exits[0].at.Sub(starts[0].answered)
		for i := range starts {
			soonest = min(soonest, exits[i].at.Sub(starts[i].answered))
		}
		if soonest > window {
			a.t.Logf("the user was not asked: the denied command ended at the earliest %v after the answer", soonest)
			return false
		}
	}
	if len(a.asked) != 1 {
		a.t.Fatalf("the user was asked %d times: %+v", len(a.asked), a.asked)
	}
	if r := a.asked[0]; r.Method != approvalMethod || r.Kind != "command" || !strings.Contains(r.Cmd, command) {
		a.t.Errorf("the user was asked %s %s, want a question about %q", r.Method, r.Raw, command)
	}
	return true
}

// wantToolOutput checks the nth tool output that the model was shown.
func (a *appServer) wantToolOutput(n int, parts ...string) {
	a.t.Helper()
	outputs := a.outputs()
	if len(outputs) < n {
		a.t.Fatalf("the model was shown %d outputs, want %d", len(outputs), n)
	}
	for _, part := range parts {
		if !strings.Contains(outputs[n-1], part) {
			a.t.Errorf("no %q in what the model was shown:\n%s", part, outputs[n-1])
		}
	}
}

// TestSandboxCodexApproval plays a denial from beginning to end: a command in a read-only sandbox writes a file, the executor prevents
// it and reports the denial, the client asks its user, and after the approval starts the command again without a sandbox.
//
// The client asks only if the denied command has ended within 150 ms after the answer to its start. A later denial is shown to the
// model without a question. So the question, in one of a few attempts, shows that setting up the sandbox does not use up that
// time. The late command before it shows that the client has such a time limit.
func TestSandboxCodexApproval(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		const late, denied = "sleep 1; echo late > late.txt", "echo try; echo data > written.txt && echo wrote"
		a := newAppServer(t, who, "read-only", untilAsked(late, denied))
		written := filepath.Join(a.workspace, "written.txt")
		early := false
		a.user = func(approvalRequest) string {
			early = exists(written)
			return "accept"
		}
		a.turn()

		if !a.askedOnce(denied) {
			return
		}
		if early {
			t.Error("the file existed before the user approved")
		}
		if content, err := os.ReadFile(written); string(content) != "data\n" {
			t.Errorf("after the approval the file holds %q, %v", content, err)
		}
		starts, exits := a.wire.commands(denied)
		last := len(starts) - 1
		if last < 1 {
			t.Fatalf("the command was started %d times, want 2 at least", len(starts))
		}
		for i := range last {
			a.wantDenied(starts[i], exits[i])
		}
		if retry, exit := starts[last], exits[last]; string(retry.Sandbox) != "null" || retry.Type != "none" ||
			exit.Code != 0 || exit.Denied == nil || *exit.Denied {
			t.Errorf("the retry has sandbox %s, the answer %q and ended with %v", retry.Sandbox, retry.Type, exit)
		}
		if starts[last-1].ProcessID == starts[last].ProcessID {
			t.Error("both attempts have the same process id")
		}
		a.wantToolOutput(1+last, "Process exited with code 0", "try\nwrote") // behind that of the late command

		starts, exits = a.wire.commands(late)
		if len(starts) != 1 {
			t.Fatalf("the late command was started %d times, want 1", len(starts))
		}
		a.wantDenied(starts[0], exits[0])
		a.wantToolOutput(1, "Process exited with code 1", "late.txt: Read-only file system")
		if exists(filepath.Join(a.workspace, "late.txt")) {
			t.Error("the late command has written its file")
		}
	})
}

// TestSandboxCodexDeclined: without approval there is no second attempt.
func TestSandboxCodexDeclined(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		const denied = "echo data > written.txt"
		a := newAppServer(t, who, "read-only", untilAsked(denied))
		a.user = func(approvalRequest) string { return "decline" }
		a.turn()

		if !a.askedOnce(denied) {
			return
		}
		starts, exits := a.wire.commands(denied)
		for i := range starts {
			a.wantDenied(starts[i], exits[i])
		}
		if exists(filepath.Join(a.workspace, "written.txt")) {
			t.Error("the file is there although the user has declined")
		}
		if got := len(a.outputs()); got != len(starts) {
			t.Errorf("the command was started %d times for %d calls", len(starts), got)
		}
		a.wantToolOutput(len(starts), "rejected by user")
	})
}

// TestSandboxCodexWorkspaceWrite: a command may write into the workspace without a
// question, but not into its .git.
func TestSandboxCodexWorkspaceWrite(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		const allowed, denied = "echo data > made.txt && cat made.txt", "echo evil > .git/config"
		a := newAppServer(t, who, "workspace-write", untilAsked(allowed, denied))
		config := filepath.Join(a.workspace, ".git", "config")
		if err := os.Mkdir(filepath.Dir(config), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte("[core]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		a.user = func(approvalRequest) string { return "decline" }
		a.turn()

		if !a.askedOnce(denied) {
			return
		}
		starts, exits := a.wire.commands(allowed)
		if len(starts) != 1 || starts[0].Type != "linuxSeccomp" || exits[0].Code != 0 || exits[0].Denied == nil || *exits[0].Denied {
			t.Errorf("the allowed command: %+v, %v", starts, exits)
		}
		a.wantToolOutput(1, "Process exited with code 0", "data")
		if content, err := os.ReadFile(filepath.Join(a.workspace, "made.txt")); string(content) != "data\n" {
			t.Errorf("the file in the workspace holds %q, %v", content, err)
		}
		starts, exits = a.wire.commands(denied)
		if got := len(a.outputs()); got != 1+len(starts) {
			t.Fatalf("the denied command was started %d times for %d calls", len(starts), got-1)
		}
		for i := range starts {
			a.wantDenied(starts[i], exits[i])
		}
		if content, err := os.ReadFile(config); string(content) != "[core]\n" {
			t.Errorf(".git/config holds %q, %v", content, err)
		}
		for _, name := range []string{".agents", ".codex", ".aws"} {
			if exists(filepath.Join(a.workspace, name)) {
				t.Errorf("the executor has left %s in the workspace", name)
			}
		}
	})
}
