// Package codexhome reads the configuration of the Codex CLI on this machine: the
// files of the system, of the user, of trusted projects and of the administrator.
// It only reads, and it never merges: a client gets the files as layers and applies
// its own rules to them.
//
// Where a change belongs: home.go finds the directories; read.go answers a request
// and knows the order of the files; project.go has trust and the files of projects;
// managed.go the requirements that a managed configuration implies; layer.go reads
// one file; errors.go has the errors. Package toml parses and writes the files.
package codexhome
