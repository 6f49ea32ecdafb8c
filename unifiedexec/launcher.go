package unifiedexec

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// A launcher is a command that runs other commands. A rule that begins with a launcher is safe
// only if its words fix the command that is run. That depends on how the launcher takes commands.
type launcher struct {
	takes takes

	// flags are options without an argument. Any other option may take the next word as its
	// argument. It is read both ways, and a rule has to fix the command in each reading.
	flags []string

	// ends are the letters of options whose argument is the program, and after which there
	// are no more options: the c of sh -c.
	ends string

	verbs       []string // of a program: words before it, as in deno run; of a toolbox: verbs that run no command
	operands    int      // of a prefix: words between its options and the command, as in timeout 5
	assignments bool     // of a prefix: NAME=VALUE may stand before the command, too
	appends     bool     // of a prefix: the command gets more words than are written
}

// takes is how a launcher takes its command.
type takes uint8

const (
	// program: the first word that is not an option is the program or its file, and the words
	// after it are its input: python3 script.py.
	program takes = iota

	// prefix: the words that are not options are a command with its words: nice make.
	prefix

	// toolbox: the first word is a verb, and only the listed verbs run no command.
	toolbox

	// anywhere: words at the end can make it run anything: find . -exec, sed x -e 1e, watch
	// with its words for a shell. No rule that begins with it is safe.
	anywhere
)

// launchers are the usual launchers by their names, without a version at the end. A rule may
// begin with any other command.
var launchers = sync.OnceValue(func() map[string]launcher {
	all := make(map[string]launcher)
	add := func(names string, l launcher) {
		for _, name := range strings.Fields(names) {
			all[name] = l
		}
	}
	flags := strings.Fields

	add("bash dash ksh sh zsh", launcher{ends: "c"})
	add("python pypy py", launcher{ends: "cm", flags: flags("-B -E -I -O -s -S -u -v")})
	add("fish lua luajit node nodejs osascript perl php ruby tclsh wish expect", launcher{})
	add("awk gawk mawk nawk", launcher{})
	add("bun", launcher{verbs: flags("exec run x"), flags: flags("--bun --hot --silent --watch")})
	add("deno", launcher{verbs: flags("eval repl run serve task x"),
		flags: flags("-A -q --allow-all --allow-env --allow-net --allow-read --allow-run --allow-write --no-check --quiet --watch")})
	add("git", launcher{flags: flags("-P -p --bare --no-optional-locks --no-pager --paginate")})
	add("make gmake", launcher{flags: flags("-B -k -s -w --always-make --keep-going --silent")})

	add("command", launcher{takes: prefix, flags: flags("-p -v -V")})
	add("builtin busybox exec nohup toybox", launcher{takes: prefix})
	add("env", launcher{takes: prefix, assignments: true, flags: flags("- -0 -i -v --ignore-environment --null")})
	add("sudo", launcher{takes: prefix, assignments: true, flags: flags("-A -b -E -H -k -n -P -S --non-interactive --preserve-env")})
	add("doas", launcher{takes: prefix, flags: flags("-n")})
	add("chroot flock taskset", launcher{takes: prefix, operands: 1})
	add("chrt", launcher{takes: prefix, operands: 1, flags: flags("-b -f -i -o -r")})
	add("ionice nice nsenter runuser stdbuf systemd-run unshare", launcher{takes: prefix})
	add("setsid", launcher{takes: prefix, flags: flags("-c -f -w --ctty --fork --wait")})
	add("time", launcher{takes: prefix, flags: flags("-p -v --portability --verbose")})
	add("timeout", launcher{takes: prefix, operands: 1, flags: flags("-v --foreground --preserve-status --verbose")})
	add("ltrace strace", launcher{takes: prefix, flags: flags("-c -C -f -ff -i -q -r -t -tt -ttt -T -v -y -yy")})
	add("bunx npx pnpx uvx", launcher{takes: prefix, flags: flags("-q -y --bun --no --no-install --quiet --yes")})
	add("xargs", launcher{takes: prefix, appends: true, flags: flags("-0 -p -r -t -x --interactive --no-run-if-empty --null --verbose")})

	add("docker nerdctl podman", launcher{takes: toolbox,
		verbs: flags("diff events history images info inspect kill logs port ps pull rm rmi search stats stop top version wait")})

	add("eval source . trap alias", launcher{takes: anywhere}) // of the shell itself
	add("cmd powershell pwsh", launcher{takes: anywhere})      // join their words
	add("find gdb lldb parallel script sed gsed ssh su watch", launcher{takes: anywhere})
	add("emacs ex nvim screen tmux vi vim", launcher{takes: anywhere})
	return all
})

// findLauncher returns the launcher that a word names, perhaps with its directory or a
// version: /usr/bin/python3.12.
func findLauncher(word string) (launcher, bool) {
	name := programName(word)
	l, found := launchers()[name]
	if !found {
		l, found = launchers()[strings.TrimRight(name, "0123456789.")]
	}
	return l, found
}

// programName is the name of a program without its directory and without an extension of Windows.
func programName(word string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(word, `\`, "/")))
	for _, extension := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, extension)
	}
	return name
}

// maxRuleWords bounds rules: a user cannot judge a longer rule.
const maxRuleWords = 256

// allowsAnything reports whether a rule allows any command, because it begins with a launcher and does
// not fix the command that it runs.
func allowsAnything(rule []string) bool {
	if len(rule) > maxRuleWords {
		return true
	}
	free := make([]bool, len(rule)+1) // for the rule from each word on
	free[len(rule)] = true
	for i := len(rule) - 1; i >= 0; i-- {
		l, found := findLauncher(rule[i])
		if !found {
			continue
		}
		switch rest := rule[i+1:]; l.takes {
		case program:
			free[i] = !l.namesProgram(rest)
		case prefix:
			free[i] = slices.ContainsFunc(l.commands(rest), func(at int) bool {
				word := i + 1 + at
				if l.appends && word < len(rule) {
					if _, launches := findLauncher(rule[word]); launches {
						return true
					}
				}
				return free[word]
			})
		case toolbox:
			free[i] = len(rest) == 0 || !slices.Contains(l.verbs, rest[0])
		case anywhere:
			free[i] = true
		}
	}
	return free[0]
}

// namesProgram reports whether words name a program in each reading: each option that is not a
// flag counts as having an argument.
func (l launcher) namesProgram(words []string) bool {
	verb := false
	for i := 0; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "--":
			return i+1 < len(words)
		case word == "-": // it reads the program from its standard input
			return false
		case isOption(word) && l.ends != "" && !strings.HasPrefix(word, "--") && strings.ContainsRune(l.ends, rune(word[len(word)-1])):
			return i+1 < len(words)
		case isOption(word):
			if l.mayTakeNext(word) {
				i++
			}
		case !verb && slices.Contains(l.verbs, word):
			verb = true
		default:
			return true
		}
	}
	return false
}

// commands returns each index in the words of a prefix at which its command begins in some
// reading; the length of the words if there is no command.
func (l launcher) commands(words []string) (places []int) {
	begins := func(at int) { places = append(places, min(at, len(words))) }
	options := make([]bool, len(words)+2) // whether the options may go on up to each word
	options[0] = true
	for i := 0; i <= len(words); i++ {
		switch {
		case !options[i]:
		case i == len(words):
			begins(i)
		case words[i] == "--":
			begins(i + 1 + l.operands)
		case isOption(words[i]), slices.Contains(l.flags, words[i]):
			options[i+1] = true
			if l.mayTakeNext(words[i]) {
				options[min(i+2, len(words))] = true
			}
		case l.assignments && strings.IndexByte(words[i], '=') > 0:
			options[i+1] = true
		default:
			begins(i + l.operands)
		}
	}
	return places
}

// isOption reports whether a word looks like an option.
func isOption(word string) bool {
	return len(word) > 1 && (word[0] == '-' || word[0] == '+')
}

// mayTakeNext reports whether an option may have the next word as its argument. An option with a
// = or a number at its end has its argument already.
func (l launcher) mayTakeNext(option string) bool {
	last := option[len(option)-1]
	attached := strings.Contains(option, "=") || !strings.HasPrefix(option, "--") && '0' <= last && last <= '9'
	return !attached && !slices.Contains(l.flags, option)
}
