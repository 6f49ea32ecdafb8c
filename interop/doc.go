// Package interop compares tether with the reference exec-server, and runs the real Codex
// CLI through tether with a scripted model.
//
// An exchange is a conversation with a server whose answers are written down as
// observations. The answers of each version of the reference are recorded in
// testdata: a file for each test, a section for each exchange. The package is built
// only with the tag interop and runs in one of three ways:
//
//	make test-interop   compares tether with the recording; a part of make test
//	make interop        plays the reference too (-live), compares tether with it, and names
//	                    the recordings that are out of date
//	make record         plays the reference only (-record), and writes the recordings
//
// A comparison with the recording does not need the reference. -live and -record need it, and so do
// the tests of the real client, which is the same program, and the tests of package
// client with the reference as their server. scripts/with-reference installs it below .reference/ in the
// module root. Without it those tests are skipped; with
// CI=true in the environment they fail instead. tether is built from cmd/tether unless
// TETHER_BIN names a binary.
//
// Observations must not depend on the machine or on chance: normalise takes out directories,
// ports and ids. An exchange whose answers depend on the machine has a reason in liveOnly, and
// is compared with -live only.
//
// Where a change belongs:
//
//	differential, player, recording, normalise, servers    how exchanges are played, recorded and compared
//	*_exchanges, params, session, wire, startup, io        exchanges of the exec-server protocol
//	sandbox_*, files_*, network_*, http_*, discover_*, environment_config, shellsnap, watch_missing, appserver_*
//	                                                       exchanges of one subject, with their fixtures
//	codex_*, mcp_*, sandbox_codex, files_codex, network_codex, model   the real client, driven by a scripted model
//	client_*, refclient                                    package client and the strict test client against both servers
//	soak, upload, client_model                             tests of load, time and chance
package interop
