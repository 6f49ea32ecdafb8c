package netpolicy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tetherexec/tether/internal/glob"
	"github.com/tetherexec/tether/internal/host"
)

// scope says which hosts around its host a pattern matches.
type scope int

const (
	itself scope = iota
	below        // *.
	around       // **.: itself and below
)

// A pattern is a parsed pattern.
type pattern struct {
	pattern string // as written
	scope   scope
	host    string // as Normalize returns it, except for * and ?
	older   string // the host in the mapping of IDNA 2003, which some programs use; "": the same
	zone    bool   // it was an address with a zone
	odd     bool   // not a plain spelling: an address in a form that only some programs know, or not ASCII
	port    uint16 // 0: any
}

// parsePattern parses a pattern. Its errors are those of the reference.
func parsePattern(text string, ports bool) (pattern, error) {
	s := strings.TrimSpace(text)
	switch {
	case s == "":
		return pattern{}, errors.New("domain pattern is empty")
	case len(s) > MaxPatternLength:
		return pattern{}, fmt.Errorf("domain pattern is longer than %d bytes", MaxPatternLength)
	case strings.ContainsAny(s, `/\{}`), strings.ContainsFunc(s, unicode.IsSpace):
		return pattern{}, fmt.Errorf("unsupported domain pattern syntax: %s", s)
	}
	p := pattern{pattern: s}
	rest := s
	if after, ok := strings.CutPrefix(s, "**."); ok {
		p.scope, rest = around, after
	} else if after, ok := strings.CutPrefix(s, "*."); ok {
		p.scope, rest = below, after
	}
	if strings.Contains(rest, "**") {
		return pattern{}, fmt.Errorf("unsupported repeated wildcard: %s", s)
	}
	host, port, ok := splitPattern(rest)
	if !ok {
		return pattern{}, fmt.Errorf("brackets are only supported for IPv6 literals or [*]: %s", s)
	}
	if host = strings.TrimRight(host, "."); host == "" {
		return pattern{}, errors.New("domain pattern is empty")
	}
	if ports && port != "" && port != "*" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return pattern{}, fmt.Errorf("domain pattern has no port from 1 to 65535: %s", s)
		}
		p.port = uint16(n)
	}
	if err := p.setHost(host); err != nil {
		return pattern{}, fmt.Errorf("domain pattern is no host name by the rules for international names: %s: %w", s, err)
	}
	return p, nil
}

// splitPattern cuts off a port. ok is false if brackets are around anything but an
// IPv6 address or *.
func splitPattern(s string) (host, port string, ok bool) {
	inner, bracket := strings.CutPrefix(s, "[")
	if !bracket {
		if strings.Count(s, ":") == 1 {
			s, port, _ = strings.Cut(s, ":")
		}
		return s, port, !strings.ContainsAny(s+port, "[]")
	}
	host, after, closed := strings.Cut(inner, "]")
	literal, _, _ := strings.Cut(host, "%")
	if a, err := netip.ParseAddr(literal); host != "*" && (err != nil || !a.Is6()) || !closed {
		return "", "", false
	}
	port, colon := strings.CutPrefix(after, ":")
	if !colon && strings.Trim(after, ".") != "" || strings.ContainsAny(port, "[]") {
		return "", "", false
	}
	if !colon {
		port = ""
	}
	return host, port, true
}

// setHost sets the host in the form that requests have. It fails for a name that is not
// ASCII and has no such form.
func (p *pattern) setHost(s string) (err error) {
	if !host.IsASCII(s) {
		p.odd = true
		if s, p.older, err = asciiPattern(s); err != nil {
			return err
		}
	}
	s = lowerASCII(s)
	literal, _, zone := strings.Cut(s, "%")
	if a, err := netip.ParseAddr(literal); err == nil && a.Is6() {
		p.host, p.zone = a.Unmap().String(), zone
		return nil
	}
	if a, ok := host.ParseIPv4(s); ok {
		p.host = a.String()
		p.odd = p.odd || p.host != s
		return nil
	}
	if v4, ok := strings.CutPrefix(s, "::ffff:"); ok && strings.Contains(v4, ".") {
		s = v4 // a request for ::ffff:192.0.2.1 is shortened in the same way
	}
	p.host = s
	return nil
}

// global reports whether the pattern matches everything.
func (p pattern) global() bool { return p.host == "*" && p.scope != below && p.port == 0 }

// names reports whether the pattern is a plain spelling of one host. Another spelling
// of an address may match it, but does not open it if it is local.
func (p pattern) names() bool { return p.scope == itself && !p.wild() && !p.odd && !p.zone }

func (p pattern) wild() bool { return strings.ContainsAny(p.host, "*?") }

// broad returns the patterns for a rule that narrows: it applies to an address in any
// zone, and to a name in either mapping. A rule that opens applies to no host if it has a
// zone, because no request has a zone, and to one name only.
func (p pattern) broad() []pattern {
	p.zone = false
	if p.older == "" {
		return []pattern{p}
	}
	older := p
	older.host = p.older
	return []pattern{p, older}
}

// numeric reports whether the pattern can only match addresses. Such patterns are
// also checked for allowed names, once their addresses are known.
func (p pattern) numeric() bool {
	if _, err := netip.ParseAddr(p.host); err == nil {
		return true
	}
	digits := "0123456789.*?"
	if strings.Contains(p.host, ":") {
		digits += ":abcdef"
	}
	return strings.Trim(p.host, digits) == "" && strings.ContainsAny(p.host, "0123456789") &&
		(p.scope != itself || strings.ContainsAny(p.host, ".:"))
}

// A ruleSet finds the pattern that matches a host. The zero value matches none.
type ruleSet struct {
	hosts   map[string][]pattern // by host: itself, around
	domains map[string][]pattern // by host: below, around
	globs   []wildcard
}

func (s *ruleSet) add(p pattern) {
	if p.zone {
		return
	}
	if p.wild() {
		s.globs = append(s.globs, newWildcard(p))
		return
	}
	if s.hosts == nil {
		s.hosts, s.domains = map[string][]pattern{}, map[string][]pattern{}
	}
	if p.scope != below {
		s.hosts[p.host] = append(s.hosts[p.host], p)
	}
	if p.scope != itself {
		s.domains[p.host] = append(s.domains[p.host], p)
	}
}

// find returns a pattern that matches, the most precise kind first.
func (s *ruleSet) find(host string, port uint16) (pattern, bool) {
	if p, ok := forPort(s.hosts[host], port); ok {
		return p, true
	}
	for _, rest, more := strings.Cut(host, "."); more; _, rest, more = strings.Cut(rest, ".") {
		if p, ok := forPort(s.domains[rest], port); ok {
			return p, true
		}
	}
	for _, w := range s.globs {
		if w.forPort(port) && w.matches(host) {
			return w.pattern, true
		}
	}
	return pattern{}, false
}

// names reports whether a pattern is for this host alone.
func (s *ruleSet) names(host string, port uint16) bool {
	for _, p := range s.hosts[host] {
		if p.forPort(port) && p.names() {
			return true
		}
	}
	return false
}

func forPort(list []pattern, port uint16) (pattern, bool) {
	for _, p := range list {
		if p.forPort(port) {
			return p, true
		}
	}
	return pattern{}, false
}

func (p pattern) forPort(port uint16) bool { return p.port == 0 || p.port == port }

// A wildcard is a pattern with * or ?, compiled for many hosts.
type wildcard struct {
	pattern
	forms []glob.Pattern // the host matches one of these
}

func newWildcard(p pattern) wildcard {
	w := wildcard{pattern: p}
	if p.scope != below {
		w.forms = append(w.forms, glob.Compile(p.host))
	}
	if p.scope != itself {
		w.forms = append(w.forms, glob.Compile("*."+p.host))
	}
	return w
}

func (w wildcard) matches(host string) bool {
	return slices.ContainsFunc(w.forms, func(g glob.Pattern) bool { return g.Match(host) })
}
