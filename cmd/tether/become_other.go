//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// become runs another program with this one's files, and ends with its exit code.
func become(path string, args []string) error {
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return codedError{code: exit.ExitCode()}
	}
	return err
}
