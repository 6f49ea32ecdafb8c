package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sshhost"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	bridge := sshhost.Bridge(versionText())
	ssh := "ssh -T -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3 "
	for _, try := range []struct{ text, url, command, err string }{
		{"ws://127.0.0.1:7070", "ws://127.0.0.1:7070", "", ""},
		{"wss://host", "wss://host", "", ""},
		{"unix:///run/t.sock", "unix:///run/t.sock", "", ""},
		{"ssh://build", "", ssh + "-- build " + bridge, ""},
		{"ssh://me@build:2222/", "", ssh + "-p 2222 -l me -- build " + bridge, ""},
		{"ssh://-oProxyCommand=x", "", ssh + "-- -oProxyCommand=x " + bridge, ""},
		{"ssh://", "", "", "is not ssh://[USER@]HOST[:PORT]"},
		{"ssh://build/path", "", "", "is not ssh://"},
		{"exec:tether serve --listen stdio", "", "tether serve --listen stdio", ""},
		{"exec:", "", "", "no command"},
		{"exec:'x", "", "", "is not closed"},
		{"http://host", "", "", "is not ws://"},
		{"host", "", "", "is not ws://"},
	} {
		a, err := parseAddress(try.text)
		if try.err != "" {
			if err == nil || !strings.Contains(err.Error(), try.err) {
				t.Errorf("%q: %+v, %v", try.text, a, err)
			}
			continue
		}
		if err != nil || a.url != try.url || strings.Join(a.command, " ") != try.command {
			t.Errorf("%q: %+v, %v", try.text, a, err)
		}
	}
}

func TestSplitWords(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                        nil,
		"  a  b\t":                {"a", "b"},
		`a 'b c' "d 'e'" f\ g`:    {"a", "b c", "d 'e'", "f g"},
		`'' "" x''y`:              {"", "", "xy"},
		`'a\b' "a\"b" \'`:         {`a\b`, `a"b`, "'"},
		"ssh host tether\nbridge": {"ssh", "host", "tether", "bridge"},
	} {
		if got, err := splitWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`a\`, `"a`, `'a`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: %q", line, got)
		}
	}
}
