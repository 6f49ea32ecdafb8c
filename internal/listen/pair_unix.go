//go:build unix

package listen

import (
	"net"
	"os"
)

// connPair returns two connected sockets without a name.
func connPair() (near, far net.Conn, err error) {
	fds, err := socketPair()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "pair"), os.NewFile(uintptr(fds[1]), "pair")
	defer ours.Close()
	defer theirs.Close()
	if near, err = net.FileConn(ours); err != nil {
		return nil, nil, err
	}
	if far, err = net.FileConn(theirs); err != nil {
		near.Close()
		return nil, nil, err
	}
	return near, far, nil
}
