// Package netpolicy decides which hosts a process may reach. It only has
// rules and decisions: it never resolves, dials or listens.
//
// A host has one identity, however it is spelled: 127.1, 0x7f000001 and ::ffff:7f00:1 are
// the address 127.0.0.1, and BÜCHER.example is xn--bcher-kva.example, for patterns and for
// requests. So a denied host stays denied in every spelling, and a denied address also if a
// name leads to it.
//
// Where a change belongs:
//
//   - netpolicy.go: settings, rules, and the decision about a query.
//   - pattern.go: patterns for hosts, and finding the one that matches.
//   - idna.go: names and patterns that are not ASCII; package host has the mapping.
//   - check.go: mistakes in patterns that a person has typed.
//   - address.go: which addresses are public.
package netpolicy
