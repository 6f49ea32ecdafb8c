package environ

import (
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tetherexec/tether/wire"
)

// Variables that the metadata of process/start sets, whatever the policy says.
const (
	threadIDVar   = "CODEX_THREAD_ID"
	toolCallIDVar = "CODEX_TOOL_CALL_ID"
)

// defaultExcludes keeps variables that look like credentials of the server away
// from commands, unless the policy says otherwise.
var defaultExcludes = compileAll([]string{"*KEY*", "*SECRET*", "*TOKEN*"})

// coreNames are the variables that a policy with "core" inherits from the server.
// Case is ignored.
var coreNames = []string{
	"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER",
}

// windowsCoreNames are coreNames on Windows.
var windowsCoreNames = []string{
	"PATH", "PATHEXT", "SHELL", "COMSPEC", "SYSTEMROOT", "WINDIR", "SYSTEMDRIVE", "USERNAME", "USERDOMAIN",
	"USERPROFILE", "HOMEDRIVE", "HOMEPATH", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PROGRAMDATA",
	"LOCALAPPDATA", "APPDATA", "TEMP", "TMP", "TMPDIR", "POWERSHELL", "PWSH",
}

// windowsPathExt is added to the Windows core: without it no program is found by
// its bare name.
const windowsPathExt = ".COM;.EXE;.BAT;.CMD"

// forbiddenNames never reach a command, in any spelling: they carry the executor's
// own identity.
var forbiddenNames = []string{
	"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
	"NODE_REPL_AUTH_TOKEN",
	"OPENAI_FEDERATION_RULE_ID",
	"OPENAI_IDENTITY_TOKEN_FILE",
	"OPENAI_WORKLOAD_IDENTITY_CONTEXT",
}

// forbiddenExactName is forbidden in this spelling only.
const forbiddenExactName = "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"

// Build returns the environment of a command as NAME=value strings, sorted by
// name, each name once.
//
// server is the server's own environment. With a policy it is inherited, filtered
// and extended as the policy says; without one (nil) it is not used. Then overlay
// replaces or adds variables, which no filter affects, metadata sets the ids of the
// thread and the call, and forbidden names are removed last.
func Build(server []string, policy *wire.EnvPolicy, overlay map[string]string, metadata *wire.StartMetadata) []string {
	return build(runtime.GOOS, server, policy, overlay, metadata)
}

// build is Build for any operating system.
func build(goos string, server []string, policy *wire.EnvPolicy, overlay map[string]string, metadata *wire.StartMetadata) []string {
	vars := variables{foldNames: goos == "windows", byKey: make(map[string]variable)}
	if policy != nil {
		vars.inherit(goos, server, policy.Inherit)
		vars.apply(policy)
	}
	vars.setAll(overlay)
	vars.identify(metadata)
	vars.drop(forbidden)
	return vars.sorted()
}

// identify sets the ids of the thread and the call from metadata, and removes those of
// the environment. Only a thread id stays if there is no metadata at all.
func (v variables) identify(metadata *wire.StartMetadata) {
	delete(v.byKey, v.key(toolCallIDVar))
	if metadata == nil {
		return
	}
	delete(v.byKey, v.key(threadIDVar))
	v.setIfGiven(threadIDVar, metadata.ThreadID)
	v.setIfGiven(toolCallIDVar, metadata.ToolCallID)
}

// WithShell adds SHELL to an environment that has none, as terminals do.
func WithShell(env []string, shell string) []string {
	if shell == "" || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "SHELL=") }) {
		return env
	}
	return append(env, "SHELL="+shell)
}

// variables is an environment under construction.
type variables struct {
	foldNames bool                // names that differ in case are one variable (Windows)
	byKey     map[string]variable // key: the name, folded if foldNames
}

type variable struct{ name, value string }

// inherit takes variables from the server as the policy says. Variables that are
// not UTF-8 are left out: the client could neither name nor see them.
func (v variables) inherit(goos string, server []string, what wire.Inherit) {
	if what == wire.InheritNone {
		return
	}
	for _, entry := range server {
		name, value, ok := split(entry)
		if !ok || !utf8.ValidString(entry) {
			continue
		}
		if what == wire.InheritCore && !isCore(goos, name) {
			continue
		}
		v.set(name, value)
	}
	if goos == "windows" && what == wire.InheritCore {
		if _, ok := v.byKey[v.key("PATHEXT")]; !ok {
			v.set("PATHEXT", windowsPathExt)
		}
	}
}

// apply filters and extends the inherited variables. The order matters: set may
// bring back an excluded name, and includeOnly filters set too.
func (v variables) apply(policy *wire.EnvPolicy) {
	if !policy.IgnoreDefaultExcludes {
		v.drop(func(name string) bool { return matchesAny(defaultExcludes, name) })
	}
	if len(policy.Exclude) > 0 {
		exclude := compileAll(policy.Exclude)
		v.drop(func(name string) bool { return matchesAny(exclude, name) })
	}
	v.setAll(policy.Set)
	if len(policy.IncludeOnly) > 0 {
		include := compileAll(policy.IncludeOnly)
		v.drop(func(name string) bool { return !matchesAny(include, name) })
	}
}

func (v variables) key(name string) string {
	if v.foldNames {
		return fold(name)
	}
	return name
}

func (v variables) set(name, value string) {
	v.byKey[v.key(name)] = variable{name, value}
}

// setAll goes through the names in order, so that of two names with one key the
// same one always wins.
func (v variables) setAll(values map[string]string) {
	if !v.foldNames {
		for name, value := range values {
			v.set(name, value)
		}
		return
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		v.set(name, values[name])
	}
}

func (v variables) setIfGiven(name string, value *string) {
	if value != nil {
		v.set(name, *value)
	}
}

func (v variables) drop(unwanted func(name string) bool) {
	for key, variable := range v.byKey {
		if unwanted(variable.name) {
			delete(v.byKey, key)
		}
	}
}

func (v variables) sorted() []string {
	entries := make([]string, 0, len(v.byKey))
	for _, variable := range v.byKey {
		entries = append(entries, variable.name)
	}
	slices.Sort(entries)
	for i, name := range entries {
		entries[i] += "=" + v.byKey[v.key(name)].value
	}
	return entries
}

// split cuts an entry at its first "=", but not at the very first character:
// Windows keeps a directory per drive in names such as "=C:".
func split(entry string) (name, value string, ok bool) {
	if entry == "" {
		return "", "", false
	}
	at := strings.IndexByte(entry[1:], '=')
	if at < 0 {
		return "", "", false
	}
	return entry[:at+1], entry[at+2:], true
}

func isCore(goos, name string) bool {
	names := coreNames
	if goos == "windows" {
		names = windowsCoreNames
	}
	return containsFold(names, name)
}

// forbidden checks a name as the command will read it: a client's name may itself
// contain a "=", and everything after that becomes part of the value.
func forbidden(name string) bool {
	seen, _, _ := strings.Cut(name, "=")
	return seen == forbiddenExactName || identity(name)
}

// identity reports whether a name, as the command will read it, is in
// forbiddenNames.
func identity(name string) bool {
	seen, _, _ := strings.Cut(name, "=")
	return containsFold(forbiddenNames, seen)
}

func containsFold(names []string, name string) bool {
	return slices.ContainsFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
}
