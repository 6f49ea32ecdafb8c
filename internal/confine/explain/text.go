package explain

import (
	"fmt"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// Row is a row of an explanation: a short name, or none if it belongs to the row before, and a text.
func Row(name, text string) string { return fmt.Sprintf("%-10s%s", name, text) }

// networkWords describe the network of a command.
var networkWords = map[string]string{
	wire.NetworkOff: "off", wire.NetworkOfMachine: "on",
	wire.NetworkByProxy: "on; a proxy that decides about hosts is offered to the command, which need not use it",
	wire.NetworkManaged: "only through a proxy that decides about hosts",
}

// Text describes the sandbox and the network of a command for people, line by line. kept says whether the rules of the sandbox are known.
func Text(f *wire.SandboxFacts, n *wire.NetworkFacts, confined, kept bool) (lines []string) {
	row := func(name, text string) { lines = append(lines, Row(name, text)) }
	row("network", networkWords[n.Type])
	list := func(name string, patterns []string) {
		if len(patterns) > 0 {
			row("", "  "+name+" "+strings.Join(patterns, ", "))
		}
	}
	list("allowed:", n.Allow)
	list("refused:", n.Deny)
	switch {
	case n.Partial:
		row("", "  and more, which is left out here")
	case n.Asks:
		row("", "  the client is asked about all others")
	}
	if n.Mode != nil && *n.Mode == string(wire.NetworkModeLimited) {
		row("", "  only requests that read: GET, HEAD and OPTIONS")
	}
	switch {
	case !confined:
		row("sandbox", "none: the command has all rights of the server's user")
	case !kept:
		row("sandbox", f.Type+"; its rules are not kept any more")
	default:
		row("sandbox", f.Type)
		FileRows(f, row)
	}
	return lines
}
