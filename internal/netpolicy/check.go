package netpolicy

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

var errHostSyntax = errors.New("expected HOST or HOST:PORT, such as example.com or *.example.com:443")

// CheckPattern refuses a text that is not a pattern with ports, and a pattern that is probably a
// mistake: it matches no host, or denies all.
func CheckPattern(pattern string, access Access) error {
	switch {
	case strings.TrimSpace(pattern) == "":
		return errors.New("the name of a host is missing")
	case strings.ContainsAny(pattern, `/\{}`), strings.ContainsFunc(pattern, unicode.IsSpace):
		return errHostSyntax
	case access == Deny && strings.Trim(pattern, "*.") == "":
		return errors.New("this denies every host; expected some hosts, such as example.com or *.example.com")
	}
	one := map[string]Access{pattern: access}
	if _, err := Compile(Settings{Domains: one, Ports: true}); err != nil {
		return err
	}
	_, notAddress := netip.ParseAddr(pattern)
	switch {
	case strings.HasPrefix(pattern, "."):
		return fmt.Errorf("no host begins with a dot; *%[1]s stands for all hosts below, **%[1]s also for the host itself", pattern)
	case strings.Contains(pattern, ".."):
		return errors.New("no host has two dots in a row")
	case strings.ContainsAny(pattern, "@!,;=&%#"):
		return errHostSyntax
	case strings.Count(pattern, ":") > 1 && notAddress != nil && !strings.ContainsAny(pattern, "[*?"):
		return errors.New("expected HOST:PORT, or an IPv6 address")
	}
	return nil
}

// CheckHostPort refuses a text that is not one host, as Normalize returns it, with a port. As a pattern, such a text stands for
// that host and that port alone.
func CheckHostPort(text string) error {
	name, port, err := net.SplitHostPort(text)
	if err != nil {
		return errHostSyntax
	}
	if normal, err := Normalize(name); err != nil || normal != name {
		return errHost
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || text != net.JoinHostPort(name, strconv.FormatUint(n, 10)) {
		return errors.New("the port must be between 1 and 65535")
	}
	return nil
}
