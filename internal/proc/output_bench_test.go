//go:build linux

package proc

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/wake"
)

func init() { helpers["write"] = writeOutput }

// writeOutput prints a number of bytes in pieces of a given size.
func writeOutput() {
	total, _ := strconv.Atoi(os.Getenv("TOTAL"))
	size, _ := strconv.Atoi(os.Getenv("SIZE"))
	piece := make([]byte, size)
	for ; total > 0; total -= size {
		if _, err := os.Stdout.Write(piece); err != nil {
			os.Exit(1)
		}
	}
}

// BenchmarkOutputLog carries output from a process into a log, where a client reads it
// once: on the heap by read and append, in an arena by splice. The writer is another process,
// so cpu-s/GiB is the server's part.
func BenchmarkOutputLog(b *testing.B) {
	for _, memory := range []string{"heap", "arena"} {
		for _, kind := range []struct {
			name        string
			size, total int
			tty         bool
		}{{"64K", 64 << 10, 512 << 20, false}, {"4K", 4 << 10, 256 << 20, false}, {"100", 100, 32_000_000, false}, {"tty", 1 << 10, 16 << 20, true}} {
			b.Run(memory+"/"+kind.name, func(b *testing.B) {
				spec := Spec{Argv: []string{os.Args[0]}, Dir: "/", TTY: kind.tty, Env: []string{
					helperVariable + "=write", "SIZE=" + strconv.Itoa(kind.size), "TOTAL=" + strconv.Itoa(kind.total)}}
				benchmarkOutputLog(b, spec, kind.total, memory == "arena")
			})
		}
	}
}

func benchmarkOutputLog(b *testing.B, spec Spec, total int, inArena bool) {
	s := New(Config{NoCgroups: true})
	defer s.Close()
	config := outlog.Config{Retain: 1 << 20}
	pool := outlog.NewPool(b.TempDir(), 1<<30)
	var memory *arena.Arena
	if inArena {
		var err error
		if memory, err = arena.Create(arena.Config{}); err != nil {
			b.Fatal(err)
		}
		defer memory.Close()
	}
	b.SetBytes(int64(total))
	before := cpuTime(b)
	for b.Loop() {
		if inArena {
			slot, err := memory.TakeSlot()
			if err != nil {
				b.Fatal(err)
			}
			config.Slot = slot
		}
		log := outlog.New(pool, config)
		if _, err := s.Start(background, spec, log); err != nil {
			b.Fatal(err)
		}
		if n := readLog(b, log); n != total {
			b.Fatalf("got %d of %d bytes", n, total)
		}
		log.End()
		if inArena {
			config.Slot.Free()
		}
	}
	gib := float64(b.N) * float64(total) / (1 << 30)
	b.ReportMetric((cpuTime(b)-before).Seconds()/gib, "cpu-s/GiB")
}

// readLog reads a log to its end, as the push of a connection does.
func readLog(b *testing.B, log *outlog.Log) (n int) {
	more := wake.New()
	defer log.OnAppend(func(bool) { more.Send() })()
	var sum byte
	visit := func(e outlog.Entry) {
		n += len(e.Data)
		for i := 0; i < len(e.Data); i += 64 {
			sum += e.Data[i]
		}
	}
	for c := log.Cursor(0); ; {
		err := c.Next(visit)
		switch {
		case err == nil:
		case errors.Is(err, outlog.ErrNone):
			log.Sent(c.Seq())
			<-more
		case errors.Is(err, io.EOF):
			return n
		default:
			b.Fatal(err)
		}
	}
}

// cpuTime is the processor time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
