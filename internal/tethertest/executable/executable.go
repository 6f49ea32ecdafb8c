// Package executable writes programs that a test executes. It imports nothing of tether, so that the tests of every package can use it.
//
// If a child is forked while the file is open for writing, the child has it open until it executes its own program, and
// the kernel refuses to execute a file that is open for writing (ETXTBSY). So no child is forked meanwhile.
package executable

import (
	"os"
	"syscall"
)

// Write writes an executable file.
func Write(name string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, content, 0o755)
}

// Copy makes an executable copy of a file.
func Copy(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return Write(to, content)
}
