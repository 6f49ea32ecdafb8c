package confine

import (
	"os"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// The devices of the host keep their modes, for every policy and every path that
// leads to them.
func TestDevicesKeepTheirModes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root could change them")
	}
	b := newFixture(t, nil)
	changed := func() syscall.Timespec {
		var st syscall.Stat_t
		if err := syscall.Stat("/dev/null", &st); err != nil {
			t.Fatal(err)
		}
		return st.Ctim
	}
	for name, row := range map[string]struct{ policy, file string }{
		"of the first process":                  {"read :root", "/proc/1/fd/0"},
		"of the first process, where it writes": {"read :root", "/proc/1/fd/1"},
		"without /dev":                          {"read :root, deny /dev", "/proc/self/fd/0"},
		"as it is":                              {"read :root", "/dev/null"},
	} {
		for _, network := range []wire.NetworkAccess{wire.NetworkRestricted, wire.NetworkEnabled} {
			before := changed()
			o, err := b.run(b.request(intent(t, network, row.policy), "chmod", "0666", row.file)) // its present mode
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if changed() != before {
				t.Errorf("%s, network %s: %s was changed: %d %s", name, network, row.file, o.code, o.text.String())
			}
		}
	}
}
