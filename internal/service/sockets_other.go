//go:build !unix

package service

import (
	"errors"
	"os"
)

// ErrNoSocket means that no service manager has handed a socket to this process.
var ErrNoSocket = errors.New("this system has no service manager that hands sockets over")

// Socket returns ErrNoSocket.
func Socket(string) (*os.File, error) { return nil, ErrNoSocket }
