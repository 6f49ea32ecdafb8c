// Package bus connects hosts, gateways and operators to the hub: a server of NATS, embedded ([github.com/tetherexec/tether/internal/fleet/hub])
// or one that the user runs.
//
// A connection is made again for ever, and holds nothing back: while the hub is away, Publish fails. Links treat that as a loss
// and recover on their own, so nothing arrives late. It promises that nothing is sent unencrypted to another machine, and that no secret
// is logged.
//
//	config.go  where to connect, and the checks of that
//	bus.go     the connection
//	events.go  what happens to it later: the log
package bus
