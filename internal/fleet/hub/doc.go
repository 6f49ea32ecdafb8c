// Package hub runs an embedded server of NATS with JetStream: the meeting place of the hosts, gateways and operators of a fleet.
//
// The hub decides who may use which subjects. It has no list of users: each client presents a certificate (a JWT) with its permissions
// ([github.com/tetherexec/tether/internal/fleet.HostPermissions] and the like), signed with a key of the fleet, and proves that it has the
// key of that certificate. So credentials are made without a running hub, and work at every node of a cluster. The keys of a
// fleet are one directory ([Keys]), which is copied to each node of a cluster.
//
// The package promises that nothing but a loopback address is served without TLS, that the nodes of a cluster talk to each other
// only encrypted and with proof that they have the keys, that only one hub uses a directory, and that the server writes nothing
// to stdout or stderr and installs no signal handlers.
//
//	keys.go         the directory of keys
//	credentials.go  certificates of clients, and their revocation
//	cluster.go      how the nodes of a cluster trust each other
//	config.go       settings and their checks; the options of the server
//	hub.go          begin and end; follows revocations
//	repair.go       goes on after the disk was full
//	share.go        revocations travel between the nodes of a cluster
//	metrics.go      what the hub does: health, /metrics
//	log.go          the log of the server
package hub
