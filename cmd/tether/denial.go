package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/sandbox/denial"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// explainDenial is the name of a flag.
const explainDenial = "explain-denial"

func defineExplainDenial(fs *pflag.FlagSet, always *bool) {
	fs.BoolVar(always, explainDenial, false, "say when the sandbox may be the reason for a failure, even if\nstandard error is not a terminal")
}

// denialText returns the line that says that the sandbox may be the reason for the failure of
// a command. fact is what the executor knows about it, and may be nil. managed says that the
// command has a managed network.
func denialText(fact *wire.DenialFact, managed bool) string {
	return "tether: " + denialReason(fact, managed)
}

func denialReason(fact *wire.DenialFact, managed bool) string {
	const text = "the sandbox may be the reason for this failure"
	if fact == nil {
		return text
	}
	given := func(s *string) string {
		if s == nil {
			return ""
		}
		return terminal.Printable(*s)
	}
	verb := map[string]string{"read": "reading", "write": "writing"}[given(fact.Access)]
	switch path, syscall := terminal.Name(fact.PathText()), given(fact.Syscall); {
	case path != "" && verb != "":
		return fmt.Sprintf("%s: %s %s is not allowed (%s)", text, verb, path, given(fact.Rule))
	case syscall == denial.SyscallNetwork && managed:
		return text + ": only the hosts of --allow-host can be reached, through a proxy"
	case syscall == denial.SyscallNetwork:
		return text + ": the network is off (--network allows it)"
	case syscall == denial.SyscallKilled:
		return text + ": a forbidden system call ended it"
	}
	return text
}
