package confine

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// BenchmarkPrepare measures the server's work for a sandboxed start before it
// forks, and the cleaning up.
func BenchmarkPrepare(b *testing.B) {
	procs := proc.New(proc.Config{})
	defer procs.Close()
	c := New(Config{Procs: procs, Shared: b.TempDir(), Own: b.TempDir()})
	defer c.Close()
	ws := b.TempDir()
	for _, row := range []struct {
		name    string
		network wire.NetworkAccess
		entries string
	}{
		{"read-only", wire.NetworkRestricted, "read :root"},
		{"workspace-write", wire.NetworkRestricted, "read :root, write " + ws + ", write :slash_tmp"},
		{"network", wire.NetworkEnabled, "read :root, write " + ws + ", write :slash_tmp"},
	} {
		b.Run(row.name, func(b *testing.B) {
			r := Request{Intent: intent(b, row.network, row.entries), Spec: proc.Spec{Argv: []string{"true"}, Dir: ws}}
			for b.Loop() {
				p, err := c.Prepare(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				p.Abandon()
			}
		})
	}
}

// BenchmarkStart measures whole starts of /bin/true until they are reaped, in turn: in sandboxes of both backends, in bubblewrap
// alone, in bare namespaces, and plain. On a busy machine only the ratios of one run count.
func BenchmarkStart(b *testing.B) {
	ws := b.TempDir()
	type way struct {
		name string
		run  func() error
		took []time.Duration
		cpu  time.Duration
	}
	var ways []*way
	add := func(name string, run func() error) { ways = append(ways, &way{name: name, run: run}) }
	external := func(argv []string, attr *syscall.SysProcAttr) func() error {
		return func() error {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.SysProcAttr = attr
			return cmd.Run()
		}
	}
	add("plain", external([]string{"/bin/true"}, nil))
	add("bare", external([]string{"/bin/true"}, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
	}))
	add("bubblewrap", external([]string{"bwrap", "--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev",
		"--unshare-user", "--unshare-pid", "--unshare-net", "--proc", "/proc", "--", "/bin/true"}, nil))
	for _, backend := range []Backend{BackendNative, BackendBubblewrap} {
		procs := proc.New(proc.Config{})
		defer procs.Close()
		c := New(Config{Procs: procs, Shared: b.TempDir(), Own: b.TempDir(), Backend: backend})
		defer c.Close()
		for name, entries := range map[string]string{"ro": "read :root", "ww": "read :root, write " + ws + ", write :slash_tmp"} {
			r := Request{Intent: intent(b, wire.NetworkRestricted, entries), Spec: proc.Spec{Argv: []string{"/bin/true"}, Dir: ws}}
			add(string(backend)+"-"+name, func() error {
				p, _, err := c.Start(b.Context(), r, func(*Prepared) proc.Sink { return new(proc.Capture) })
				if err != nil {
					return err
				}
				<-p.Done()
				return nil
			})
		}
	}
	for b.Loop() {
		for _, w := range ways {
			used, began := processorTime(), time.Now()
			if err := w.run(); err != nil {
				b.Fatal(w.name, err)
			}
			w.took, w.cpu = append(w.took, time.Since(began)), w.cpu+processorTime()-used
		}
	}
	for _, w := range ways {
		slices.Sort(w.took)
		b.ReportMetric(float64(w.took[len(w.took)/2].Microseconds()), w.name+"-µs")
		b.ReportMetric(float64(w.cpu.Microseconds())/float64(len(w.took)), w.name+"-cpu-µs")
	}
}

// processorTime is that of this program and of the children that it has reaped.
func processorTime() (used time.Duration) {
	for _, of := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		syscall.Getrusage(of, &usage)
		used += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return used
}
