//go:build mcp || fleet || !split

package main

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/console"
)

// The URL that `tether console` prints and opens is one of a page, whatever the server answers.
func TestPageOrigin(t *testing.T) {
	t.Parallel()
	for _, try := range []struct{ address, named, want, err string }{
		{"ws://127.0.0.1:7000", "", "http://127.0.0.1:7000", ""},
		{"wss://[::1]:7000", "", "https://[::1]:7000", ""},
		{"ws://build:7000", "", "", "--console-origin http://build:7000"},
		{"ws://127.0.0.1:7000", "https://tether.example", "https://tether.example", ""},
		{"ws://127.0.0.1:7000", "file:///etc/passwd?", "", "is not the origin"},
		{"ws://127.0.0.1:7000", "https://tether.example\x1b[2J", "", "is not the origin"},
		{"ws://127.0.0.1:7000", "https://tether.example/path", "", "is not the origin"},
	} {
		var named *string
		if try.named != "" {
			named = &try.named
		}
		origin, err := pageOrigin(try.address, named)
		switch {
		case try.err != "":
			if err == nil || !strings.Contains(err.Error(), try.err) {
				t.Errorf("%+v: %q, %v", try, origin, err)
			}
		case err != nil || origin != try.want:
			t.Errorf("%+v: %q, %v", try, origin, err)
		}
	}
	if page := console.URL("http://127.0.0.1:7000", "", "a-b_c\x1b[2J"); page != "http://127.0.0.1:7000/console/#code=a-b_c%1B%5B2J" {
		t.Errorf("%q", page)
	}
}
