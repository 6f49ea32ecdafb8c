// Package interop plays the same exchanges against the reference exec-server and
// against tether and compares the answers, and runs the real Codex CLI through
// tether with a scripted model.
//
// Everything here needs the reference binary and is built only with the tag
// interop:
//
//	go test -tags interop ./interop/
//
// The reference is looked for below .reference/ in the module root. Without it
// the tests skip; with CI=true in the environment they fail instead. tether is
// built from cmd/tether unless TETHER_BIN names a binary.
package interop
