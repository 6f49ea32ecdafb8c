package server_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/freezer"
	"github.com/tetherexec/tether/wire"
)

// Clients are told which processes a kill has left: the one that has terminated a command, the one that has ended a session, and those
// of the same principal that ask for a list.
func TestSurvivorsAreReported(t *testing.T) {
	t.Parallel()
	issuer := tethertest.NewIssuer(t)
	s := tethertest.StartServerOn(t, issuer.Listen(), server.Config{})
	cold := freezer.New(t)
	connect := func(subject string) *tethertest.Client {
		c := tethertest.DialToken(t, s.URL, issuer.Token(subject))
		c.Handshake("")
		return c
	}
	c := connect("alice")
	c.Start(tethertest.Shell("p", "sleep 1000 & echo $!; wait", nil))
	var pid int
	if _, err := fmt.Sscan(string(c.AwaitEvent("p").Chunk), &pid); err != nil {
		t.Fatal(err)
	}
	cold.Freeze(pid)
	isIt := func(left []wire.Survivor) bool {
		return len(left) == 1 && left[0].PID == pid && left[0].State == "D" && left[0].Command != "" && strings.Contains(left[0].Reason, "interrupted")
	}

	c.Terminate("p")
	note := c.Await("process/closed", func(m tethertest.Message) bool { return m.Method == wire.NoteProcessClosed })
	var closed wire.ProcessClosed
	if err := wire.Decode(note.Params, &closed); err != nil || !isIt(closed.TetherSurvivors) {
		t.Errorf("%s: %v", note.Raw, err)
	}
	var read wire.ReadResult
	c.Must(wire.MethodProcessRead, map[string]any{"processId": "p"}, &read)
	if !isIt(read.TetherSurvivors) {
		t.Errorf("read: %+v", read.TetherSurvivors)
	}
	other, strangers := connect("alice"), []*tethertest.Client{connect("bob"), connect("")}
	list := func() (l wire.ListResult) {
		for _, stranger := range strangers {
			if got := lists(stranger); got != [3]int{1, 0, 0} {
				t.Errorf("another principal sees %v sessions, processes and survivors", got)
			}
		}
		other.Must(wire.MethodProcessList, map[string]any{"sessionId": nil}, &l)
		return l
	}
	if l := list(); len(l.Processes) != 1 || !isIt(l.Processes[0].Survivors) || len(l.Survivors) != 0 {
		t.Errorf("list: %+v", l)
	}
	var end wire.SessionEndResult
	c.Must(wire.MethodSessionEnd, map[string]any{}, &end)
	if !isIt(end.Survivors) {
		t.Errorf("end: %+v", end)
	}
	if l := list(); len(l.Processes) != 0 || !isIt(l.Survivors) {
		t.Errorf("list after the end of the session: %+v", l)
	}
	cold.Thaw()
	tethertest.Eventually(t, func() error {
		if l := list(); len(l.Survivors) != 0 {
			return fmt.Errorf("listed after its end: %+v", l)
		}
		return nil
	})
}

// The account of a command is in its exit, in reads after it and in lists.
func TestUsageIsReported(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", "read x; dd if=/dev/zero of=/dev/null bs=200000000 count=1", map[string]any{"pipeStdin": true}))
	var read wire.ReadResult
	c.Must(wire.MethodProcessRead, map[string]any{"processId": "p"}, &read)
	if read.TetherUsage != nil {
		t.Errorf("before the exit: %+v", read.TetherUsage)
	}
	c.Write("p", "1", "\n")
	note := c.Await("process/exited", func(m tethertest.Message) bool { return m.Method == wire.NoteProcessExited })
	var exited wire.ProcessExited
	if err := wire.Decode(note.Params, &exited); err != nil {
		t.Fatal(err)
	}
	check := func(what string, u *wire.Usage) error {
		switch {
		case u == nil:
			return errors.New(what + ": none")
		case u.WallUs == 0 || u.BlockedUs != 0 || u.CPU() == 0 || !slices.Contains([]string{wire.OfTree, wire.OfWaited}, u.CPUOf):
			return fmt.Errorf("%s: %+v", what, u)
		case u.MemoryPeakBytes == nil || *u.MemoryPeakBytes < 200_000_000 || u.MemoryOf != wire.OfLargest && u.MemoryOf != wire.OfBound: // a bound if other tests have used more
			return fmt.Errorf("%s: memory %+v", what, u)
		case u.ReadBytes == nil || u.WrittenBytes == nil || u.IOOf == "" || u.MemoryKill != nil:
			return fmt.Errorf("%s: disk %+v", what, u)
		}
		return nil
	}
	c.Must(wire.MethodProcessRead, map[string]any{"processId": "p"}, &read)
	var list wire.ListResult
	c.Must(wire.MethodProcessList, map[string]any{"sessionId": nil}, &list)
	for what, u := range map[string]*wire.Usage{"exited": exited.TetherUsage, "read": read.TetherUsage, "list": list.Processes[0].TetherUsage} {
		if err := check(what, u); err != nil {
			t.Error(err)
		}
	}
}
