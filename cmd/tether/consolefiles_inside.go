//go:build mcp || fleet || !split

package main

import (
	"encoding/json"
	"os"

	"github.com/tetherexec/tether/internal/console/web"
)

// consoleFiles returns the files of the console's page.
func consoleFiles() (map[string][]byte, error) { return web.Files() }

// printConsoleFiles prints them, for a program without them.
func printConsoleFiles(stdout *os.File) error {
	files, err := consoleFiles()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(files)
}
