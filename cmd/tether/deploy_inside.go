//go:build mcp || fleet || !split

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tetherexec/tether/internal/deploy"
)

// copyToHost copies tether to the machine of an ssh:// address. file is the program, or "". It returns the path there, and whether it was copied: the machine may have
// it already.
func copyToHost(ctx context.Context, a address, file string) (path string, copied bool, err error) {
	d := deploy.Deployment{
		SSH: a.command[:len(a.command)-1], Host: a.text, Version: versionText(), File: file,
		Say: func(text string) { printLine(os.Stderr, text) },
	}
	if d.Own, err = executorProgram(); err != nil {
		return "", false, err
	}
	return d.Run(ctx)
}

// executorProgram is the tether for a machine like this one: a companion has it beside itself. A companion that was installed alone has all
// commands inside.
func executorProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if name := filepath.Base(self); name == withMCP.program || name == withFleet.program {
		beside := filepath.Join(filepath.Dir(self), "tether")
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() && runtime.GOOS != "windows" {
			return beside, nil
		}
	}
	return self, nil
}

// deployFor does the work of deployCommand.
func deployFor(args []string, stdout io.Writer) error {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	a, err := parseAddress(args[0])
	if err == nil {
		_, _, err = copyToHost(ctx, a, args[1])
	}
	if err != nil {
		io.WriteString(stdout, err.Error())
		return codedError{code: exitError}
	}
	return nil
}
