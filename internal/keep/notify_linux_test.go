package keep

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A service manager is told that the server is ready, and its main process.
func TestNotifyReady(t *testing.T) {
	t.Parallel()
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@tether-test-" + strconv.Itoa(os.Getpid())} {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		NotifyReady(name)
		text := make([]byte, 100)
		n, err := manager.Read(text)
		if want := "READY=1\nMAINPID=" + strconv.Itoa(os.Getpid()); err != nil || string(text[:n]) != want {
			t.Errorf("%q, %v", text[:n], err)
		}
	}
	NotifyReady("")
	NotifyReady("/missing")
}
