package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// hostFlags say which hosts a command may reach: --allow-host and --deny-host.
type hostFlags struct {
	allow, deny []string
}

func (f *hostFlags) define(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.allow, "allow-host", nil, "let the command reach only this `HOST[:PORT]`, through a proxy that it\nfinds in its environment; *.HOST is every subdomain of HOST, **.HOST\nalso HOST itself; can be repeated")
	fs.StringArrayVar(&f.deny, "deny-host", nil, "refuse this `HOST[:PORT]`, even if --allow-host matches it; can be repeated")
}

// given reports whether the command gets a managed network.
func (f *hostFlags) given() bool { return len(f.allow)+len(f.deny) > 0 }

// rules checks the patterns. network says that --network was given as well. Without
// patterns there are no rules.
func (f *hostFlags) rules(network bool) (*netpolicy.Rules, error) {
	switch {
	case !f.given():
		return nil, nil
	case len(f.allow) == 0:
		return nil, usageError{errors.New("--deny-host needs --allow-host, e.g. --allow-host '*'")}
	case network:
		return nil, usageError{errors.New("--network cannot be used with --allow-host: it would open the network to all hosts")}
	}
	domains := map[string]netpolicy.Access{}
	for _, list := range []struct {
		flag     string
		patterns []string
		access   netpolicy.Access
	}{{"--allow-host", f.allow, netpolicy.Allow}, {"--deny-host", f.deny, netpolicy.Deny}} {
		for _, pattern := range list.patterns {
			if err := netpolicy.CheckPattern(pattern, list.access); err != nil {
				return nil, usageError{fmt.Errorf("%s %q: %w", list.flag, pattern, err)}
			}
			domains[pattern] = list.access // deny comes last, and wins
		}
	}
	rules, err := netpolicy.Compile(netpolicy.Settings{Domains: domains, Ports: true})
	if err != nil {
		return nil, usageError{fmt.Errorf("--allow-host and --deny-host: %w", err)}
	}
	return rules, nil
}
