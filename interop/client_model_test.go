//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// modelTime is how long TestClientModel runs with each product. With 0 it plays three histories, the same ones in each run, and
// only with tether.
var modelTime = flag.Duration("model", tethertest.Scaled(0, 2*time.Minute), "duration of TestClientModel with each product")

// TestClientModel makes random calls through a cable with random faults and checks the history afterwards: each start happened
// once, each accepted write reached its process once and in order, each byte of output arrived once and in order.
func TestClientModel(t *testing.T) {
	program(t, tether)
	settings := map[string]string{"rapid.checks": "3"}
	if *modelTime == 0 {
		settings["rapid.seed"] = "1"
	}
	for name, value := range settings {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range products {
		if who == ref && *modelTime == 0 {
			continue
		}
		t.Run(string(who), func(t *testing.T) {
			program(t, who)
			url := sharedServer(t, who).url
			rounds := 0
			for end := time.Now().Add(*modelTime); rounds == 0 || time.Now().Before(end) && !t.Failed(); rounds++ {
				rapid.Check(t, func(rt *rapid.T) { playModel(rt, who, url) })
			}
			t.Logf("%d histories", 3*rounds)
		})
	}
}

// A modelled process prints each line that it reads, until it reads END.
const modelled = `echo start >> "$1"; while IFS= read -r line; do [ "$line" = END ] && exit 9; printf '%s\n' "$line"; done; exit 1`

// A subject is one process of a history.
type subject struct {
	*client.Process
	file    string // gets a line for each start
	written bytes.Buffer
	output  chan outputRead
}

type outputRead struct {
	data []byte
	err  error
}

// A history is one round: a client, its cable, and its processes.
type history struct {
	*rapid.T
	who   product
	dir   string
	ctx   context.Context
	cable *cable.Cable
	*client.Client
	subjects []*subject
}

func playModel(rt *rapid.T, who product, url string) {
	dir, err := os.MkdirTemp(suite.work, "model-")
	if err != nil {
		rt.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), stepTime)
	defer cancel()
	h := &history{T: rt, who: who, dir: dir, ctx: ctx}
	if h.cable, err = cable.Lay(ctx, cable.Config{Target: url}); err != nil {
		rt.Fatal(err)
	}
	defer h.cable.Close()
	if h.Client, err = client.Dial(ctx, h.cable.URL(), client.Options{}); err != nil {
		rt.Fatal(err)
	}
	defer h.Client.Close()
	rt.Repeat(map[string]func(*rapid.T){
		"start":      h.start,
		"write":      h.write,
		"write many": h.writeMany,
		"sever":      func(*rapid.T) { h.cable.Sever() },
		"reset":      func(*rapid.T) { h.cable.Reset() },
		"cut": func(t *rapid.T) {
			h.cable.CutFor(time.Duration(rapid.IntRange(1, 80).Draw(t, "ms")) * time.Millisecond)
		},
		"freeze": func(t *rapid.T) {
			h.cable.Freeze()
			time.Sleep(time.Duration(rapid.IntRange(1, 50).Draw(t, "ms")) * time.Millisecond)
			h.cable.Thaw()
		},
		"trap": h.trap,
	})
	h.cable.Mend()
	h.finish()
}

// trap causes a fault at one of the next messages.
func (h *history) trap(t *rapid.T) {
	from := rapid.SampledFrom([]cable.Direction{cable.FromClient, cable.FromServer}).Draw(t, "from")
	nth := rapid.IntRange(1, 4).Draw(t, "nth")
	method := rapid.SampledFrom([]string{"process/write", "process/start", "process/read", "initialize"}).Draw(t, "method")
	match := cable.Method(method).Nth(nth)
	actions := []cable.Action{cable.SeverBefore, cable.SeverAfter, cable.ResetBefore, cable.ResetAfter}
	if from == cable.FromServer {
		match = cable.Answer(method).Nth(nth)
		if rapid.Bool().Draw(t, "output") {
			match = cable.Method("process/output").Nth(nth)
			actions = append(actions, cable.Drop, cable.Duplicate, cable.Behind(2))
		}
	}
	h.cable.On(from, match, actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")])
}

func (h *history) start(t *rapid.T) {
	if len(h.subjects) == 4 {
		return
	}
	s := &subject{file: filepath.Join(h.dir, fmt.Sprint(len(h.subjects))), output: make(chan outputRead, 1)}
	p, err := h.Client.Start(h.ctx, client.Command{Argv: []string{"/bin/bash", "-c", modelled, "x", s.file}, Dir: suite.work, Stdin: true})
	if h.who == ref && errors.Is(err, client.ErrAmbiguous) {
		return // it never gets beyond starting
	}
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	s.Process = p
	out := p.Output()
	go func() {
		data, err := io.ReadAll(out)
		s.output <- outputRead{data, err}
	}()
	h.subjects = append(h.subjects, s)
}

func (h *history) pick(t *rapid.T) *subject {
	for len(h.subjects) == 0 {
		h.start(t)
	}
	return h.subjects[rapid.IntRange(0, len(h.subjects)-1).Draw(t, "process")]
}

// write sends a line and waits until it is accepted.
func (h *history) write(t *rapid.T) {
	s := h.pick(t)
	line := fmt.Sprintf("line %d %s\n", s.written.Len(), strings.Repeat("x", rapid.IntRange(0, 2000).Draw(t, "length")))
	s.written.WriteString(line)
	if err := s.Write(h.ctx, []byte(line)); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// writeMany sends lines without waiting for each.
func (h *history) writeMany(t *rapid.T) {
	s := h.pick(t)
	in := s.Stdin()
	for i := range rapid.IntRange(1, 20).Draw(t, "lines") {
		line := fmt.Sprintf("many %d %d\n", s.written.Len(), i)
		s.written.WriteString(line)
		if _, err := io.WriteString(in, line); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
}

// finish ends all processes and compares.
func (h *history) finish() {
	for i, s := range h.subjects {
		if err := s.Write(h.ctx, []byte("END\n")); err != nil {
			h.Fatalf("process %d: the last write: %v", i, err)
		}
		var got outputRead
		select {
		case got = <-s.output:
		case <-h.ctx.Done():
			h.Fatalf("process %d: its output does not end, after event %d", i, s.LastSeq())
		}
		if got.err != nil {
			h.Fatalf("process %d: %v", i, got.err)
		}
		if !bytes.Equal(got.data, s.written.Bytes()) {
			h.Fatalf("process %d: %d bytes came out of %d that went in; the same up to %d", i, len(got.data), s.written.Len(), same(got.data, s.written.Bytes()))
		}
		if exit, err := s.Wait(h.ctx); err != nil || exit.Code != 9 {
			h.Fatalf("process %d: exit %+v, %v", i, exit, err)
		}
		if starts, err := os.ReadFile(s.file); string(starts) != "start\n" {
			h.Fatalf("process %d: started %q, %v", i, starts, err)
		}
	}
}

// same counts the bytes before the first difference.
func same(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
