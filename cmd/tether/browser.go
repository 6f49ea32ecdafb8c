//go:build mcp || fleet || !split

package main

import (
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/tetherexec/tether/internal/statedir"
)

// errNoBrowser means that no browser can be opened here.
var errNoBrowser = errors.New("there is no desktop here to open it")

// openBrowser opens a page. The browser is given a file that leads to the page and that only this user can read, because other users of the
// machine see the arguments of commands, and the URL has a code.
func openBrowser(page string) error {
	command, err := browserCommand()
	if err != nil {
		return err
	}
	file, err := leadTo(page)
	if err != nil {
		return err
	}
	cmd := exec.Command(command, file)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release() // it may run as long as the browser
}

// browserCommand finds the command that opens a file as the desktop would.
func browserCommand() (string, error) {
	switch runtime.GOOS {
	case "darwin":
		return "open", nil
	case "windows":
		return "explorer.exe", nil
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return "", errNoBrowser
	}
	path, err := exec.LookPath("xdg-open")
	if err != nil {
		return "", errNoBrowser
	}
	return path, nil
}

// leadTo writes a file that leads a browser to a page, in place of that of an earlier call.
func leadTo(page string) (path string, err error) {
	dir, err := statedir.Default()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "console.html")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	text := fmt.Sprintf("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=%[1]s\"><a href=\"%[1]s\">tether console</a>\n", html.EscapeString(page))
	return path, os.WriteFile(path, []byte(text), 0o600)
}
