package confine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// endsMeanwhile is a context that ends after a process was started with it, as it seems to the caller.
type endsMeanwhile struct{ context.Context }

func (endsMeanwhile) Err() error    { return context.Canceled }
func (endsMeanwhile) Value(any) any { return nil }

// A process that cannot connect in another network says why, and leaves nothing behind. One that is not needed any more ends.
func TestDialFails(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		need.CannotRun(t, "there are no user namespaces: %v", err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	network, err := os.Open("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	for _, to := range []string{outside.Addr().String(), "[::1]:80"} { // its loopback interface is down
		conn, err := Dial(t.Context(), network, netip.MustParseAddrPort(to))
		if conn != nil || err == nil || !strings.HasPrefix(err.Error(), "connect to "+to+": ") {
			t.Errorf("%s: %v, %v", to, conn, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if conn, err := Dial(ended, network, netip.MustParseAddrPort("127.0.0.1:80")); conn != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v, %v", conn, err)
	}
	conn, err := Dial(endsMeanwhile{t.Context()}, network, netip.MustParseAddrPort("127.0.0.1:80"))
	if conn != nil || err == nil {
		t.Errorf("a context that ends while the process is started: %v", conn) // TestMain finds the process that was left behind
	}
	if conn, err := Dial(t.Context(), os.Stdin, netip.MustParseAddrPort("127.0.0.1:80")); conn != nil || err == nil {
		t.Errorf("no network: %v", conn)
	}
}

// A program that could not be made is made the next time, and once.
func TestImageIsMadeAgain(t *testing.T) {
	t.Parallel()
	var i imageOnce
	fail, made := errors.New("too many open files"), 0
	program := func() ([]byte, error) {
		if made++; made == 1 {
			return nil, fail
		}
		return []byte("program"), nil
	}
	if f, err := i.get(program); f != nil || err != fail {
		t.Errorf("%v, %v", f, err)
	}
	for range 2 {
		if f, err := i.get(program); f == nil || err != nil || made != 2 {
			t.Errorf("%v, %v, made %d times", f, err, made)
		}
	}
	i.file.Close()
}
