package terminal

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

func TestLogPrinter(t *testing.T) {
	t.Parallel()
	events := []client.Event{
		{Kind: client.Output, Seq: 1, Stream: wire.StreamStdout, Data: []byte("one\ntw")},
		{Kind: client.Output, Seq: 2, Stream: wire.StreamStderr, Data: []byte("bad one\n")},
		{Kind: client.Output, Seq: 3, Stream: wire.StreamStdout, Data: []byte("o\nthree")},
		{Kind: client.Exited, Seq: 4},
		{Kind: client.Closed, Seq: 5},
	}
	for _, try := range []struct {
		tail           int
		grep           string
		stdout, stderr string
	}{
		{-1, "", "one\ntwo\nthree", "bad one\n"},
		{-1, "^t", "two\nthree", ""},
		{-1, "one$", "one\n", "bad one\n"},
		{2, "", "two\nthree", ""},
		{3, "", "two\nthree", "bad one\n"},
		{1, "one", "", "bad one\n"},
		{0, "", "", ""},
	} {
		var stdout, stderr bytes.Buffer
		p := &LogPrinter{Stdout: &stdout, Stderr: &stderr, Tail: try.tail}
		if try.grep != "" {
			p.Grep = regexp.MustCompile(try.grep)
		}
		for _, e := range events {
			if err := p.Event(client.Observed{Event: e}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Finish(); err != nil || stdout.String() != try.stdout || stderr.String() != try.stderr {
			t.Errorf("tail %d, grep %q: %q and %q, %v", try.tail, try.grep, stdout.String(), stderr.String(), err)
		}
	}
}

// With timestamps each line begins with the time of its first byte; lines from before
// the time that was asked for are left out.
func TestLogPrinterTimes(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 5, 4, 3, 2, second, 0, time.Local) }
	var out bytes.Buffer
	p := &LogPrinter{Stdout: &out, Stderr: &out, Tail: -1, Times: true, From: at(1)}
	for i, text := range []string{"early\n", "be", "gun\nwhole\nla", "st\n", "open"} {
		e := client.Event{Kind: client.Output, Seq: uint64(i + 1), Stream: wire.StreamStdout, Data: []byte(text)}
		if err := p.Event(client.Observed{Event: e, Time: at(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Finish(); err != nil {
		t.Fatal(err)
	}
	line := func(second int, text string) string { return at(second).Format(timestampLayout) + " " + text }
	if want := line(1, "begun\n") + line(2, "whole\n") + line(2, "last\n") + line(4, "open"); out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}
