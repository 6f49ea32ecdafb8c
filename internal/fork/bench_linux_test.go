//go:build amd64 || arm64

package fork

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkStart starts /bin/true by a Starter and by the standard library in turn, and waits for
// its end, with so many other descriptors open. On a busy machine compare the tenth percentiles
// and the processor time, which includes that of the children.
func BenchmarkStart(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := descriptor(null)
	command := &Command{
		Path: "/bin/true", Argv: []string{"true"}, Dir: -1, Cgroup: -1, DeathSignal: unix.SIGTERM, Files: []int{fd, fd, fd},
	}
	for _, idle := range []int{0, 10, 1000, 8000} {
		b.Run(fmt.Sprintf("descriptors=%d", idle), func(b *testing.B) {
			s := newStarter(b)
			for range idle {
				copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
				if err != nil {
					b.Fatal(err)
				}
				defer unix.Close(copied)
			}
			ours, theirs := &samples{start: s.Start}, &samples{start: forkExec}
			for b.Loop() {
				ours.take(b, command)
				theirs.take(b, command)
			}
			ours.report(b, "ours")
			theirs.report(b, "theirs")
		})
	}
}

type samples struct {
	start func(*Command) (Child, error)
	times []time.Duration
	cpu   time.Duration
}

func (s *samples) take(b *testing.B, c *Command) {
	used, begun := processorTime(), time.Now()
	child, err := s.start(c)
	if err != nil {
		b.Fatal(err)
	}
	reap(b, child)
	s.times = append(s.times, time.Since(begun))
	s.cpu += processorTime() - used
}

func (s *samples) report(b *testing.B, name string) {
	slices.Sort(s.times)
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	b.ReportMetric(micros(s.times[len(s.times)/10]), name+"-p10-µs")
	b.ReportMetric(micros(s.times[len(s.times)/2]), name+"-p50-µs")
	b.ReportMetric(micros(s.cpu)/float64(len(s.times)), name+"-cpu-µs")
}

// processorTime is that of this program and of the children that it has reaped.
func processorTime() (used time.Duration) {
	for _, of := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		unix.Getrusage(of, &usage)
		used += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return used
}
