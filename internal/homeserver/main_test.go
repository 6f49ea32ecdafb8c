//go:build unix

package homeserver

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// beServer makes the test binary a fake server of the kind that its value names.
const beServer = "TETHER_TEST_BE_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(beServer); kind != "" {
		os.Exit(fakeServer(kind))
	}
	goleak.VerifyTestMain(m)
}

// fakeServer is a server as far as this package can tell: it listens, prints its
// URL, and ends on request.
func fakeServer(kind string) int {
	switch kind {
	case "failing":
		fmt.Fprintln(os.Stderr, "tether: this machine is\nnot good enough")
		return 3
	case "hanging":
		time.Sleep(time.Hour) // until it is killed
	}
	path := strings.TrimPrefix(os.Args[3], "unix://")
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	defer l.Close()
	fmt.Println(os.Args[3])
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		switch line {
		case "who\n":
			dir, _ := os.Getwd()
			fmt.Fprintf(conn, "%d %d %q %q %q\n", os.Getpid(), sessionID(), dir, os.Getenv("SSH_TTY"), os.Args[1:])
		case "end\n":
			conn.Close()
			return 0
		}
		conn.Close()
	}
}
