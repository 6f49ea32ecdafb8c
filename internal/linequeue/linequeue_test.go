package linequeue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A target can be made to fail, or to wait.
type target struct {
	mu   sync.Mutex
	text bytes.Buffer
	fail error
	hold chan struct{} // a write returns when it is closed; nil: at once
}

func (t *target) Write(b []byte) (int, error) {
	t.mu.Lock()
	hold := t.hold
	t.mu.Unlock()
	if hold != nil {
		<-hold
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fail != nil {
		return 0, t.fail
	}
	return t.text.Write(b)
}

func (t *target) become(fail error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fail = fail
}

func gap(count uint64) []byte { return fmt.Appendf(nil, "%d missing\n", count) }

func TestLinesAreWrittenInOrder(t *testing.T) {
	to := new(target)
	q := New(Config{Target: to, MaxLines: 10_000, MaxBytes: 1 << 20})
	var want strings.Builder
	for i := range 5000 {
		fmt.Fprintln(&want, i)
		q.Add(fmt.Appendln(nil, i))
	}
	q.Close(t.Context())
	if to.text.String() != want.String() || q.Dropped() != 0 {
		t.Errorf("%d bytes, want %d; %d dropped", to.text.Len(), want.Len(), q.Dropped())
	}
	q.Add([]byte("late\n"))
	q.Close(t.Context())
	if q.Dropped() != 1 {
		t.Errorf("%d lines were dropped after the end", q.Dropped())
	}
}

// A target that does not return from a write delays no line, and not the end. Afterwards a line says how many are missing.
func TestTargetThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &target{hold: make(chan struct{})}
		q := New(Config{Target: to, MaxLines: 3, MaxBytes: 1 << 20, Gap: gap})
		for i := range 10 {
			q.Add(fmt.Appendln(nil, i))
		}
		synctest.Wait()
		if q.Dropped() != 7 {
			t.Errorf("%d lines were dropped, want 7", q.Dropped())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		close(to.hold)
		synctest.Wait()
		q.Add([]byte("again\n"))
		q.Close(ctx)
		if got := to.text.String(); got != "0\n1\n2\n7 missing\nagain\n" {
			t.Errorf("the target has %q", got)
		}

		to = &target{hold: make(chan struct{})}
		q = New(Config{Target: to, MaxLines: 3, MaxBytes: 1 << 20, Gap: gap})
		q.Add([]byte("x\n"))
		began := time.Now()
		q.Close(ctx)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("Close has returned after %v", took)
		}
		close(to.hold)
	})
}

// Lines wait while writes fail, up to the limit of their bytes, and the owner is told once.
func TestTargetThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &target{fail: errors.New("disk full")}
		var told []string
		q := New(Config{
			Target: to, MaxLines: 100, MaxBytes: 6, Gap: gap,
			Failed:    func(err error) { told = append(told, err.Error()) },
			Recovered: func(dropped uint64) { told = append(told, fmt.Sprint("recovered ", dropped)) },
		})
		for _, line := range []string{"a\n", "b\n", "c\n", "d\n"} {
			q.Add([]byte(line))
		}
		time.Sleep(10 * RetryTime)
		if lines, bytes, failing := q.Waiting(); lines != 3 || bytes != 6 || failing == nil {
			t.Errorf("%d lines of %d bytes wait, %v", lines, bytes, failing)
		}
		to.become(nil)
		time.Sleep(RetryTime)
		synctest.Wait()
		if got := strings.Join(told, ", "); got != "disk full, recovered 1" || to.text.String() != "a\nb\nc\n" {
			t.Errorf("the owner was told %s; the target has %q", got, to.text.String())
		}
		to.become(errors.New("disk full"))
		q.Add([]byte("e\n"))
		synctest.Wait()
		began := time.Now()
		q.Close(t.Context())
		if took := time.Since(began); took != 0 {
			t.Errorf("Close has waited %v for a target that fails", took)
		}
	})
}

func TestQueueWithoutLines(t *testing.T) {
	New(Config{}).Close(t.Context())
}
