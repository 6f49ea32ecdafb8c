//go:build unix

package proc

import (
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/outlog"
)

// An endRecorder also records the ends of streams.
type endRecorder struct {
	*recorder
	mu   sync.Mutex
	ends []outlog.Stream
	told chan outlog.Stream
}

func (r *endRecorder) EndStream(s outlog.Stream) {
	r.mu.Lock()
	r.ends = append(r.ends, s)
	r.mu.Unlock()
	r.told <- s
}

// The end of one stream is reported while the other continues.
func TestEndOfOneStream(t *testing.T) {
	s := New(Config{})
	t.Cleanup(s.Close)
	sink := &endRecorder{recorder: newRecorder(t), told: make(chan outlog.Stream, 2)}
	p, err := s.Start(t.Context(), Spec{Argv: []string{"sh", "-c", "exec 2>&-; read x"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, PipeStdin: true}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-sink.told; got != outlog.Stderr {
		t.Errorf("%v ended first", got)
	}
	if _, exited := p.Exited(); exited {
		t.Error("it has exited already")
	}
	p.CloseStdin()
	if got := <-sink.told; got != outlog.Stdout {
		t.Errorf("then %v", got)
	}
	<-p.Done()
	if len(sink.ends) != 2 {
		t.Errorf("ends %v", sink.ends)
	}
}
