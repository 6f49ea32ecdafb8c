package environ

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// A Host holds the facts about this machine and user for Info. Empty strings mean
// unknown.
type Host struct {
	OS         string // a value of runtime.GOOS
	Cwd        string // the server's working directory
	Home       string // the user's home directory
	TempDir    string // the value of TMPDIR, possibly relative
	LoginShell string // from the user's passwd entry
	MachineID  string // stays the same after a restart, and differs on another machine

	// LookPath finds a program by name on the server's PATH, or checks that a path
	// can be executed. It returns an absolute path.
	LookPath func(file string) (string, error)
}

// ThisHost reads the system and environ, the server's environment. Facts that
// cannot be found out are left empty.
func ThisHost(environ []string) Host {
	cwd, _ := os.Getwd() // fails if the directory was removed: then it is unknown
	host := Host{
		OS:        runtime.GOOS,
		Cwd:       cwd,
		MachineID: machineID(os.ReadFile),
		LookPath:  exec.LookPath,
	}
	var passwdHome string
	if runtime.GOOS != "windows" {
		passwd, _ := os.ReadFile("/etc/passwd") // without it the usual shells are searched
		passwdHome, host.LoginShell = passwdEntry(passwd, os.Getuid())
	}
	homeVar, tempVar := "HOME", "TMPDIR"
	if runtime.GOOS == "windows" {
		homeVar, tempVar = "USERPROFILE", "TEMP"
	}
	host.Home = lookup(environ, homeVar)
	if host.Home == "" {
		host.Home = passwdHome
	}
	host.TempDir = lookup(environ, tempVar)
	return host
}

// Info describes the host on the wire. version and capabilities are those of the
// executor and are passed on unchanged.
func (h Host) Info(version string, capabilities wire.Capabilities) wire.EnvironmentInfo {
	info := wire.EnvironmentInfo{
		Shell:                h.shell(),
		ExecutorVersion:      version,
		ProviderID:           providerID(h.MachineID),
		Cwd:                  uri(h.Cwd),
		UserHomeDir:          uri(h.Home),
		PlatformOS:           platformOS(h.OS),
		PrependPathDirs:      []string{}, // tether has no tools of its own
		TemporaryDirectories: []string{},
		TempDir:              wire.PathToURI(h.defaultTempDir()),
		Capabilities:         capabilities,
	}
	if h.TempDir != "" {
		dir := h.TempDir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(h.Cwd, dir)
		}
		if filepath.IsAbs(dir) { // false when the working directory is unknown
			info.TempDir = wire.PathToURI(dir)
			info.TemporaryDirectories = append(info.TemporaryDirectories, info.TempDir)
		}
	}
	return info
}

func (h Host) defaultTempDir() string {
	if h.OS == "windows" {
		return `C:\Windows\Temp`
	}
	return "/tmp"
}

// shell is the login shell if clients know its kind and it can be executed;
// otherwise the first of the usual shells that can.
func (h Host) shell() wire.ShellInfo {
	name := strings.TrimSuffix(filepath.Base(h.LoginShell), ".exe")
	switch name {
	case "bash", "zsh", "sh":
		if path, err := h.LookPath(h.LoginShell); err == nil && filepath.IsAbs(path) {
			return wire.ShellInfo{Name: name, Path: path}
		}
	}
	for _, candidate := range usualShells(h.OS) {
		if path, err := h.LookPath(candidate.Path); err == nil && filepath.IsAbs(path) {
			return wire.ShellInfo{Name: candidate.Name, Path: path}
		}
	}
	if h.OS == "windows" {
		return wire.ShellInfo{Name: "cmd", Path: `C:\Windows\System32\cmd.exe`}
	}
	return wire.ShellInfo{Name: "sh", Path: "/bin/sh"}
}

// usualShells are tried in order. A bare name is searched on the PATH; its usual
// path comes next, for a server with an unusual PATH.
func usualShells(goos string) []wire.ShellInfo {
	bash := []wire.ShellInfo{{Name: "bash", Path: "bash"}, {Name: "bash", Path: "/bin/bash"}}
	zsh := []wire.ShellInfo{{Name: "zsh", Path: "zsh"}, {Name: "zsh", Path: "/bin/zsh"}}
	switch goos {
	case "windows":
		return []wire.ShellInfo{{Name: "powershell", Path: "pwsh"}, {Name: "powershell", Path: "powershell"}, {Name: "cmd", Path: "cmd"}}
	case "darwin":
		return append(zsh, bash...)
	}
	return append(bash, zsh...)
}

// platformOS is the name of an operating system on the wire.
func platformOS(goos string) string {
	if goos == "darwin" {
		return "macos"
	}
	return goos
}

// uri is nil for an unknown or relative path, which is null on the wire.
func uri(path string) *string {
	if !filepath.IsAbs(path) {
		return nil
	}
	text := wire.PathToURI(path)
	return &text
}

// providerPrefix makes the provider id specific to tether: the machine id itself is
// meant to stay on the machine.
const providerPrefix = "tether provider id\x00"

// providerID identifies the machine without revealing its id; it is empty if the id
// is unknown.
func providerID(machineID string) string {
	if machineID == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(providerPrefix + machineID))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// machineID reads the id that Linux and BSD systems keep in a file; other systems
// have none.
func machineID(readFile func(string) ([]byte, error)) string {
	for _, file := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		text, err := readFile(file)
		if err != nil {
			continue
		}
		id := string(bytes.TrimSpace(text))
		if id != "" && id != "uninitialized" { // in an image before its first boot
			return id
		}
	}
	return ""
}

// passwdEntry finds home and shell of a user id in the text of a passwd file.
func passwdEntry(passwd []byte, uid int) (home, shell string) {
	want := strconv.Itoa(uid)
	for line := range strings.Lines(string(passwd)) {
		// name:password:uid:gid:comment:home:shell
		fields := strings.Split(strings.TrimRight(line, "\r\n"), ":")
		if len(fields) == 7 && fields[2] == want {
			return fields[5], fields[6]
		}
	}
	return "", ""
}

// lookup is the value of a variable; if it is given twice, the last one, as in
// Build.
func lookup(environ []string, want string) string {
	found := ""
	for _, entry := range environ {
		if name, value, ok := split(entry); ok && sameName(name, want) {
			found = value
		}
	}
	return found
}

// sameName compares names as the operating system does.
func sameName(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}
