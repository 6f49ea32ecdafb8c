//go:build mcp || fleet || !split

package main

import (
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// shownRefusals is how many refused hosts are printed; further ones are counted.
const shownRefusals = 10

// printReasons prints what the server knows about failures of a process: a denial, a limit that it has reached, refused hosts.
func printReasons(w io.Writer, d *wire.DescribeResult) error {
	var lines []string
	if d.TetherFailure != nil {
		lines = append(lines, terminal.Printable(*d.TetherFailure))
	}
	if d.TetherLimit != nil {
		lines = append(lines, "the server has ended it because of its limit "+terminal.Printable(*d.TetherLimit))
	}
	if d.SandboxDenied {
		lines = append(lines, denialReason(d.TetherDenial, d.Network.Type == wire.NetworkManaged))
	}
	shown, more := 0, d.MoreDecisions
	for _, h := range d.Decisions {
		switch {
		case h.Decision == string(wire.NetworkAllow):
			continue
		case shown == shownRefusals:
			more += h.Count
			continue
		}
		shown++
		lines = append(lines, refusedText(&h))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more decisions about hosts", more))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, "  "+line); err != nil {
			return err
		}
	}
	return nil
}

func refusedText(h *wire.HostDecision) string {
	text := "refused " + net.JoinHostPort(terminal.Printable(h.Host), strconv.Itoa(int(h.Port)))
	if h.Count > 1 {
		text += fmt.Sprintf(" %d times", h.Count)
	}
	text += ": " + terminal.Printable(h.Reason)
	if h.Rule != nil {
		text += " (" + terminal.Printable(*h.Rule) + ")"
	}
	return text
}
