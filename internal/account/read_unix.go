//go:build unix

package account

import "golang.org/x/sys/unix"

// readFile reads a small file of the kernel without the poller of the runtime.
func readFile(name string) ([]byte, bool) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	text := make([]byte, fileLimit)
	n, err := unix.Read(fd, text)
	return text[:max(n, 0)], err == nil
}
