package conformance

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/certs"
	"github.com/tetherexec/tether/wire"
)

// A stage is a server, a cable to it, and an agent.
type stage struct {
	*agent
	server *tethertest.Server
	cable  *cable.Cable
	dir    string      // for files
	secure *tls.Config // with a certificate that the agent trusts
}

// sessionTTL is how long a server keeps a session without a connection: longer than a scene of a busy machine cuts one.
const sessionTTL = 10 * time.Minute

// connected opens a session.
func (s *stage) connected(more args) result {
	s.t.Helper()
	all := args{"url": s.cable.URL(), "ttlMs": sessionTTL.Milliseconds()}
	for name, value := range more {
		all[name] = value
	}
	return s.do("connect", all)
}

// script is what every client has to do.
var script = []struct {
	name string
	play func(*stage)
}{
	{"output and exit", outputAndExit},
	{"streams", streams},
	{"output through cuts", outputThroughCuts},
	{"lost answer to a start", lostStart},
	{"start that never arrived", unsentStart},
	{"refused start", refusedStart},
	{"input through cuts", inputThroughCuts},
	{"closed input", closedInput},
	{"terminal", terminal},
	{"signals", signals},
	{"terminate", terminate},
	{"exit while away", exitWhileAway},
	{"slow reader", slowReader},
	{"reader that pauses", pausedReader},
	{"flood and other commands", floodAndOthers},
	{"lost output", lostOutput},
	{"half-open connection", halfOpen},
	{"takeover", takeover},
	{"shutdown", shutdown},
	{"session that the server does not know", unknownSession},
	{"refused upgrades", refusedUpgrades},
	{"garbage", garbage},
	{"server without tether's additions", plainServer},
	{"much output through many cuts", muchOutput},
	{"files", filesOnce},
	{"files through cuts", filesThroughCuts},
	{"no proxy", noProxy},
	{"through a proxy", throughProxies},
	{"proxy that refuses", refusingProxies},
	{"ports through cuts", portsThroughCuts},
	{"lost acknowledgements of ports", lostAcknowledgements},
	{"half-closed ports", halfClosedPorts},
	{"refused ports", refusedPorts},
	{"reset ports", resetPorts},
	{"ports whose readers do not read", stuckPorts},
	{"many connections to a port", manyPorts},
	{"port of a process", portOfProcess},
	{"port that the server has lost", lostPort},
	{"much through a port", muchThroughPort},
}

func TestClients(t *testing.T) {
	for _, in := range languages {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			cert, key := certs.New(t, "conformance", "build.invalid")
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			secure := &tls.Config{Certificates: []tls.Certificate{pair}}
			// One for all: starting programs takes longer than most scenes.
			a := startAgent(t, in, "SSL_CERT_FILE="+cert, "NODE_EXTRA_CA_CERTS="+cert)
			for _, row := range script {
				t.Run(row.name, func(t *testing.T) {
					whole := a.t
					a.t = t
					defer func() { a.t = whole }()
					s := tethertest.StartServer(t, server.Config{Version: "1.0"})
					defer func() { a.answer("close", a.begin("close", nil)) }() // fails if the session is lost
					row.play(&stage{agent: a, server: s, cable: tethertest.LayCable(t, s.URL), dir: t.TempDir(), secure: secure})
				})
			}
		})
	}
}

func sumOf(data []byte) summary {
	sum := sha256.Sum256(data)
	return summary{int64(len(data)), hex.EncodeToString(sum[:])}
}

// wants compares what was read of a stream with what was printed.
func (s *stage) wants(r result, stream string, data []byte) {
	s.t.Helper()
	if got, want := r.Streams[stream], sumOf(data); got != want {
		s.t.Errorf("%s: got %d bytes with the digest %.8s…, want %d with %.8s…", stream, got.Bytes, got.SHA256, want.Bytes, want.SHA256)
	}
}

func shell(process, script string) args {
	return args{"process": process, "argv": []string{"/bin/sh", "-c", script}}
}

func with(a args, name string, value any) args {
	a[name] = value
	return a
}

// readAll reads a process to its end and waits for its exit.
func (s *stage) readAll(process string) (r result, code int) {
	s.t.Helper()
	r = s.do("read", args{"process": process})
	if !r.Ended {
		s.t.Errorf("%s: the output has not ended", process)
	}
	return r, s.do("wait", args{"process": process}).Code
}

// through checks how many connections the client has made.
func (s *stage) through(atLeast int) {
	s.t.Helper()
	if n := s.cable.Links(); n < atLeast {
		s.t.Errorf("only %d connections were used, want %d", n, atLeast)
	}
}

func outputAndExit(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", "echo one; echo two; exit 3"))
	r, code := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("one\ntwo\n"))
	if code != 3 {
		s.t.Errorf("exit code %d", code)
	}
}

func streams(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", `printf '\377\000\303\251'; echo error >&2`))
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("\xff\x00\xc3\xa9"))
	s.wants(r, wire.StreamStderr, []byte("error\n"))
}

// outputThroughCuts cuts the connection around messages with output, and then around the messages by which the client recovers.
func outputThroughCuts(s *stage) {
	s.connected(nil)
	s.cable.On(cable.FromServer, cable.Method(wire.NoteProcessOutput).Nth(5).Times(1), cable.SeverAfter)
	s.cable.On(cable.FromServer, cable.Method(wire.NoteProcessOutput).Nth(9).Times(1), cable.ResetBefore)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessRead).Nth(1).Times(1), cable.SeverBefore)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessRead).Nth(2).Times(1), cable.SeverAfter)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodInitialize).Nth(4).Times(1), cable.SeverBefore)
	s.do("start", shell("p", "i=0; while [ $i -lt 12 ]; do i=$((i+1)); seq 1 12000; sleep 0.01; done"))
	r, code := s.readAll("p")
	var want []byte
	for range 12 {
		want = append(want, numbers(1, 12000)...)
	}
	s.wants(r, wire.StreamStdout, want)
	if code != 0 {
		s.t.Errorf("exit code %d", code)
	}
	s.through(5)
}

// lostStart loses the answer to a start: the command runs once, and its output is complete.
func lostStart(s *stage) {
	s.connected(nil)
	file := filepath.Join(s.dir, "starts")
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessStart), cable.SeverBefore)
	s.do("start", shell("p", "echo started >> "+file+"; echo here"))
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("here\n"))
	if content, err := os.ReadFile(file); string(content) != "started\n" {
		s.t.Errorf("the file of starts has %q, %v", content, err)
	}
	s.through(2)
}

func unsentStart(s *stage) {
	s.connected(nil)
	s.cable.On(cable.FromClient, cable.Method(wire.MethodProcessStart), cable.SeverBefore)
	s.do("start", shell("p", "echo here"))
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("here\n"))
}

func refusedStart(s *stage) {
	s.connected(nil)
	s.fails("refused", "start", args{"process": "p", "argv": []string{"/no/such/program"}})
	s.do("start", shell("p", "echo here"))
	s.readAll("p")
}

// inputThroughCuts loses writes before and after the server has accepted them.
func inputThroughCuts(s *stage) {
	s.connected(nil)
	s.do("start", with(shell("p", "sha256sum; echo end"), "stdin", true))
	s.cable.On(cable.FromClient, cable.Method(wire.MethodProcessWrite).Nth(2).Times(1), cable.SeverBefore)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessWrite).Nth(3).Times(1), cable.SeverBefore)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessCloseStdin).Nth(1).Times(1), cable.SeverBefore)
	s.do("write", args{"process": "p", "first": 1, "last": 200_000})
	s.do("write", args{"process": "p", "text": "the end\n"})
	s.do("closeStdin", args{"process": "p"})
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte(sumOf(append(numbers(1, 200_000), "the end\n"...)).SHA256+"  -\nend\n"))
	s.through(3)
}

func closedInput(s *stage) {
	s.connected(nil)
	s.do("start", with(shell("p", "cat; echo done; sleep 60"), "stdin", true))
	s.do("closeStdin", args{"process": "p"})
	s.do("read", args{"process": "p", "until": "done\n"})
	s.fails("stdinClosed", "write", args{"process": "p", "text": "late\n"})
	s.do("terminate", args{"process": "p"})
	s.readAll("p")
}

func terminal(s *stage) {
	s.connected(nil)
	start := with(with(with(shell("p", "stty size; read line; stty size"), "tty", true), "rows", 30), "cols", 100)
	s.do("start", start)
	s.do("read", args{"process": "p", "until": "30 100"})
	s.do("resize", args{"process": "p", "rows": 50, "cols": 132})
	s.do("write", args{"process": "p", "text": "x\n"})
	s.do("read", args{"process": "p", "until": "50 132"})
	if _, code := s.readAll("p"); code != 0 {
		s.t.Errorf("exit code %d", code)
	}
}

// signals loses the answer to a signal: it arrives once.
func signals(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", `trap 'echo signal' USR1; trap 'echo end; exit 7' TERM; echo ready; while :; do sleep 0.01; done`))
	s.do("read", args{"process": "p", "until": "ready\n"})
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessSignalAny), cable.SeverBefore)
	s.do("signal", args{"process": "p", "signal": "SIGUSR1"})
	s.do("read", args{"process": "p", "until": "signal\n"})
	s.do("signal", args{"process": "p", "signal": "SIGTERM"})
	r, code := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("ready\nsignal\nend\n"))
	if code != 7 {
		s.t.Errorf("exit code %d", code)
	}
}

func terminate(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", "echo ready; sleep 60"))
	s.do("read", args{"process": "p", "until": "ready\n"})
	s.cable.On(cable.FromClient, cable.Method(wire.MethodProcessTerminate), cable.SeverBefore)
	if !s.do("terminate", args{"process": "p"}).Running {
		s.t.Error("the process did not run")
	}
	if _, code := s.readAll("p"); code != 143 {
		s.t.Errorf("exit code %d", code)
	}
}

// exitWhileAway lets a process print and exit while there is no connection.
func exitWhileAway(s *stage) {
	s.connected(nil)
	fifo := filepath.Join(s.dir, "gate")
	s.do("start", shell("p", "mkfifo "+fifo+"; echo ready; cat "+fifo+"; seq 1 1000; exit 5"))
	s.do("read", args{"process": "p", "until": "ready\n"})
	s.cable.Cut()
	waiting := s.begin("wait", args{"process": "p"})
	if err := os.WriteFile(fifo, []byte("open\n"), 0); err != nil {
		s.t.Fatal(err)
	}
	c := tethertest.Connect(s.t, s.server.URL)
	tethertest.Eventually(s.t, func() error { return closedProcess(c) })
	s.cable.Mend()
	r := s.do("read", args{"process": "p"})
	s.wants(r, wire.StreamStdout, append([]byte("ready\nopen\n"), numbers(1, 1000)...))
	if code := s.await("wait", waiting).Code; code != 5 {
		s.t.Errorf("exit code %d", code)
	}
	s.through(2)
}

// closedProcess reports whether the only process of the server is closed.
func closedProcess(c *tethertest.Client) error {
	var list wire.ListResult
	m := c.Call(wire.MethodProcessList, args{})
	if err := wire.Decode(m.Result, &list); err != nil {
		return err
	}
	if len(list.Processes) != 1 || list.Processes[0].State != wire.StateClosed {
		return fmt.Errorf("the processes are %+v", list.Processes)
	}
	return nil
}
