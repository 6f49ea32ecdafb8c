package confine

import (
	"os"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// Commands without a network are in an empty one. As root they share it; other users cannot make one that is shared.
func TestOfflineNetwork(t *testing.T) {
	b := newFixture(t, nil)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	networkOf := func(access wire.NetworkAccess) string {
		o := b.must(b.request(intent(t, access, "read :root"), "sh", "-c", "readlink /proc/self/ns/net; grep : /proc/net/dev"))
		name, interfaces, _ := strings.Cut(o.text.String(), "\n")
		if access == wire.NetworkRestricted && (strings.Count(interfaces, ":") != 1 || !strings.Contains(interfaces, "lo:")) {
			t.Errorf("interfaces: %q", interfaces)
		}
		return name
	}
	seen := map[string]bool{}
	for range 4 {
		seen[networkOf(wire.NetworkRestricted)] = true
	}
	if seen[own] {
		t.Error("a command is in the network of the host")
	}
	if most := 2; os.Geteuid() == 0 && len(seen) > most {
		t.Errorf("%d networks were made, want %d at most", len(seen), most)
	}
	if got := networkOf(wire.NetworkEnabled); got != own {
		t.Errorf("a command with the network of the host is in %q, want %q", got, own)
	}
}
