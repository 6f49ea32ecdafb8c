// Package environ says what the executor looks like from a command: which
// variables its environment holds (Build) and which shell, directories and
// machine it runs on (Host, Info).
//
// Build and Info are pure: they work on values handed in, so the same request
// on the same host always gives the same answer. Only ThisHost looks around.
package environ
