// Package interop compares tether with the reference exec-server, and runs the real Codex
// CLI through tether with a scripted model.
//
// An exchange is a conversation with a server whose answers are written down as
// observations. What the reference answers is recorded, once for each version of it, in
// testdata: a file for each test, a section for each exchange. Everything here is built
// only with the tag interop and runs in one of three ways:
//
//	make test-interop   compares tether with the recording; a part of make test
//	make interop        plays the reference too (-live), compares tether with it, and says
//	                    which recordings are out of date
//	make record         plays the reference only (-record), and writes the recordings
//
// A comparison with the recording needs no reference. It is needed by -live and -record,
// by the tests of the real client, which is the same program, and by the tests of package
// client with the reference as their server. It is looked for below .reference/ in the
// module root, where scripts/with-reference installs it. Without it those tests skip; with
// CI=true in the environment they fail instead. tether is built from cmd/tether unless
// TETHER_BIN names a binary.
//
// Observations must not depend on the machine or on luck: normalise takes out directories,
// ports and ids. An exchange whose answers depend on the machine says so in liveOnly, and
// is compared with -live only.
package interop
