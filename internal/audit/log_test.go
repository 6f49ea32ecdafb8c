package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/linequeue"
)

// A paper is a target that can be made to fail.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
	fail error
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return 0, p.fail
	}
	return p.text.Write(b)
}

func (p *paper) Close() error { return nil }

func (p *paper) become(fail error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

// events returns the events that are on the paper.
func (p *paper) events(t *testing.T) (list []Event) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range bytes.Lines(p.text.Bytes()) {
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

// on returns a Log that writes on p.
func on(p *paper, strict bool) *Log {
	return newLog(Config{Strict: strict, Log: slog.New(slog.DiscardHandler)}, p)
}

func TestLinesAreInOrder(t *testing.T) {
	p := new(paper)
	l := on(p, false)
	for i := range 5000 {
		l.Record(Event{Event: ProcessStarted, Process: fmt.Sprint(i), Time: time.Unix(int64(i), 0)})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := p.events(t)
	if len(got) != 5000 || l.Dropped() != 0 {
		t.Fatalf("%d lines, %d dropped", len(got), l.Dropped())
	}
	for i, e := range got {
		if e.Process != fmt.Sprint(i) || !e.Time.Equal(time.Unix(int64(i), 0)) {
			t.Fatalf("line %d is %+v", i, e)
		}
	}
	l.Record(Event{}) // nothing happens
}

// While nothing can be written, lines wait up to the limit. What comes then is dropped, and a line says how many.
func TestDroppedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(paper)
		p.become(errors.New("disk full"))
		l := on(p, false)
		for i := range maxLines + 7 {
			l.Record(Event{Event: ProcessStarted, Process: fmt.Sprint(i)})
		}
		if l.Dropped() != 7 || l.Ready() != nil {
			t.Errorf("%d dropped, %v", l.Dropped(), l.Ready())
		}
		p.become(nil)
		time.Sleep(linequeue.RetryTime)
		synctest.Wait()
		l.Record(Event{Event: ProcessStarted, Process: "later"})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		got := p.events(t)
		if n := len(got); n != maxLines+2 || got[n-2].Event != LinesDropped || got[n-2].Count != 7 || got[n-1].Process != "later" {
			t.Errorf("%d lines, the last are %+v", len(got), got[max(0, len(got)-2):])
		}
	})
}

// A strict log is not ready while it cannot be written, and ready again afterwards.
func TestStrictLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(paper)
		l := on(p, true)
		if err := l.Ready(); err != nil {
			t.Error(err)
		}
		p.become(errors.New("disk full"))
		l.Record(Event{Event: ProcessStarted})
		synctest.Wait()
		if err := l.Ready(); !errors.Is(err, ErrFull) || !strings.HasSuffix(err.Error(), "disk full") {
			t.Errorf("while the disk is full: %v", err)
		}
		p.become(nil)
		time.Sleep(linequeue.RetryTime)
		synctest.Wait()
		if err := l.Ready(); err != nil || len(p.events(t)) != 1 {
			t.Errorf("when there is room again: %v, %d lines", err, len(p.events(t)))
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The end of a server does not wait for a disk that stays full.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(paper)
		p.become(errors.New("disk full"))
		l := on(p, true)
		l.Record(Event{Event: ProcessStarted})
		synctest.Wait()
		began := time.Now()
		if err := l.Close(); err != nil || time.Since(began) >= linequeue.RetryTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestNilLog(t *testing.T) {
	var l *Log
	l.Record(Event{})
	if l.Ready() != nil || l.Dropped() != 0 || l.Close() != nil {
		t.Error("a nil log does something")
	}
}

func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	f, err := openFile(path, 100, 2)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 39) + "\n" // two fit
	for i := range 7 {
		if _, err := f.Write([]byte(fmt.Sprint(i) + line[1:])); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	for name, want := range map[string]string{"": "6", ".1": "45", ".2": "23"} {
		text, err := os.ReadFile(path + name)
		got := ""
		for l := range strings.Lines(string(text)) {
			got += l[:1]
		}
		if err != nil || got != want {
			t.Errorf("%s has the lines %s (%v), want %s", path+name, got, err, want)
		}
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("more files are kept than asked for")
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v", info.Mode())
	}
}

// A file that logrotate has moved is not written any more; one that ends in the middle of a line gets whole lines.
func TestMovedAndUnfinishedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(path, []byte("unfinished"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openFile(path, 1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := func(text string) {
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	f.checked = time.Time{}
	write("two\n")
	for name, want := range map[string]string{path + ".moved": "unfinished\none\n", path: "two\n"} {
		if text, err := os.ReadFile(name); string(text) != want || err != nil {
			t.Errorf("%s has %q, %v; want %q", name, text, err, want)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	for target, want := range map[string]string{t.TempDir(): "is a directory", "/nonexistent/audit": "no such file"} {
		if _, err := Open(Config{Target: target}); err == nil || !strings.HasPrefix(err.Error(), "audit log "+target) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestShortArgv(t *testing.T) {
	long := strings.Repeat("x", MaxArgv)
	for _, tt := range []struct{ argv, want []string }{
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{long}, []string{long}},
		{[]string{"ab", long, "c"}, []string{"ab", long[2:], "…"}},
	} {
		if got := shortArgv(tt.argv); strings.Join(got, "\x00") != strings.Join(tt.want, "\x00") {
			t.Errorf("%d words of %d bytes", len(got), len(strings.Join(got, "")))
		}
	}
}

// A client cannot keep an event out of the log by long texts, whose lines would not fit into the queue or into a message of syslog.
func TestLongTextsAreShortened(t *testing.T) {
	p := new(paper)
	l := on(p, true)
	long := strings.Repeat("\x01", 4<<20)
	l.Record(Event{Event: ProcessRefused, Principal: long, Peer: long, Client: long, Label: long, Process: long, Cwd: long, Signal: long, Host: long, Reason: long,
		Argv: make([]string, 4<<20), Paths: []string{long, "short"}})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := p.events(t)
	if len(got) != 1 || l.Dropped() != 0 {
		t.Fatalf("%d lines, %d dropped", len(got), l.Dropped())
	}
	if e := got[0]; e.Client != long[:maxName]+"…" || e.Cwd != long[:maxText]+"…" || e.Paths[1] != "short" || len(e.Argv) > MaxArgv+2 {
		t.Errorf("%+v", e)
	}
	if size := p.text.Len(); size > 200<<10 {
		t.Errorf("the line has %d bytes", size)
	}
}
