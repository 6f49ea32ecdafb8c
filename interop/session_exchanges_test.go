//go:build interop

package interop_test

import (
	"fmt"
	"strings"
	"time"
)

var sessionExchanges = []exchange{
	{name: "session/resume", compares: wholeReplies, play: func(p *player) {
		a := p.open()
		startTalker(a, "r")
		a.Close()
		b := p.resume(a)
		b.ask("before initialized", "process/read", `{"processId":"r"}`)
		b.text(`{"method":"initialized","params":{}}`)
		p.note("same session", fmt.Sprint(b.session == a.session))
		b.ask("what was there", "process/read", `{"processId":"r","afterSeq":0,"maxBytes":null,"waitMs":0}`)
		p.note("write id is remembered", withoutID(b.write("r", "2", "o three\n")))
		b.write("r", "4", "o four\n")
		b.seen("r", "four")
		b.write("r", "5", "x 6\n")
		b.gone("r", "process/closed")
		b.ask("end", "process/read", `{"processId":"r","afterSeq":3}`)
		b.ask("id stays taken", "process/start", startParams("r", sh("true"), ""))
	}},
	{name: "session/what happened while detached", compares: wholeReplies, play: func(p *player) {
		a := p.open()
		detached, done := p.newGate("detached"), p.newGate("done")
		a.start("r", sh(`echo before; `+detached.awaited()+`; echo while; `+done.opened()+`; exit 5`), "")
		a.seen("r", "before")
		a.Close()
		detached.open(p)
		done.await(p) // the process has printed everything
		b := p.resume(a)
		b.text(`{"method":"initialized","params":{}}`)
		p.note("end", b.readToClose("r"))
	}},
	{name: "session/attached elsewhere", compares: wholeReplies, play: func(p *player) {
		a := p.open()
		b := p.dial()
		b.ask("resume of a live session", "initialize", `{"clientName":"x","resumeSessionId":"`+a.session+`"}`)
		a.ask("the old one is undisturbed", "environment/status", `null`)
		b.ask("a session of its own", "initialize", helloParams)
		a.Close()
		c := p.resume(a)
		p.note("after the drop", fmt.Sprint(c.session == a.session))
	}},
	{name: "session/unknown", compares: wholeReplies, play: func(p *player) {
		a := p.dial()
		a.ask("unknown", "initialize", `{"clientName":"x","resumeSessionId":"`+unknownSession+`"}`)
		b := p.open()
		a.ask("not by upper case", "initialize", `{"clientName":"x","resumeSessionId":"`+strings.ToUpper(b.session)+`"}`)
	}},
	{name: "session/protocol error detaches", compares: wholeReplies, play: func(p *player) {
		a := p.open()
		a.start("r", sh("read x; echo $x"), `"pipeStdin":true`)
		a.text(`{"method":"no/such"}`)
		a.awaitEnd()
		b := p.resume(a)
		b.text(`{"method":"initialized","params":{}}`)
		p.note("process lives", withoutID(b.write("r", "1", "hi\n")))
		p.note("end", b.readToClose("r"))
	}},
	{name: "session/process ids are private", compares: wholeReplies, play: func(p *player) {
		a, b := p.open(), p.open()
		a.start("mine", sh("read x"), `"pipeStdin":true`)
		b.ask("read", "process/read", `{"processId":"mine"}`)
		p.note("write", withoutID(b.write("mine", "1", "x")))
		b.ask("terminate", "process/terminate", `{"processId":"mine"}`)
		p.note("untouched", withoutID(a.write("mine", "1", "x\n")))
		a.process("end", "mine")
	}},
}

// resume attaches the session of a dropped connection to a new one. It repeats the attempt until the server has noticed the drop.
func (p *player) resume(old *conn) *conn {
	p.t.Helper()
	deadline := time.Now().Add(timeLimit)
	for {
		c := p.dial()
		problem := c.initialize(old.session)
		if problem == "" || !strings.Contains(problem, "-32010") || time.Now().After(deadline) {
			if problem != "" {
				p.t.Errorf("%s: resume: %s", p.who, problem)
			}
			return c
		}
		c.Close()
	}
}

// readToClose reads a process page by page until it is closed and returns its output and exit. The rest of a truncated answer may
// come in notifications.
func (c *conn) readToClose(id string) string {
	var out strings.Builder
	after := 0
	for range 100 {
		raw := c.call("process/read", fmt.Sprintf(`{"processId":%q,"afterSeq":%d,"waitMs":1000}`, id, after))
		r := decodeRead(raw)
		for _, chunk := range r.Result.Chunks {
			out.Write(chunk.Chunk)
		}
		after = r.Result.NextSeq - 1
		if r.Result.Closed {
			_, exit, _ := strings.Cut(raw, `"exitCode":`)
			exit, _, _ = strings.Cut(exit, ",")
			return fmt.Sprintf("%q exit %s", out.String(), exit)
		}
		if after < 0 {
			return raw
		}
	}
	return "never closed"
}
