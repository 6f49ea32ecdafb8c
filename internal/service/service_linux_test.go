package service

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// socketVariable makes the test program print which socket it gets.
const socketVariable = "SERVICE_TEST_SOCKET"

func TestMain(m *testing.M) {
	if name, child := os.LookupEnv(socketVariable); child {
		f, err := Socket(name)
		if err != nil {
			fmt.Println(err)
			os.Exit(0)
		}
		l, err := net.FileListener(f)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		_, named := os.LookupEnv(listenNames)
		fmt.Println(l.Addr(), os.Getenv(listenCount) != "" || named)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The manager gets the messages of sd_notify, by a path and by an abstract name.
func TestMessages(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@tether-test-" + strconv.Itoa(os.Getpid())} {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		t.Setenv(notifySocket, name)
		t.Setenv(watchdogTime, "3000000")
		m := Find()
		if got, want := m.Interval(), 1500*time.Millisecond; got != want {
			t.Errorf("interval of a watchdog of 3 s: %v, want %v", got, want)
		}
		for want, send := range map[string]func(){
			"READY=1\nMAINPID=" + strconv.Itoa(os.Getpid()): m.Ready, "WATCHDOG=1": m.Alive, "STOPPING=1": m.Stopping,
		} {
			send()
			text := make([]byte, 100)
			if n, err := manager.Read(text); err != nil || string(text[:n]) != want {
				t.Errorf("got %q, %v, want %q", text[:n], err, want)
			}
		}
		if allocs := testing.AllocsPerRun(10, m.Alive); allocs != 0 {
			t.Errorf("a sign of life allocates %v times: the keeper collects no garbage", allocs)
		}
	}
	t.Setenv(watchdogPID, "1")
	if got := Find().Interval(); got != 0 {
		t.Errorf("interval of the watchdog of another process: %v", got)
	}
	t.Setenv(notifySocket, "/missing")
	Find().Ready()
	Forget()
	none := Find()
	none.Ready()
	none.Alive()
	none.Stopping()
	if none != nil || none.Interval() != 0 {
		t.Errorf("a process without a manager has found %v", none)
	}
}

func TestSockets(t *testing.T) {
	t.Parallel()
	files := make([]*os.File, 2)
	addresses := make([]string, 2)
	for i := range files {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses[i] = l.Addr().String()
		if files[i], err = l.(*net.TCPListener).File(); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	packets, err := datagrams.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for _, tt := range []struct {
		what, pid, count, names, ask string
		files                        []*os.File
		want                         string
	}{
		{"one", "$$", "1", "tether.socket", "", files[:1], addresses[0] + " false"},
		{"the second of two", "$$", "2", "a:b", "b", files, addresses[1] + " false"},
		{"two without a name", "$$", "2", "a:b", "", files, "the service manager has handed over 2 sockets (a, b): name one of them"},
		{"two with the same name", "$$", "2", "a:a", "a", files, `the service manager has handed over two sockets with the name "a": give each a FileDescriptorName of its own`},
		{"an unknown name", "$$", "2", "a:b", "c", files, `the service manager has handed over no socket with the name "c", but a, b`},
		{"those of another process", "1", "1", "", "", files[:1], ErrNoSocket.Error()},
		{"none", "$$", "0", "", "", nil, ErrNoSocket.Error()},
		{"a bad number", "$$", "x", "", "", nil, `LISTEN_FDS is "x", not a number of sockets from 1 to 256`},
		{"too many", "$$", "257", "", "", nil, `LISTEN_FDS is "257", not a number of sockets from 1 to 256`},
		{"a file", "$$", "1", "", "", []*os.File{plain}, "descriptor 3 from the service manager: not a socket: socket operation on non-socket"},
		{"a socket for datagrams", "$$", "1", "", "", []*os.File{packets}, "descriptor 3 from the service manager: not a stream socket that listens"},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID="+tt.pid+` exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), socketVariable+"="+tt.ask, "LISTEN_FDS="+tt.count, "LISTEN_FDNAMES="+tt.names)
		cmd.ExtraFiles = tt.files
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, %v, want %q", tt.what, got, err, tt.want)
		}
	}
}
