//go:build linux || darwin

package proc

import (
	"testing"

	"github.com/tetherexec/tether/internal/outlog"
)

// A command with OneStream writes to one pipe: its standard output and standard error keep
// their order, also with a pipe as its input.
func TestOneStream(t *testing.T) {
	s := New(Config{})
	t.Cleanup(s.Close)
	const script = "while read i; do echo o$i; echo e$i >&2; done"
	sink := &endRecorder{recorder: newRecorder(t), told: make(chan outlog.Stream, 2)}
	spec := Spec{Argv: []string{"sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, PipeStdin: true, OneStream: true}
	p, err := s.Start(t.Context(), spec, sink)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, line := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		p.Write([]byte(line+"\n"), func(error) {})
		want += "o" + line + "\ne" + line + "\n"
	}
	p.CloseStdin()
	<-p.Done()
	if got := sink.text(outlog.Stdout); got != want || sink.text(outlog.Stderr) != "" {
		t.Errorf("standard output is %q and standard error %q; want %q and nothing", got, sink.text(outlog.Stderr), want)
	}
	if len(sink.ends) != 1 || sink.ends[0] != outlog.Stdout {
		t.Errorf("the streams that ended are %v", sink.ends)
	}
}
