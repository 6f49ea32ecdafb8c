// Package directory is what gateways, hosts and operators know of a fleet: which hosts there are, and which host has a session. It is
// kept in three key-value buckets of NATS JetStream.
//
// Every entry is written with the revision that its writer has seen, so of two writers only one succeeds. Leases and records of sessions end
// by themselves unless they are renewed. The times of the clocks of machines are not compared.
//
// Hosts cannot write to the directory (see fleet.HostPermissions). A host asks the gateways to write its lease, and one of them does it.
//
//	bucket.go    one bucket: read, compare and set, read all
//	lease.go     a host's lease, as the host sees it
//	leases.go    gateways write the leases of hosts
//	hosts.go     the table of hosts, from leases and beats
//	choose.go    which host a new session gets
//	drains.go    hosts that an operator drains
//	sessions.go  the records of sessions
package directory
