// Package fleet has the words that hubs, gateways and executors share: names, the subjects of messages, what the directory says about
// hosts and sessions, and which subjects each role may use. It does no I/O and knows no library of NATS.
//
//	client ══ WebSocket ══▶ gateway ══ link ══▶ executor ("host")
//	                           │    (subjects)    │
//	                           └───── hub (NATS) ─┘
//
// A host is one executor that has joined the fleet under a name. A link carries the bytes of one client's WebSocket between a
// gateway and a host ([github.com/tetherexec/tether/internal/fleet/link]).
package fleet
