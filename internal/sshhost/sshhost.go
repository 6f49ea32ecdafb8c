// Package sshhost knows where tether is on a machine that is reached by ssh: the command for the login shell there that finds it and
// runs its bridge, and the directories in which a client may have put it. Package internal/deploy puts it there. No I/O.
//
// The login shell may be any that has `exec` and quotes words with ': dash, busybox sh, bash, zsh, csh, fish. All else is left to
// `sh` of POSIX. Therefore the scripts for the command line have no quote, backslash, exclamation mark or line end (csh and fish
// interpret some of them also between quotes) and stay below maxWord.
package sshhost

import "strings"

// Missing is the exit code with which Bridge ends if there is no tether. No shell, and no other program that it starts, uses it.
const Missing = 86

// maxWord is how long a word may be for the csh of BSD.
const maxWord = 1024

// The directories that may have a program, in the form of a POSIX shell, below which each version has a directory. The first is
// the user's. The others are for machines on which the first cannot be used; they count only if safe succeeds, because other users may have
// made them. Runtime is the user's in the common case, and not the directory of the sockets, which sandboxes hide.
const (
	Cache   = `${XDG_CACHE_HOME:-$HOME/.cache}/tether`
	Runtime = `$XDG_RUNTIME_DIR/tether-bin`
	Shared  = `/var/tmp/tether-bin-$u`
)

// Safe is a function of a POSIX shell: it succeeds if a directory belongs to the user with the number $u, and is accessible for no other
// user. A link is none.
const Safe = `safe() { set -- $(ls -ldn "$1" 2>/dev/null); case $1$3 in drwx------$u|drwx------.$u) true;; *) false;; esac; }`

// Dir is the name of the directory of a version: the version, without characters that mean something to a shell or in a path.
func Dir(version string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._+-", r) {
			return r
		}
		return '_'
	}, version)
	if name == "" || name[0] == '.' {
		name = "_" + name
	}
	return name[:min(len(name), maxVersion)]
}

// maxVersion bounds the name of a version, which is part of a word.
const maxVersion = 100

// Bridge returns the command for the login shell of a machine. It becomes `tether bridge` of the first of these programs that is
// there: one of this version that a client has copied into the cache of the user, the tether in PATH, and one of this version in the other
// directories. It begins its output with a line end, so that the first message stands at the beginning of a line if the start-up files of
// the shell have printed something.
func Bridge(version string) string {
	return Command(`echo; v=` + Dir(version) + `/tether; ` +
		`b() { [ -x "$1/$v" ] && exec "$1/$v" bridge; }; b "` + Cache + `"; ` +
		`command -v tether >/dev/null && exec tether bridge; ` +
		`u=$(id -u); ` + Safe + `; ` +
		`for d in "` + Runtime + `" "` + Shared + `"; do safe "$d" && b "$d"; done; ` +
		`echo "there is no tether on this machine" >&2; exit 86`)
}

// Command makes a command for the login shell from a script for sh. The script has no ' \ ! or line end.
func Command(script string) string { return "exec sh -c '" + script + "'" }
