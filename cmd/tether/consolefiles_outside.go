//go:build split && !mcp && !fleet

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// consoleFilesPatience is how long the companion may take to print the files: milliseconds, unless the machine hangs.
	consoleFilesPatience = 20 * time.Second
	// maxConsoleFiles limits what is read of it.
	maxConsoleFiles = 16 << 20
)

// consoleFiles returns the files of the console's page. They are in the companion, because they would make this program too large, and most
// servers never need them (docs/adr/0013-the-page-in-the-second-program.md).
func consoleFiles() (map[string][]byte, error) {
	path, err := withMCP.find(consoleFilesCommand)
	if err != nil {
		return nil, errors.New("it is in the program tether-mcp, which is neither in the directory of tether nor in PATH")
	}
	ctx, cancel := context.WithTimeout(context.Background(), consoleFilesPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, prefixCompanion, versionText(), consoleFilesCommand)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case err != nil && stderr.Len() > 0:
		return nil, errors.New(strings.TrimSpace(strings.TrimPrefix(stderr.String(), prefix)))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(out) > maxConsoleFiles:
		return nil, fmt.Errorf("%s prints too much", path)
	}
	var files map[string][]byte
	if err := json.Unmarshal(out, &files); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return files, nil
}

func printConsoleFiles(*os.File) error { return errors.New("this program has no files of the console") }
