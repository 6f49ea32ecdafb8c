//go:build linux

package proc

import (
	"context"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/outlog"
)

var background = context.Background()

// exitSink waits for the exit and the close of one process.
type exitSink struct{ exited, closed chan struct{} }

func newExitSink() exitSink { return exitSink{make(chan struct{}), make(chan struct{})} }

func (exitSink) Append(outlog.Stream, []byte) error { return nil }
func (s exitSink) Exit(int)                         { close(s.exited) }
func (s exitSink) Cut()                             {}
func (s exitSink) Close()                           { close(s.closed) }

var trueSpec = Spec{Argv: []string{"/bin/true"}, Dir: "/", Env: []string{"PATH=/bin:/usr/bin"}}

func startTrue(b *testing.B, s *Supervisor, spec Spec) {
	sink := newExitSink()
	if _, err := s.Start(background, spec, sink); err != nil {
		b.Error(err)
		return
	}
	<-sink.exited
}

func benchmarkStart(b *testing.B, cfg Config, spec Spec) {
	s := New(cfg)
	defer s.Close()
	for b.Loop() {
		startTrue(b, s, spec)
	}
}

func BenchmarkStartTrue(b *testing.B)         { benchmarkStart(b, Config{}, trueSpec) }
func BenchmarkStartTrueNoCgroup(b *testing.B) { benchmarkStart(b, Config{NoCgroups: true}, trueSpec) }
func BenchmarkStartTrueNoted(b *testing.B) {
	benchmarkStart(b, Config{NoCgroups: true, Notes: filepath.Join(b.TempDir(), "notes")}, trueSpec)
}
func BenchmarkStartTrueSubreaper(b *testing.B) { benchmarkStart(b, Config{Subreaper: true}, trueSpec) }
func BenchmarkStartTrueOneStream(b *testing.B) {
	spec := trueSpec
	spec.OneStream = true
	benchmarkStart(b, Config{}, spec)
}
func BenchmarkStartTrueTTY(b *testing.B) {
	spec := trueSpec
	spec.TTY = true
	benchmarkStart(b, Config{}, spec)
}

// BenchmarkPlainTrue measures fork, exec and wait of the standard library, for
// comparison with the starts above.
func BenchmarkPlainTrue(b *testing.B) {
	for b.Loop() {
		plainTrue(b)
	}
}

func plainTrue(b *testing.B) {
	if err := exec.Command("/bin/true").Run(); err != nil {
		b.Error(err)
	}
}

// inFlight is how many starts the parallel benchmarks run at a time.
const inFlight = 32

func benchmarkInFlight(b *testing.B, start func()) {
	var group sync.WaitGroup
	work := make(chan struct{})
	for range inFlight {
		group.Go(func() {
			for range work {
				start()
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	group.Wait()
}

func BenchmarkStartTrueParallel(b *testing.B) {
	s := New(Config{})
	defer s.Close()
	benchmarkInFlight(b, func() { startTrue(b, s, trueSpec) })
}

func BenchmarkPlainTrueParallel(b *testing.B) {
	benchmarkInFlight(b, func() { plainTrue(b) })
}

// BenchmarkOutput carries 64 MiB from one process.
func BenchmarkOutput(b *testing.B) {
	s := New(Config{})
	defer s.Close()
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		sink := newExitSink()
		spec := Spec{Argv: []string{"head", "-c", "67108864", "/dev/zero"}, Dir: "/"}
		if _, err := s.Start(background, spec, sink); err != nil {
			b.Fatal(err)
		}
		<-sink.closed
	}
}

// BenchmarkEcho is one write to cat and its answer.
func BenchmarkEcho(b *testing.B) {
	s := New(Config{})
	defer s.Close()
	sink := echoSink{make(chan struct{}, 1)}
	p, err := s.Start(background, cat(), sink)
	if err != nil {
		b.Fatal(err)
	}
	line := []byte("hello\n")
	for b.Loop() {
		p.Write(line, func(error) {})
		<-sink.output
	}
}

type echoSink struct{ output chan struct{} }

func (s echoSink) Append(outlog.Stream, []byte) error { s.output <- struct{}{}; return nil }
func (echoSink) Exit(int)                             {}
func (echoSink) Cut()                                 {}
func (echoSink) Close()                               {}
