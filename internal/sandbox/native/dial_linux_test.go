package native

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that enters the network of a command cannot be looked into from there: it has the files of the machine.
func TestDialHidesFirst(t *testing.T) {
	t.Parallel()
	for _, owned := range []bool{false, true} {
		script := Dial(owned, netip.MustParseAddrPort("127.0.0.1:80")).String()
		hidden, enters := strings.Index(script, fmt.Sprintf("\tprctl %#x\n", unix.PR_SET_DUMPABLE)), strings.Index(script, callName(unix.SYS_SETNS))
		if hidden < 0 || enters < hidden {
			t.Errorf("got\n%v", script)
		}
	}
}
