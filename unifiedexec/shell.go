package unifiedexec

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// A ShellMode is how the shell of a command is run.
type ShellMode uint8

// The shell modes. ShellZshFork is the reference's zsh-fork: a patched zsh asks for an approval
// before it runs each program. For that the zsh must be a child of the program that asks the
// user. Commands of an Executor never are, so calls in this mode are refused: without these
// approvals they would be less restricted than requested.
const (
	ShellDirect ShellMode = iota // the shell is started as it is
	ShellZshFork
)

// check refuses a mode that an environment cannot provide.
func (m ShellMode) check(e *Environment) error {
	if m == ShellDirect {
		return nil
	}
	return rejected(fmt.Sprintf("unified_exec zsh-fork is not supported in environment `%s`: its commands run on an executor, "+
		"where zsh cannot ask about each program before it runs it. Nothing was run; set the shell mode to direct", e.ID))
}

// shellKind returns the kind of a shell by its name or path; empty: it is not known.
func shellKind(name string) string {
	switch name = programName(name); name {
	case "bash", "zsh", "sh", "cmd", "powershell":
		return name
	case "pwsh":
		return "powershell"
	}
	return ""
}

// shellArgv is the command line of a shell that runs a text.
func shellArgv(shell wire.ShellInfo, login bool, text string) []string {
	switch shell.Name {
	case "powershell":
		if login {
			return []string{shell.Path, "-Command", text}
		}
		return []string{shell.Path, "-NoProfile", "-Command", text}
	case "cmd":
		return []string{shell.Path, "/c", text}
	}
	if login {
		return []string{shell.Path, "-lc", text}
	}
	return []string{shell.Path, "-c", text}
}

// chooseShell finds the shell for a command on a system. own is the shell that the environment
// reports. A shell that the call names is used or refused, never replaced by another one.
func (e *Environment) chooseShell(system, asked string, own wire.ShellInfo) (wire.ShellInfo, error) {
	own.Name = shellKind(own.Name)
	kind := shellKind(asked)
	isPath := strings.ContainsAny(asked, `/\`)
	switch {
	case asked == "" && own.Path != "":
		return own, nil
	case asked == "" && e.Local && runtime.GOOS != "windows":
		return wire.ShellInfo{Name: "sh", Path: "/bin/sh"}, nil
	case !e.Local && (own.Path == "" || own.Name == ""), asked == "":
		return own, badArguments("environment `%s` does not report a shell", e.ID)
	case !e.Local && kind != own.Name:
		return own, badArguments("environment `%s` only supports `%s`", e.ID, own.Name)
	case kind == "":
		return own, badArguments("shell `%s` is not supported; use `bash`, `zsh`, `sh`, `powershell` or `cmd`, or omit `shell`", asked)
	case isPath && !isAbsolute(system, asked):
		return own, badArguments("shell `%s` is a relative path; use a name or an absolute path, or omit `shell`", asked)
	case isPath && e.Local && !isProgram(asked):
		return own, badArguments("shell `%s` does not exist or cannot be executed; use another one, or omit `shell`", asked)
	case isPath:
		return wire.ShellInfo{Name: kind, Path: asked}, nil
	case kind == own.Name && own.Path != "":
		return own, nil
	}
	found, err := exec.LookPath(asked)
	if err != nil || !filepath.IsAbs(found) {
		return own, badArguments("shell `%s` is not installed; use another one, or omit `shell`", asked)
	}
	return wire.ShellInfo{Name: kind, Path: found}, nil
}

// isProgram reports whether an absolute path is an executable file.
func isProgram(name string) bool {
	if !filepath.IsAbs(name) {
		return false
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// goos is the system of an executor as package runtime names it. If the executor does not report
// its system, it is the system of this program.
func goos(info wire.EnvironmentInfo) string {
	switch info.PlatformOS {
	case "":
		return runtime.GOOS
	case "macos":
		return "darwin"
	}
	return info.PlatformOS
}

// isAbsolute reports whether a path is absolute on a system.
func isAbsolute(system, name string) bool {
	if system != "windows" {
		return strings.HasPrefix(name, "/")
	}
	name = strings.ReplaceAll(name, `\`, "/")
	return strings.HasPrefix(name, "//") || len(name) > 2 && name[1] == ':' && name[2] == '/'
}

// resolve returns the directory that name means below base. It does not remove dots: only the
// executor can follow links.
func resolve(system, base, name string) string {
	switch {
	case name == "":
		return base
	case isAbsolute(system, name):
		return name
	case system == "windows":
		return strings.TrimRight(base, `\/`) + `\` + name
	}
	return strings.TrimRight(base, "/") + "/" + name
}

// native returns a path of an executor that may have come as a file: URI.
func native(system, name string) (string, error) {
	if !strings.HasPrefix(name, "file:") {
		return name, nil
	}
	uri, err := wire.ParsePathURI(name)
	if err != nil {
		return "", err
	}
	return uri.NativeOn(system)
}
