//go:build unix

package account

import "golang.org/x/sys/unix"

// readFile reads the beginning of a file of the kernel without the poller of the runtime.
func readFile(name string, buffer []byte) (text []byte, ok bool) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buffer)
	return buffer[:max(n, 0)], err == nil
}
