package shellsnap

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tetherexec/tether/internal/shellword"
)

const (
	// pieceSize is how much of a snapshot one variable carries: Linux allows 128
	// KiB per variable.
	pieceSize = 120 << 10

	// pieceName begins the names of those variables. They are unset before the
	// script of the command begins.
	pieceName = "__TETHER_SHELL_SNAPSHOT_"
)

// Restore returns the command that runs the script of argv, a login shell's command
// line, from the snapshot, and the additional variables that it needs. Of the
// changes of the environment it makes only those for which change returns true.
func (s *Snapshot) Restore(argv []string, change func(name string) bool) (restored, env []string) {
	var variables strings.Builder
	for _, name := range s.Unset {
		if change(name) {
			variables.WriteString("unset -v " + name + "\n")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Set)) {
		if change(name) {
			variables.WriteString("export " + name + "=" + shellword.Quote(s.Set[name]) + "\n")
		}
	}
	script, flags := argv[2], "-c"
	var prefix string
	switch s.kind {
	case Zsh:
		// Zsh parses each text completely before it runs it. So settings that
		// change how text is parsed must come in an earlier text.
		flags = "-fc"
		var names []string
		for _, part := range []string{s.before + variables.String(), s.functions, s.aliases, s.options} {
			var text string
			text, names, env = pieces(part, names, env)
			prefix += "builtin eval " + text + ";"
		}
		prefix = "setopt rcs;" + prefix + "builtin unset " + strings.Join(names, " ")
		if s.changesParsing() {
			script = "builtin eval " + shellword.Quote(script)
		}
	default:
		if s.kind == Bash {
			flags, prefix = "-pc", "set +p;" // reads no start-up file and imports no functions
		}
		var names []string
		var text string
		text, names, env = pieces("\n"+s.before+variables.String()+s.functions+s.aliases+s.options, nil, nil)
		prefix += `eval "unset -v ` + strings.Join(names, " ") + `;"` + text + " ''" // the last argument '' keeps $_ from holding the whole text
	}
	restored = append([]string{argv[0], flags, prefix + "\n" + script}, argv[3:]...)
	return restored, env
}

// changesParsing reports whether a zsh has aliases or options that may change how a script
// is parsed. Then the script must not be parsed before they are restored.
func (s *Snapshot) changesParsing() bool {
	for line := range strings.Lines(s.before + s.aliases) {
		switch line {
		case "alias run-help=man\n", "alias which-command=whence\n", "setopt nohashdirs\n", "setopt login\n": // every login shell has them
		default:
			if strings.HasPrefix(line, "alias ") || strings.HasPrefix(line, "setopt ") {
				return true
			}
		}
	}
	return false
}

// pieces distributes a text over variables, and returns the expression for the
// whole text in a script.
func pieces(text string, names, env []string) (expansion string, _, _ []string) {
	expansion = `"`
	for text != "" {
		n := min(len(text), pieceSize)
		name := pieceName + strconv.Itoa(len(names))
		names, env = append(names, name), append(env, name+"="+text[:n])
		expansion += "${" + name + "}"
		text = text[n:]
	}
	return expansion + `"`, names, env
}
