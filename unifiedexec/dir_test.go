package unifiedexec

import (
	"testing"

	"github.com/tetherexec/tether/wire"
)

// A directory is absolute on the executor, or relative to the executor's own.
func TestEnvironmentDir(t *testing.T) {
	t.Parallel()
	own, windows := "file:///srv/here", "file:///C:/here"
	for _, try := range []struct {
		cwd, system string
		own         *string
		want        string // empty: an error
	}{
		{"", "linux", nil, "/"},
		{"", "linux", &own, "/srv/here"},
		{"/x", "linux", &own, "/x"},
		{"file:///x", "linux", nil, "/x"},
		{"sub", "linux", &own, "/srv/here/sub"},
		{"../sub", "linux", &own, "/srv/sub"},
		{".", "linux", &own, "/srv/here"},
		{"sub", "linux", nil, ""},
		{`C:\x`, "linux", &own, ""},
		{"", "windows", &windows, `C:\here`},
		{"sub", "windows", &windows, `C:\here\sub`},
		{`D:\x`, "windows", &windows, `D:\x`},
		{"/x", "windows", &windows, ""},
		{"", "windows", nil, ""},
	} {
		e := Environment{Cwd: try.cwd}
		if got, err := e.Dir(wire.EnvironmentInfo{PlatformOS: try.system, Cwd: try.own}); got != try.want || (err == nil) != (try.want != "") {
			t.Errorf("%+v: %q, %v", try, got, err)
		}
	}
}
