package observe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// beOffline in the environment makes the test's program look at the networks of its parent and of itself, with its main thread in a network without a way out.
const beOffline = "OBSERVE_BE_OFFLINE"

func init() {
	if os.Getenv(beOffline) == "" {
		return
	}
	runtime.LockOSThread() // init runs on the main thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		fmt.Println(err)
		os.Exit(offlineDenied)
	}
	done := make(chan struct{})
	go func() { // on another thread
		defer close(done)
		for _, l := range newListenerSearch().of(os.Getppid(), map[uint64]bool{}) {
			if l.Inside {
				fmt.Printf("%+v\n", l)
				os.Exit(1)
			}
		}
		for path, want := range map[string]bool{fmt.Sprintf("/proc/%d/ns/net", os.Getppid()): true, "/proc/self/ns/net": false} {
			network, err := os.Open(path)
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if own, err := isOwnNetwork(network); own != want || err != nil {
				fmt.Printf("%s is that of this program: %v, %v\n", path, own, err)
				os.Exit(1)
			}
		}
	}()
	<-done
	os.Exit(0)
}

// offlineDenied is the exit code of a program that may not make networks.
const offlineDenied = 2

// The network of the program is not that of its main thread, which may start commands in a network of their own.
func TestListenersWithTheMainThreadOffline(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), beOffline+"=1")
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == offlineDenied {
		t.Skipf("this user may not make networks: %s", out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSocketAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1:8080", "00000000:0016": "0.0.0.0:22",
		"00000000000000000000000001000000:1435": "[::1]:5173", "B80D01200000000000000000010000FF:0001": "[2001:db8::ff00:1]:1",
		"0100007F": "", "0100007F:10000": "", "01007F:0001": "", "xx:1": "", "": "",
	} {
		got, ok := socketAddress(text)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
}

// The listeners of a process are found by its descriptors, each once.
func TestListenersOfAProcess(t *testing.T) {
	t.Parallel()
	four, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer four.Close()
	copied, err := four.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	s := newListenerSearch()
	seen := map[uint64]bool{}
	found := map[netip.AddrPort]int{}
	for _, l := range s.of(os.Getpid(), seen) {
		found[l.Address]++
		if l.PID != os.Getpid() || l.Name == "" || l.Inside {
			t.Errorf("%+v", l)
		}
	}
	if n := found[four.Addr().(*net.TCPAddr).AddrPort()]; n != 1 {
		t.Errorf("%v was found %d times among %v", four.Addr(), n, found)
	}
	if again := s.of(os.Getpid(), seen); len(again) > 0 {
		t.Errorf("found again: %v", again)
	}
	if gone := s.of(1<<22+1, seen); len(gone) > 0 || s.partial {
		t.Errorf("a process that does not exist: %v, %v", gone, s.partial)
	}
}
