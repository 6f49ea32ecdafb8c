package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const text = `server = "build"

[servers.build]
url = "wss://build:7443"
token-file = "build.token"
tls-ca = "/etc/ca.pem"

[servers.home]
url = "unix:///run/t.sock"

[serve]
listen = "wss://0.0.0.0:7443"
any-namespace = true
limit-pids = 1_000
label = ["gpu", "zone=eu"]
`
	got, err := parse("/etc/tether/tether.toml", []byte(text))
	want := &File{
		Path: "/etc/tether/tether.toml", Default: "build",
		Servers: map[string]Server{
			"build": {URL: "wss://build:7443", TokenFile: "/etc/tether/build.token", TLSCA: "/etc/ca.pem"},
			"home":  {URL: "unix:///run/t.sock"},
		},
		Settings: map[string][]Setting{"serve": {
			{Flag: "listen", Values: []string{"wss://0.0.0.0:7443"}},
			{Flag: "any-namespace", Values: []string{"true"}, Bool: true},
			{Flag: "limit-pids", Values: []string{"1000"}},
			{Flag: "label", Values: []string{"gpu", "zone=eu"}, List: true},
		}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a = ":                                   "f:1:",
		"sever = \"x\"":                          `unknown key "sever"; did you mean server?`,
		"[sevre]\n":                              `unknown key "sevre"; did you mean serve?`,
		"[quite-other]\n":                        `unknown key "quite-other"`,
		"serve = 1":                              "serve is a table: begin it with [serve]",
		"servers = 1":                            "servers is a table: begin it with [servers]",
		"[servers]\nb = \"ws://h\"":              "servers.b is a table: begin it with [servers.b]",
		"[servers.b]\n":                          "[servers.b] has no url",
		"[servers.b]\nurl = 1":                   "[servers.b] url: expected a text in quotes",
		"[servers.b]\nurl = \"x\"\ntoken = \"\"": `[servers.b] unknown key "token"`,
		"[servers.b]\nurl = \"x\"\ntls-cs = \"\"": `[servers.b] unknown key "tls-cs"; did you mean tls-ca?`,
		"server = true":                          "server: expected a text in quotes",
		"server = \"b\"":                         `server: there is no server "b": the file has no [servers.b]`,
		"server = \"b\"\n[servers.c]\nurl=\"x\"": `server: there is no server "b": the file has c`,
		"[serve]\nlisten = {}":                   "[serve] listen: expected a text in quotes",
		"[serve]\nlabel = [1]":                   "[serve] label: expected a text in quotes",
	} {
		if _, err := parse("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "f:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// FuzzParse checks that each file is either refused with its path, or has a URL for each server and a value for each setting.
func FuzzParse(f *testing.F) {
	f.Add("server = \"b\"\n[servers.b]\nurl = \"ws://h\"\n[serve]\nx = [\"1\"]\ny = 1\n")
	f.Add("[servers.\"\"]\nurl = ''\n[hub]\na.b = 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parse("f", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%v does not name the file", err)
			}
			return
		}
		for name, s := range file.Servers {
			if s.URL == "" {
				t.Errorf("server %q has no URL", name)
			}
		}
		for _, settings := range file.Settings {
			for _, s := range settings {
				if !s.List && len(s.Values) != 1 {
					t.Errorf("%s has %d values", s.Flag, len(s.Values))
				}
			}
		}
	})
}

func TestFindPrefersTheNamedFile(t *testing.T) {
	dir := t.TempDir()
	named, own := filepath.Join(dir, "named.toml"), filepath.Join(dir, "config", "tether", "tether.toml")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	t.Setenv("HOME", dir)
	t.Setenv(Variable, named)
	if _, err := Find(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a named file that does not exist: %v", err)
	}
	t.Setenv(Variable, "")
	if f, err := Find(); f != nil && f.Path != "/etc/tether/tether.toml" || err != nil {
		t.Errorf("no file: %v, %v", f, err)
	}
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "missing"), own); err == nil {
		if f, err := Find(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a link to a file that does not exist: %v, %v", f, err)
		}
		os.Remove(own)
	}
	write(t, own, "", 0o644)
	if f, err := Find(); err != nil || f.Path != own {
		t.Errorf("the user's file: %v, %v", f, err)
	}
	write(t, named, "", 0o600)
	t.Setenv(Variable, named)
	if f, err := Find(); err != nil || f.Path != named {
		t.Errorf("a named file: %v, %v", f, err)
	}
}

func TestUntrustedFiles(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]struct {
		mode os.FileMode
		size int
		err  string
	}{
		"group": {0o664, 0, "other users can change"},
		"all":   {0o646, 0, "other users can change"},
		"large": {0o600, maxFile + 1, "has more than 262144 bytes"},
	} {
		path := filepath.Join(dir, name)
		write(t, path, strings.Repeat("#", want.size), want.mode)
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: %v, want %s", name, err, want.err)
		}
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	if os.Geteuid() == 0 {
		path := filepath.Join(dir, "foreign")
		write(t, path, "", 0o644)
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("a file of another user: %v", err)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "abc", 3}, {"listne", "listen", 2}, {"kitten", "sitting", 3}, {"a", strings.Repeat("b", 65), maxName}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // not subject to the umask
		t.Fatal(err)
	}
}
