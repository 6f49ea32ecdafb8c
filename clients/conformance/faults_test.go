package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// flood is how much the tests about slow readers print: more than clients keep in memory.
const flood = 1_300_000 // lines, 9 MB

// slowReader reads all of a flood with pauses.
func slowReader(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", "seq 1 400000"))
	s.do("read", args{"process": "p", "bytes": 500_000, "pauseMs": 10})
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, numbers(1, 400_000))
}

// pausedReader does not read for a while: the client keeps only a part of the output and gets the rest from the server later.
func pausedReader(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", "seq 1 1300000"))
	s.do("read", args{"process": "p", "bytes": 1})
	c := tethertest.Connect(s.t, s.server.URL)
	tethertest.Eventually(s.t, func() error { return closedProcess(c) })
	s.cable.Sever()
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, numbers(1, flood))
}

// floodAndOthers: output that is not read delays no other command.
func floodAndOthers(s *stage) {
	s.connected(nil)
	s.do("start", shell("flood", "seq 1 1300000"))
	s.do("start", with(shell("echo", "cat"), "stdin", true))
	for range 5 {
		s.do("write", args{"process": "echo", "text": "hello\n"})
		s.do("read", args{"process": "echo", "until": "hello\n"})
	}
	s.do("closeStdin", args{"process": "echo"})
	r, _ := s.readAll("echo")
	s.wants(r, wire.StreamStdout, bytes.Repeat([]byte("hello\n"), 5))
	r, _ = s.readAll("flood")
	s.wants(r, wire.StreamStdout, numbers(1, flood))
}

// lostOutput loses, doubles and delays single notifications on a connection that stays.
func lostOutput(s *stage) {
	s.connected(nil)
	s.cable.On(cable.FromServer, cable.Method(wire.NoteProcessOutput).Nth(2), cable.Drop)
	s.cable.On(cable.FromServer, cable.Method(wire.NoteProcessOutput).Nth(4), cable.Duplicate)
	s.cable.On(cable.FromServer, cable.Method(wire.NoteProcessOutput).Nth(6), cable.Behind(2))
	s.do("start", shell("p", "i=0; while [ $i -lt 10 ]; do i=$((i+1)); echo $i; sleep 0.01; done"))
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, numbers(1, 10))
}

// halfOpen loses everything on a connection that stays open: the client notices the silence and makes another one.
func halfOpen(s *stage) {
	s.connected(args{"silenceMs": 5000})
	s.do("start", with(shell("p", "cat"), "stdin", true))
	s.do("write", args{"process": "p", "text": "before\n"})
	s.do("read", args{"process": "p", "until": "before\n"})
	links := s.cable.Links()
	for link := 1; link <= links; link++ { // on a busy machine an answer may have come too late before
		for _, from := range []cable.Direction{cable.FromClient, cable.FromServer} {
			for _, message := range []cable.Match{cable.Any(), cable.Ping(), cable.Pong()} {
				s.cable.On(from, message.OnLink(link).Always(), cable.Drop)
			}
		}
	}
	s.do("write", args{"process": "p", "text": "after\n"})
	s.do("closeStdin", args{"process": "p"})
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("before\nafter\n"))
	s.through(links + 1)
}

// takeover lets another client resume the session while the first one is connected.
func takeover(s *stage) {
	id := s.connected(nil).SessionID
	s.do("start", shell("p", "echo ready; sleep 60"))
	s.do("read", args{"process": "p", "until": "ready\n"})
	reading := s.begin("read", args{"process": "p"})
	// The session moves as soon as its old connection does not answer a ping.
	s.cable.On(cable.FromClient, cable.Pong().Always(), cable.Drop)
	tethertest.Resume(s.t, s.server.URL, id)
	if got := s.answer("read", reading); got.Error != "takenOver" {
		s.t.Errorf("reading failed with %q: %s", got.Error, got.Message)
	}
	s.fails("takenOver", "wait", args{"process": "p"})
	s.fails("takenOver", "start", shell("q", "true"))
	if n := s.cable.Links(); n != 1 {
		s.t.Errorf("the client has made %d connections", n)
	}
}

func shutdown(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", "echo ready; sleep 60"))
	s.do("read", args{"process": "p", "until": "ready\n"})
	reading := s.begin("read", args{"process": "p"})
	s.server.Stop()
	if got := s.answer("read", reading); got.Error != "serverStopped" {
		s.t.Errorf("reading failed with %q: %s", got.Error, got.Message)
	}
	s.fails("serverStopped", "start", shell("q", "true"))
}

// unknownSession aims the client at another server.
func unknownSession(s *stage) {
	s.connected(nil)
	s.do("start", shell("p", "echo ready; sleep 60"))
	reading := s.begin("read", args{"process": "p"})
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodInitialize), cable.Fail(wire.CodeInvalidRequest, "unknown session id 1"))
	s.cable.Sever()
	if got := s.answer("read", reading); got.Error != "sessionLost" {
		s.t.Errorf("reading failed with %q: %s", got.Error, got.Message)
	}
	s.fails("sessionLost", "start", shell("q", "true"))
}

// refusedUpgrades answers with an error of a proxy for a while.
func refusedUpgrades(s *stage) {
	s.connected(nil)
	s.do("start", with(shell("p", "cat"), "stdin", true))
	s.cable.OnUpgrade(cable.Any().Times(3), cable.Status(503))
	s.cable.Sever()
	s.do("write", args{"process": "p", "text": "after\n"})
	s.do("closeStdin", args{"process": "p"})
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("after\n"))
	s.through(2)
}

// garbage sends the client a message that is none, and messages that it does not know.
func garbage(s *stage) {
	s.connected(nil)
	s.do("start", with(shell("p", "cat"), "stdin", true))
	for _, message := range []string{
		`{"method":"tether/new","params":{"x":1}}`, `{"id":77777,"result":{}}`,
		`{"method":"process/output","params":{"processId":"another","seq":1,"stream":"stdout","chunk":"eA=="}}`,
	} {
		if err := s.cable.Inject(cable.FromServer, message); err != nil {
			s.t.Fatal(err)
		}
	}
	s.do("write", args{"process": "p", "text": "one\n"})
	s.do("read", args{"process": "p", "until": "one\n"})
	if n := s.cable.Links(); n != 1 {
		s.t.Errorf("messages that the client does not know have cost %d connections", n-1)
	}
	if err := s.cable.Inject(cable.FromServer, `{"method":`); err != nil {
		s.t.Fatal(err)
	}
	s.do("write", args{"process": "p", "text": "two\n"})
	s.do("closeStdin", args{"process": "p"})
	r, _ := s.readAll("p")
	s.wants(r, wire.StreamStdout, []byte("one\ntwo\n"))
	s.through(2)
}

// plainServer makes the server look like the reference: clients find out by reading whether a start has arrived.
func plainServer(s *stage) {
	tethertest.Plain(s.cable)
	s.connected(nil)
	file := filepath.Join(s.dir, "starts")
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessStart), cable.SeverBefore)
	s.do("start", shell("p", "echo started >> "+file+"; seq 1 1000; sleep 0.05; seq 1 1000"))
	s.cable.On(cable.FromServer, cable.Method(wire.NoteProcessOutput), cable.SeverBefore)
	r, code := s.readAll("p")
	s.wants(r, wire.StreamStdout, append(numbers(1, 1000), numbers(1, 1000)...))
	if content, err := os.ReadFile(file); string(content) != "started\n" || code != 0 {
		s.t.Errorf("the file of starts has %q, %v; exit code %d", content, err, code)
	}
	s.cable.On(cable.FromClient, cable.Method(wire.MethodProcessStart), cable.SeverBefore)
	s.do("start", with(shell("q", `trap 'exit 130' INT; read line; echo "$line"; while :; do sleep 0.01; done`), "stdin", true))
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodProcessWrite), cable.SeverBefore)
	s.do("write", args{"process": "q", "text": "hello\n"})
	s.do("read", args{"process": "q", "until": "hello\n"})
	s.do("signal", args{"process": "q", "signal": "SIGINT"})
	if _, code := s.readAll("q"); code != 130 {
		s.t.Errorf("exit code %d", code)
	}
	s.through(4)
}

// muchOutput cuts the connection again and again, each time after some messages with output.
func muchOutput(s *stage) {
	lines, cuts := tethertest.Scaled(900_000, 14_500_000), tethertest.Scaled(5, 20) // 6 and 120 MB
	s.connected(nil)
	s.cable.On(cable.FromServer, cable.Method(wire.NoteProcessOutput).Nth(lines/cuts/20_000).Every(lines/cuts/20_000).Times(cuts), cable.SeverBefore)
	s.do("start", args{"process": "p", "argv": []string{"seq", "1", strconv.Itoa(lines)}})
	begun := time.Now()
	r, _ := s.readAll("p")
	want := numbers(1, lines)
	s.wants(r, wire.StreamStdout, want)
	s.t.Logf("%d MB through %d cuts: %.0f MB/s", len(want)/1e6, s.cable.Links()-1, float64(len(want))/1e6/time.Since(begun).Seconds())
	s.through(3)
}

func filesOnce(s *stage) {
	s.connected(nil)
	path := filepath.Join(s.dir, "a b%é.txt")
	s.do("putFile", args{"path": path, "first": 1, "last": 100})
	if got, want := s.do("getFile", args{"path": path}).summary, sumOf(numbers(1, 100)); got != want {
		s.t.Errorf("read %+v, want %+v", got, want)
	}
	r := s.do("stat", args{"path": path})
	if r.Size != int64(len(numbers(1, 100))) || !r.IsFile || r.IsDirectory {
		s.t.Errorf("stat: %+v", r)
	}
	if r := s.do("list", args{"path": s.dir}); len(r.Names) != 1 || r.Names[0] != filepath.Base(path) {
		s.t.Errorf("list: %q", r.Names)
	}
	s.do("putFile", args{"path": path, "first": 1, "last": 0})
	if r := s.do("stat", args{"path": path}); r.Size != 0 {
		s.t.Errorf("an empty file has %d bytes", r.Size)
	}
	s.fails("notFound", "getFile", args{"path": filepath.Join(s.dir, "missing")})
	s.fails("notFound", "stat", args{"path": filepath.Join(s.dir, "missing")})
}

func filesThroughCuts(s *stage) {
	s.connected(nil)
	path := filepath.Join(s.dir, "big")
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodUploadOpen), cable.SeverBefore)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodUploadWrite).Nth(2).Times(1), cable.SeverBefore)
	s.cable.On(cable.FromClient, cable.Method(wire.MethodUploadWrite).Nth(3).Times(1), cable.SeverBefore)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodUploadCommit), cable.SeverBefore)
	s.do("putFile", args{"path": path, "first": 1, "last": 400_000})
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodFsReadBlock).Nth(2).Times(1), cable.SeverBefore)
	s.cable.On(cable.FromServer, cable.Answer(wire.MethodFsOpen).Nth(2).Times(1), cable.SeverBefore)
	if got, want := s.do("getFile", args{"path": path}).summary, sumOf(numbers(1, 400_000)); got != want {
		s.t.Errorf("read %+v, want %+v", got, want)
	}
	s.through(4)
}
