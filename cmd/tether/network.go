package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// hostFlags say which hosts a command may reach, if not all or none.
type hostFlags struct {
	allow, deny []string
}

func (f *hostFlags) define(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.allow, "allow-host", nil, "let the command reach this `HOST[:PORT]`, through a proxy that it finds\nin its environment, and nothing else; *.HOST is what is below HOST,\n**.HOST also HOST itself; can be repeated")
	fs.StringArrayVar(&f.deny, "deny-host", nil, "except this `HOST[:PORT]` from --allow-host; can be repeated")
}

// given reports whether the command is to have a network of its own.
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
		return nil, usageError{errors.New("--network does not go with --allow-host: it would open the network to all hosts")}
	}
	domains := map[string]netpolicy.Access{}
	for _, list := range []struct {
		flag     string
		patterns []string
		access   netpolicy.Access
	}{{"--allow-host", f.allow, netpolicy.Allow}, {"--deny-host", f.deny, netpolicy.Deny}} {
		for _, pattern := range list.patterns {
			if err := checkPattern(pattern, list.access); err != nil {
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

var errHostSyntax = errors.New("expected HOST or HOST:PORT, such as example.com or *.example.com:443")

// checkPattern refuses what is no pattern, and what is one but cannot match any host:
// whoever typed that meant something else.
func checkPattern(pattern string, access netpolicy.Access) error {
	switch {
	case strings.TrimSpace(pattern) == "":
		return errors.New("the name of a host is missing")
	case strings.ContainsAny(pattern, `/\{}`), strings.ContainsFunc(pattern, unicode.IsSpace):
		return errHostSyntax
	case access == netpolicy.Deny && strings.Trim(pattern, "*.") == "":
		return errors.New("this denies every host; expected some hosts, such as example.com or *.example.com")
	}
	one := map[string]netpolicy.Access{pattern: access}
	if _, err := netpolicy.Compile(netpolicy.Settings{Domains: one, Ports: true}); err != nil {
		return err
	}
	_, notAddress := netip.ParseAddr(pattern)
	switch {
	case strings.HasPrefix(pattern, "."):
		return fmt.Errorf("no host begins with a dot; *%[1]s is all that is below, **%[1]s also the host itself", pattern)
	case strings.Contains(pattern, ".."):
		return errors.New("no host has two dots in a row")
	case strings.ContainsAny(pattern, "@!,;=&%#"):
		return errHostSyntax
	case strings.Count(pattern, ":") > 1 && notAddress != nil && !strings.ContainsAny(pattern, "[*?"):
		return errors.New("expected HOST:PORT, or an IPv6 address")
	}
	return nil
}
