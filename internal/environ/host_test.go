package environ

import (
	"errors"
	"os"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// programs is a LookPath for a host that has only these programs, by the name or
// path that is looked up.
func programs(found map[string]string) func(string) (string, error) {
	return func(file string) (string, error) {
		if path, ok := found[file]; ok {
			return path, nil
		}
		return "", errors.New("not found")
	}
}

func TestShell(t *testing.T) {
	tests := []struct {
		name, os, login string
		have            map[string]string
		want            wire.ShellInfo
	}{
		{"the login shell", "linux", "/usr/bin/zsh", map[string]string{"/usr/bin/zsh": "/usr/bin/zsh", "bash": "/bin/bash"}, wire.ShellInfo{Name: "zsh", Path: "/usr/bin/zsh"}},
		{"a login shell that is gone", "linux", "/opt/zsh", map[string]string{"bash": "/usr/bin/bash"}, wire.ShellInfo{Name: "bash", Path: "/usr/bin/bash"}},
		{"a login shell clients do not know", "linux", "/usr/bin/fish", map[string]string{"/usr/bin/fish": "/usr/bin/fish", "bash": "/bin/bash"}, wire.ShellInfo{Name: "bash", Path: "/bin/bash"}},
		{"no shell at all for a service account", "linux", "/usr/sbin/nologin", map[string]string{"zsh": "/bin/zsh"}, wire.ShellInfo{Name: "zsh", Path: "/bin/zsh"}},
		{"bash before zsh", "linux", "", map[string]string{"zsh": "/bin/zsh", "/bin/bash": "/bin/bash"}, wire.ShellInfo{Name: "bash", Path: "/bin/bash"}},
		{"zsh before bash on macOS", "darwin", "", map[string]string{"zsh": "/bin/zsh", "bash": "/bin/bash"}, wire.ShellInfo{Name: "zsh", Path: "/bin/zsh"}},
		{"a shell found only relative to the working directory", "linux", "", map[string]string{"bash": "bin/bash"}, wire.ShellInfo{Name: "sh", Path: "/bin/sh"}},
		{"nothing but the last resort", "linux", "", nil, wire.ShellInfo{Name: "sh", Path: "/bin/sh"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			host := Host{OS: test.os, LoginShell: test.login, LookPath: programs(test.have)}
			if got := host.shell(); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestInfoDirectories(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("POSIX paths")
	}
	tests := []struct {
		name     string
		host     Host
		tempDir  string
		tempDirs []string
		cwd      string // empty: null
	}{
		{"TMPDIR is absolute", Host{Cwd: "/srv", TempDir: "/var/tmp"}, "file:///var/tmp", []string{"file:///var/tmp"}, "file:///srv"},
		{"TMPDIR is relative", Host{Cwd: "/srv", TempDir: "t"}, "file:///srv/t", []string{"file:///srv/t"}, "file:///srv"},
		{"TMPDIR is not set", Host{Cwd: "/srv"}, "file:///tmp", []string{}, "file:///srv"},
		{"the working directory is gone", Host{TempDir: "t"}, "file:///tmp", []string{}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.host.OS = "linux"
			test.host.LookPath = programs(nil)
			info := test.host.Info("v", wire.Capabilities{})
			if info.TempDir != test.tempDir || !slices.Equal(info.TemporaryDirectories, test.tempDirs) || info.TemporaryDirectories == nil {
				t.Errorf("got %q and %q, want %q and %q", info.TempDir, info.TemporaryDirectories, test.tempDir, test.tempDirs)
			}
			if (info.Cwd == nil) != (test.cwd == "") || info.Cwd != nil && *info.Cwd != test.cwd {
				t.Errorf("cwd %v, want %q", info.Cwd, test.cwd)
			}
			if info.UserHomeDir != nil {
				t.Errorf("home %q of a user without one", *info.UserHomeDir)
			}
		})
	}
}

func TestInfoCarriesWhatItIsGiven(t *testing.T) {
	capabilities := wire.Capabilities{FsWatchMissing: true}
	host := Host{OS: "darwin", MachineID: "m1", LookPath: programs(nil)}
	info := host.Info("1.0.0+x", capabilities)
	if info.ExecutorVersion != "1.0.0+x" || info.Capabilities != capabilities || info.PlatformOS != "macos" {
		t.Errorf("got %+v", info)
	}
	if info.PrependPathDirs == nil || len(info.PrependPathDirs) > 0 {
		t.Errorf("prependPathDirs %#v, want an empty list", info.PrependPathDirs)
	}
}

func TestProviderID(t *testing.T) {
	one, two := providerID("machine one"), providerID("machine two")
	if !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(one) {
		t.Errorf("provider id %q", one)
	}
	if one == two || one != providerID("machine one") {
		t.Errorf("ids %q and %q: want one per machine, always the same", one, two)
	}
	if got := providerID(""); got != "" {
		t.Errorf("provider id %q of an unknown machine", got)
	}
}

func TestMachineID(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"the system's", map[string]string{"/etc/machine-id": "abc\n", "/var/lib/dbus/machine-id": "old"}, "abc"},
		{"before the first boot", map[string]string{"/etc/machine-id": "uninitialized\n", "/var/lib/dbus/machine-id": "old\n"}, "old"},
		{"empty", map[string]string{"/etc/machine-id": "\n"}, ""},
		{"none", nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := machineID(func(file string) ([]byte, error) {
				if content, ok := test.files[file]; ok {
					return []byte(content), nil
				}
				return nil, os.ErrNotExist
			})
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPasswdEntry(t *testing.T) {
	passwd := []byte("# comment\nroot:x:0:0:root:/root:/bin/bash\nbad:line\ndev:x:1000:1000::/home/dev:/bin/zsh\r\nagain:x:1000:1:::/bin/sh\n")
	if home, shell := passwdEntry(passwd, 1000); home != "/home/dev" || shell != "/bin/zsh" {
		t.Errorf("uid 1000: %q, %q", home, shell)
	}
	if home, shell := passwdEntry(passwd, 7); home != "" || shell != "" {
		t.Errorf("uid 7: %q, %q", home, shell)
	}
}

func TestThisHost(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("POSIX paths")
	}
	host := ThisHost([]string{"HOME=/first", "HOME=/home/dev", "TMPDIR=/var/tmp"})
	if host.Home != "/home/dev" || host.TempDir != "/var/tmp" || host.OS != runtime.GOOS {
		t.Errorf("got %+v", host)
	}
	info := host.Info("tether/test", wire.Capabilities{})
	if _, err := os.Stat(info.Shell.Path); err != nil {
		t.Errorf("the shell of this machine: %v", err)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if want := wire.PathToURI(wd); info.Cwd == nil || *info.Cwd != want {
		t.Errorf("cwd %v, want %q", info.Cwd, want)
	}
}
