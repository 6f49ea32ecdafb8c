package listen

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// upgradeSocket makes TestUpgradeHelper send an upgrade request to a socket.
const upgradeSocket = "TETHER_TEST_UPGRADE_SOCKET"

// TestUpgradeHelper is a client in another process. It prints the answer.
func TestUpgradeHelper(t *testing.T) {
	path := os.Getenv(upgradeSocket)
	if path == "" {
		t.Skip("a helper of other tests")
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	fmt.Println("status", answer.StatusCode)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		io.Copy(os.Stdout, answer.Body)
	}
}

// upgradeFrom sends an upgrade request from a process with namespaces of its own.
func upgradeFrom(t *testing.T, path string, namespaces uintptr) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestUpgradeHelper$")
	cmd.Env = append(os.Environ(), upgradeSocket+"="+path, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if namespaces != 0 && os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Only clients in the server's own namespaces are accepted on its socket. Others get
// the reason as an answer.
func TestSocketRefusesOtherNamespaces(t *testing.T) {
	for _, row := range []struct {
		any        bool
		namespaces uintptr
		want       string
	}{
		{false, 0, "status 101"},
		{false, unix.CLONE_NEWPID, "status 403\nclient refused: it is in another container or sandbox than the server (its pid namespace differs); run the client in the container of the server; HINT"},
		{true, unix.CLONE_NEWPID, "status 101"},
	} {
		path := t.TempDir() + "/s"
		startUpgrader(t, Config{URL: "unix://" + path, AnyNamespace: row.any, NamespaceHint: "; HINT"}, nil)
		if got := upgradeFrom(t, path, row.namespaces); !strings.HasPrefix(got, row.want) {
			t.Errorf("%+v: %s", row, got)
		}
	}
}
