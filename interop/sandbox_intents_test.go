//go:build interop

package interop_test

import (
	"fmt"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// TestSandboxIntents compares the answers to intents of all shapes: which are
// refused, with which code and text, and which are accepted.
func TestSandboxIntents(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	exchange{name: "intents", compares: wholeReplies, differs: intentDifferences, play: func(p *player) {
		f := newFixture(p.t)
		c := p.open()
		for _, row := range intents() {
			c.ask(row.label, "process/start", f.expand(startParams(row.label, sh("true"), `"cwd":"file://$WS",`+row.members)))
		}
	}}.run(t)
}

// An intentRow is a start with these members.
type intentRow struct{ label, members string }

// intents lists starts, one for each member of an intent and each way to get it
// wrong.
func intents() (rows []intentRow) {
	add := func(label, members string) { rows = append(rows, intentRow{label, members}) }
	for _, over := range []string{
		`"cwd":"/tmp"`, `"cwd":"http://x/y"`, `"cwd":"file:///C:/x"`, `"cwd":"file://server/x"`, `"cwd":null`, `"cwd":5`, `"cwd":"file:relative"`,
		`"workspaceRoots":["/tmp"]`, `"workspaceRoots":["http://x/y"]`, `"workspaceRoots":["file:///C:/x"]`, `"workspaceRoots":null`,
		`"workspaceRoots":[5]`, `"workspaceRoots":[]`,
		`"policyContext":null`, `"policyContext":{}`, `"policyContext":5`, `"policyContext":{"cwd":"file:///C:/x"}`,
		`"policyContext":{"workspaceRoots":["file:///C:/x"]}`, `"policyContext":{"workspaceRoots":null}`,
		`"userHomeDir":null`, `"userHomeDir":"/tmp"`, `"userHomeDir":5`, `"temporaryDirectories":null`, `"temporaryDirectories":["/tmp"]`,
		`"sandboxOverride":"noOverride"`, `"sandboxOverride":"escalatedSandboxWithRestrictions"`,
		`"sandboxOverride":"bypassSandboxFirstAttempt"`, `"sandboxOverride":"zzz"`, `"sandboxOverride":5`,
		`"windowsSandboxLevel":"restricted-token"`, `"windowsSandboxLevel":"elevated"`, `"windowsSandboxLevel":"mxc"`,
		`"windowsSandboxLevel":"zzz"`, `"windowsSandboxLevel":null`, `"windowsSandboxPrivateDesktop":"any"`,
		`"windowsSandboxProxySettingsMode":"preserve"`, `"windowsSandboxProxySettingsMode":null`, `"windowsSandboxProxySettingsMode":"zzz"`,
		`"useLegacyLandlock":null`, `"useLegacyLandlock":1`, `"unknown":{"x":1}`, `"mode":"disabled"`,
	} {
		add(over, `"sandbox":`+readOnly.intent("restricted", over))
	}
	for _, permissions := range []string{
		`null`, `5`, `{}`, `{"type":"zzz"}`, `{"type":"read-only"}`, `{"type":"workspace-write","writable_roots":[]}`, `{"type":"managed"}`,
		`{"network":{"enabled":true},"file_system":{"read":[]}}`, `{"type":"external"}`, `{"type":"external","network":"zzz"}`,
		`{"type":"external","network":"enabled"}`, `{"type":"disabled"}`, `{"type":"disabled","network":"restricted"}`,
		`{"type":"managed","network":"enabled"}`, `{"type":"managed","file_system":{"type":"unrestricted"}}`,
		`{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}`,
		`{"type":"managed","file_system":{"type":"zzz"},"network":"enabled"}`, `{"type":"managed","file_system":{"type":"restricted"},"network":"enabled"}`,
	} {
		add(permissions, `"sandbox":`+intentFor(permissions, ""))
	}
	for _, depth := range []string{`0`, `1`, `null`, `-1`, `"x"`} {
		add("depth "+depth, `"sandbox":`+intentFor(fmt.Sprintf(
			`{"type":"managed","file_system":{"type":"restricted","entries":[%s],"glob_scan_max_depth":%s},"network":"enabled"}`, rootRead, depth), ""))
	}
	for _, entry := range []string{
		`5`, `{}`, `{"path":{"type":"special","value":{"kind":"root"}}}`, `{"access":"read"}`,
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"zzz"}`, `{"path":{"type":"special","value":{"kind":"zzz"}},"access":"read"}`,
		`{"path":{"type":"special","value":"root"},"access":"read"}`, `{"path":{"type":"special","value":{"kind":"unknown","path":":new"}},"access":"write"}`,
		`{"path":{"type":"special","value":{"kind":"unknown"}},"access":"write"}`,
		`{"path":{"type":"special","value":{"kind":"current_working_directory"}},"access":"read"}`,
		`{"path":{"type":"zzz"},"access":"read"}`, `{"path":{"type":"path","path":"/tmp"},"access":"read"}`,
		`{"path":{"type":"path","path":"http://x/y"},"access":"read"}`, at("/C:/tmp", "read"), `{"path":{"type":"path"},"access":"read"}`,
		`{"path":{"type":"glob_pattern"},"access":"deny"}`, at("$OUT", "none"),
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read","missing_path_behavior":"zzz"}`,
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read","missing_path_behavior":null}`,
	} {
		add("entry "+entry, `"sandbox":`+readOnly.and(entry).intent("restricted", ""))
	}
	add("no permissions", `"sandbox":{"windowsSandboxLevel":"disabled"}`)
	add("no level", `"sandbox":{"permissions":{"type":"disabled"}}`)
	add("only what must be", `"sandbox":{"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}`)
	add("a number", `"sandbox":5`)
	add("a list", `"sandbox":[]`)
	add("foreign cwd of the process", `"cwd":"file:///C:/x","sandbox":`+readOnly.intent("restricted", ""))
	add("foreign cwd without a sandbox", `"cwd":"file:///C:/x"`)
	add("no arguments", `"argv":[],"sandbox":`+readOnly.intent("restricted", ""))
	add("no arguments and a bad intent", `"argv":[],"sandbox":`+readOnly.intent("restricted", `"cwd":"file:///C:/x"`))
	return rows
}

// intentDifferences are the answers that are meant to differ.
var intentDifferences = []difference{
	{"a list", "a list never stands for an object", `{"error":{"code":-32602,"message":"invalid type: sequence, expected struct WireFileSystemSandboxContext"}}`},
	{"no arguments and a bad intent", "of two mistakes the other one is named", `{"error":{"code":-32602,"message":"argv must not be empty"}}`},
}
