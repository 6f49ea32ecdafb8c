package client

import (
	"runtime"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// mebibyte is the output of each event in these tests.
var mebibyte = make([]byte, 1<<20)

// unread returns a process with a subscription that does not read, behind so many MiB
// of output.
func unread(c *Client, output int) (*Process, *Subscription) {
	p := newProcess(c, "P")
	s := p.Subscribe()
	s.idle = true
	p.mu.Lock()
	defer p.mu.Unlock()
	for range output {
		p.seq.last++
		p.publish(Event{Kind: Output, Seq: p.seq.last, Data: mebibyte})
	}
	return p, s
}

// With a server that keeps little, output is kept for a subscription that does not read:
// up to the limit of a process, and while all logs together have room.
func TestLogsOfUnreadProcesses(t *testing.T) {
	c := &Client{processes: newProcessTable()}
	var first *Subscription
	for i, want := range []struct{ output, kept int }{{60, 60}, {70, 64}, {70, 64}, {70, 64}, {70, 4}, {70, 1}} {
		p, s := unread(c, want.output)
		if got := p.log.bytes >> 20; got != want.kept || p.log.start != uint64(want.output-want.kept)+1 {
			t.Errorf("process %d: %d MiB are kept from event %d on, want %d MiB", i, got, p.log.start, want.kept)
		}
		if i == 0 {
			first = s
		}
	}
	// A reader frees room as it reads, and when it is closed.
	p := first.process
	for range 30 {
		if _, err := first.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.log.bytes >> 20; got != 30 {
		t.Errorf("after half of the output, %d MiB are kept", got)
	}
	first.Close()
	if got := p.log.bytes >> 20; got != 1 {
		t.Errorf("without a reader, %d MiB are kept", got)
	}
	// The other processes are garbage-collected, and their memory does not count any more.
	for deadline := time.Now().Add(hang.Limit); c.processes.kept.Load() > 1<<20; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d MiB are counted for logs that are gone", c.processes.kept.Load()>>20)
		}
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(p)
}

// With a server that keeps all output, the client does not keep it for a subscription that does
// not read.
func TestLogOfUnreadProcessWithAcknowledgements(t *testing.T) {
	t.Parallel()
	c := &Client{processes: newProcessTable()}
	c.session.acknowledges = true
	if p, _ := unread(c, 10); p.log.bytes != 1<<20 {
		t.Errorf("%d MiB are kept", p.log.bytes>>20)
	}
}

// The log is full for a subscription that reads if its own events fill the log, not if the
// events of a subscription that does not read do.
func TestLogIsFullForReader(t *testing.T) {
	t.Parallel()
	c := &Client{processes: newProcessTable()}
	p, _ := unread(c, 64)
	reader := p.SubscribeAfter(60)
	p.mu.Lock()
	defer p.mu.Unlock()
	late := p.logRoom()
	for _, try := range []struct {
		next uint64
		more int
		want bool
	}{
		{65, 1 << 20, false}, // it has read everything
		{61, 60 << 20, false},
		{61, 60<<20 + 1, true},
		{1, 0, false},
		{1, 1, true},
	} {
		reader.next = try.next
		if got := p.log.full(p.awaited(), try.more, late); got != try.want {
			t.Errorf("the log is full for a reader at %d with %d bytes more: %t", try.next, try.more, got)
		}
	}
}
