package keep

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// NotifyVariable is the name of the variable with the socket of a service manager that wants to know when the server is
// ready (sd_notify). Commands must not get it.
const NotifyVariable = "NOTIFY_SOCKET"

// NotifyReady tells the service manager behind the socket that the server is ready, and that this is its main process. Without
// a name there is none. Nothing depends on whether the message arrives.
func NotifyReady(name string) {
	if name == "" {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	text := "READY=1\nMAINPID=" + strconv.Itoa(os.Getpid())
	unix.Sendto(fd, []byte(text), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: name})
}
