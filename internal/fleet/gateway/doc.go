// Package gateway lets clients use the hosts of a fleet through one address. A gateway has no state that another one needs: a client
// that has lost its gateway resumes its session through any other.
//
// The gateway reads the first message of a client to find the host: the one that has the session, or the least loaded one that fits. From
// then on it passes bytes on, in both directions, without a look at messages.
//
//	gateway.go  begin and end; frames from hosts; hosts that are gone
//	client.go   one client, from its first message to its end
//	hello.go    the first message of a client
//	route.go    which host a client gets
//	record.go   the session of a client in the directory
//	splice.go   the bytes between a client and its link
//	pages.go    /metrics, /hosts, /readyz
package gateway
