package seatbelt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tetherexec/tether/internal/sandbox"
)

// base has the rules of every profile: programs run, see and signal only processes of the same sandbox, and use terminals and harmless
// devices.
const base = `(version 1)
(deny default)
(allow process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name-prefix "kern.os")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.boottime")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "vm.loadavg"))
(allow mach-lookup
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl
  (literal "/dev/null")
  (literal "/dev/zero")
  (literal "/dev/tty")
  (literal "/dev/ptmx")
  (regex #"^/dev/ttys[0-9]+$"))
(allow file-read*
  (literal "/dev/random")
  (literal "/dev/urandom")
  (literal "/dev/dtracehelper")
  (subpath "/dev/fd"))
`

// open has the rules of an open network.
const open = `(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.networkd")
  (global-name "com.apple.trustd.agent"))
`

// unixSockets has the rules for unix sockets beside a managed network.
const unixSockets = `(allow system-socket (socket-domain AF_UNIX))
(allow network-bind (local unix-socket))
(allow network-outbound (remote unix-socket))
`

// network writes the rules for the network. Without any, there is none.
func (b *builder) network(plan *sandbox.Plan, ports []uint16) error {
	switch plan.Filter {
	case sandbox.FilterRestricted:
		return nil
	case sandbox.FilterNone, sandbox.FilterOpen:
		b.text.WriteString(open)
		return nil
	case sandbox.FilterProxy, sandbox.FilterProxyUnix:
	default:
		return fmt.Errorf("Seatbelt has no rules for the filter %v", plan.Filter)
	}
	if len(ports) == 0 || slices.Contains(ports, 0) {
		return errors.New("the ports of the proxies of a managed network are missing")
	}
	for _, port := range ports {
		b.filters++
		fmt.Fprintf(&b.text, "(allow network-outbound (remote ip \"localhost:%d\"))\n", port)
	}
	if plan.Filter == sandbox.FilterProxyUnix {
		b.text.WriteString(unixSockets)
	}
	return nil
}
