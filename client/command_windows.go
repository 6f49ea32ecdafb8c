package client

import (
	"os"
	"syscall"
)

// ownGroup puts a command into a process group of its own.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func endGroup(p *os.Process)  { p.Kill() }
func killGroup(p *os.Process) { p.Kill() }
