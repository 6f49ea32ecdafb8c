// Package conformance tests the sandbox from the outside: real servers, as root and as an ordinary user, on a real kernel.
//
// Most tests are rows of one table (TestTable). A row has the id of a scenario (docs/scenarios.md), the request of the client,
// the command, and the expected exit code, verdict, output and state of the machine afterwards. Where tether differs from the
// reference on purpose, the row expects tether's behaviour and notes that of the reference.
//
// Where a change belongs:
//
//	row_linux_test.go          what a row is, and how it runs
//	reads, writes, protected, identity, network, life, exits, terminal, refusals, managed, managed_proxy
//	                           the rows, by subject, and tests that need more than a row
//	hosts_linux_test.go        machines on which a part of the sandbox cannot be built
//	adversary_*                attacks from inside, and proofs that they work without a sandbox
//	isolated_network_linux_test.go   a network namespace that leads nowhere, for attacks on proxies
//	main, server, client, fixture, policy, checks, managed_client
//	                           programs, servers, clients, files and policies that all of these use
//
// The rows do not depend on a backend. To run them against another backend or another server, pass its command line:
//
//	go test ./conformance -args -flags '--some-flag value'
//	go test ./conformance -args -server '/path/to/server --listen stdio' -reference
//
// With -reference, rows that note a difference are skipped.
package conformance
