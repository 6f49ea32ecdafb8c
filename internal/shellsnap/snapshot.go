package shellsnap

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A Snapshot is the state of a shell after its start-up files.
type Snapshot struct {
	kind Kind

	// Changes of the environment by the start-up files, without the variables that
	// shells maintain themselves.
	Set   map[string]string
	Unset []string

	before    string // the mask, and settings that are needed before functions are read
	functions string
	aliases   string
	options   string // restored last: they may disturb the rest
}

// Reasons why a shell has no snapshot.
var (
	errIncomplete = errors.New("the shell did not get to the end")
	errTraps      = errors.New("start-up files set traps, which are for one shell only")
)

// parse reads the output of a capturing shell. base is the environment that the
// shell started with.
func parse(kind Kind, mark string, base []string, output []byte) (*Snapshot, error) {
	sections, err := split(kind, mark, output)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(sections[sectionTraps]) {
		if !strings.HasPrefix(line, "trap -- - ") { // bash as sh lists traps that are not set in this form
			return nil, errTraps
		}
	}
	s := &Snapshot{kind: kind, functions: sections[sectionFunctions], aliases: sections[sectionAliases]}
	mask := strings.TrimSpace(sections[sectionMask])
	if !maskForm().MatchString(mask) {
		return nil, errors.New("the file mode mask is no number")
	}
	s.before = "umask " + mask + "\n"
	if kind == Zsh {
		s.before += sections[sectionFeatures]
		err = s.zshOptions(sections[sectionOptions])
	} else {
		err = s.bashOptions(sections)
	}
	if err != nil {
		return nil, err
	}
	s.compare(base, sections[sectionEnv])
	return s, nil
}

// split cuts output into its sections, which must all be there in order.
func split(kind Kind, mark string, output []byte) (map[string]string, error) {
	names := []string{sectionOptions, sectionTraps, sectionMask, sectionFeatures, sectionFunctions, sectionExported, sectionAliases, sectionEnv, sectionEnd}
	if kind == Zsh {
		names = slices.DeleteFunc(names, func(name string) bool { return name == sectionExported })
	}
	_, rest, found := bytes.Cut(output, []byte(heading(mark, names[0])))
	sections := map[string]string{}
	for i, name := range names[:len(names)-1] {
		var text []byte
		if found {
			text, rest, found = bytes.Cut(rest, []byte(heading(mark, names[i+1])))
		}
		if !found {
			return nil, errIncomplete
		}
		if name != sectionEnv && bytes.IndexByte(text, 0) >= 0 {
			return nil, fmt.Errorf("a zero byte is among the %s", name)
		}
		sections[name] = string(text)
	}
	return sections, nil
}

var (
	maskForm      = form(`^[0-7]{1,4}$`)
	bashOption    = form(`^set ([+-])o ([a-z-]+)$`)
	bashFeature   = form(`^shopt (-[su]) ([a-z0-9_]+)$`)
	bashFunctions = form(`^declare -f[a-zA-Z]* \S+$`)
	zshOption     = form(`^[a-z]+$`)
	nameForm      = form(`^[A-Za-z_][A-Za-z0-9_]*$`) // of a variable
)

// form returns a regular expression that is compiled on first use: most starts of this program need none.
func form(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// lines returns the lines of a section, each of which must have the form.
func lines(text string, form func() *regexp.Regexp) ([][]string, error) {
	var list [][]string
	for line := range strings.Lines(text) {
		m := form().FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			return nil, errors.New("the shell describes itself in an unknown way")
		}
		list = append(list, m)
	}
	return list, nil
}

// bashOptions reads the options of bash, from set and from shopt.
func (s *Snapshot) bashOptions(sections map[string]string) error {
	options, err := lines(sections[sectionOptions], bashOption)
	if err != nil {
		return err
	}
	s.options = "set"
	for _, m := range options {
		s.options += " " + m[1] + "o " + m[2]
	}
	s.options += "\n"
	features, err := lines(sections[sectionFeatures], bashFeature)
	if err != nil {
		return err
	}
	for _, flag := range []string{"-s", "-u"} {
		s.before += "shopt " + flag
		for _, m := range features {
			if m[1] == flag && m[2] != "login_shell" && m[2] != "restricted_shell" { // these cannot be changed
				s.before += " " + m[2]
			}
		}
		s.before += "\n"
	}
	functions, err := lines(sections[sectionExported], bashFunctions)
	if err != nil {
		return err
	}
	for _, m := range functions {
		if attributes, _, _ := strings.Cut(m[0][len("declare -f"):], " "); attributes != "" {
			s.functions += m[0] + "\n"
		}
	}
	return nil
}

// zshLate are the options of zsh that would disturb the rest of the restoring, and
// zshFixed those that cannot be changed while it runs.
var (
	zshLate  = []string{"errexit", "errreturn", "nounset", "xtrace", "verbose", "warncreateglobal", "warnnestedvar"}
	zshFixed = []string{"interactive", "shinstdin", "singlecommand", "restricted", "privileged", "zle"}
)

func (s *Snapshot) zshOptions(text string) error {
	options, err := lines(text, zshOption)
	if err != nil {
		return err
	}
	for _, m := range options {
		switch name := m[0]; {
		case slices.Contains(zshFixed, name):
		case slices.Contains(zshLate, name):
			s.options += "setopt " + name + "\n"
		default:
			s.before += "setopt " + name + "\n"
		}
	}
	return nil
}

// own are the variables that a shell maintains itself or makes read-only, and those
// that identify a single command.
var own = []string{
	"_", "PWD", "OLDPWD", "SHLVL", "PPID", "UID", "EUID", "GID", "EGID",
	"SHELLOPTS", "BASHOPTS", "BASHPID", "BASH_VERSINFO", "BASH_EXECUTION_STRING", "ZSH_EXECUTION_STRING",
	"CODEX_THREAD_ID", "CODEX_TOOL_CALL_ID",
}

// compare finds the changes of the environment by start-up files.
func (s *Snapshot) compare(base []string, after string) {
	missing := map[string]string{} // variables of base that are not in after
	for _, entry := range base {
		name, value, _ := strings.Cut(entry, "=")
		missing[name] = value
	}
	s.Set = map[string]string{}
	for entry := range strings.SplitSeq(after, "\x00") {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || !nameForm().MatchString(name) || slices.Contains(own, name) {
			continue
		}
		if old, known := missing[name]; !known || old != value {
			s.Set[name] = value
		}
		delete(missing, name)
	}
	for name := range missing {
		if nameForm().MatchString(name) && !slices.Contains(own, name) {
			s.Unset = append(s.Unset, name)
		}
	}
	slices.Sort(s.Unset)
}
