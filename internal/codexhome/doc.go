// Package codexhome reads the configuration that the user of this machine has
// given the Codex CLI: the files of the system, of the user, of trusted projects
// and of the administrator. It only reads, and it never merges: a client gets the
// files as layers and applies its own rules to them.
package codexhome
