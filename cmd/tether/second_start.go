//go:build !mcp

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// becomeMCPProgram replaces this process by the program that has a command. That program gets the same arguments, so it
// checks them again.
func becomeMCPProgram(command string, args []string) error {
	path, err := findMCPProgram(command)
	if err != nil {
		return err
	}
	if err := become(path, append([]string{prefixMCP, versionText()}, args...)); err != nil {
		return fmt.Errorf("start %s: %w", path, cause(err))
	}
	return nil
}

// findMCPProgram looks in the directory of this program first, because the same version is there.
func findMCPProgram(command string) (string, error) {
	name := mcpProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err == nil {
		path := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("`tether " + command + "` needs the program " + mcpProgram + ", which is neither in the directory of tether nor in PATH; `make build` makes both,\n" +
			"and `go install -tags mcp github.com/tetherexec/tether/cmd/tether@VERSION` a tether that needs no second program")
	}
	return path, nil
}

// ownArguments has nothing to remove: only tether-mcp is started by another program.
func ownArguments(args []string) ([]string, error) { return args, nil }
