package shellsnap

import "strings"

// Sections of the output of a capturing shell, in this order.
const (
	sectionOptions   = "options"
	sectionTraps     = "traps"
	sectionMask      = "mask"
	sectionFeatures  = "features" // bash: shopt; zsh: where functions are loaded from
	sectionFunctions = "functions"
	sectionExported  = "exported" // bash: which functions are exported
	sectionAliases   = "aliases"
	sectionEnv       = "environment"
	sectionEnd       = "end"
)

// heading precedes a section. The mark is random, so no output of a start-up file
// looks like it.
func heading(mark, section string) string { return "\x00" + mark + " " + section + "\x00" }

// captureScript prints the state of a login shell. It must work with all options
// and aliases that start-up files may have set. It does not protect itself against
// functions that are named like builtins.
func captureScript(kind Kind, mark string) string {
	text := bashCapture
	switch kind {
	case Zsh:
		text = zshCapture
	case Sh:
		text = strings.Replace(bashCapture, bashInteractive, "", 1)
	}
	return strings.ReplaceAll(text, "MARK", mark)
}

// bashInteractive reads the start-up file of interactive shells: people keep their
// functions and aliases there, and the reference reads it.
const bashInteractive = `if \[ -z "${BASH_ENV-}" ] && \[ -n "${HOME-}" ] && \[ -r "$HOME/.bashrc" ]; then \. "$HOME/.bashrc"; fi
`

// The options are printed before the script changes those that would disturb it. A
// command substitution would have other options. The functions are evaluated once
// as a test: a syntax error at restoring would make commands fail.
const bashCapture = `\[ -n "${BASH_VERSION-}" ] || exit 1
` + bashInteractive + `\builtin printf '\0MARK options\0'
\builtin set +o
\builtin set +e +u +x
\builtin printf '\0MARK traps\0'
\builtin trap -p
\builtin printf '\0MARK mask\0'
\builtin umask
\builtin printf '\0MARK features\0'
\builtin shopt -p
\builtin printf '\0MARK functions\0'
\builtin declare -f
( \builtin unalias -a; \builtin eval "$(\builtin declare -f)" ) >/dev/null 2>&1 || \builtin exit 1
\builtin printf '\0MARK exported\0'
\builtin declare -F
\builtin printf '\0MARK aliases\0'
\builtin alias -p
\builtin printf '\0MARK environment\0'
\builtin command env -0 || /usr/bin/env -0 || \builtin exit 1
\builtin printf '\0MARK end\0'
`

// zsh parses a -c text completely before it runs it, so the aliases of start-up
// files affect it from the first word on.
const zshCapture = `\[ -n "${ZSH_VERSION-}" ] || \exit 1
\[ -r "${ZDOTDIR:-${HOME-}}/.zshrc" ] && \. "${ZDOTDIR:-${HOME-}}/.zshrc"
\builtin printf '\0MARK options\0'
\builtin setopt
\builtin unsetopt err_exit err_return nounset xtrace rc_quotes
\builtin printf '\0MARK traps\0'
\builtin trap
\builtin printf '\0MARK mask\0'
\builtin umask
\builtin printf '\0MARK features\0'
\builtin print -r -- "fpath=(${(@q)fpath})"
\builtin printf '\0MARK functions\0'
\builtin functions
( \builtin unalias -a; \builtin unalias -as; \builtin eval "$(\builtin functions)" ) >/dev/null 2>&1 || \builtin exit 1
\builtin printf '\0MARK aliases\0'
\builtin alias -L
\builtin printf '\0MARK environment\0'
\command env -0 || /usr/bin/env -0 || \builtin exit 1
\builtin printf '\0MARK end\0'
`
