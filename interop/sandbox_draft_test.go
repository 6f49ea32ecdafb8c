//go:build interop

package interop_test

import (
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// TestSandboxDraft: the reference refuses the draft form of an intent, tether
// accepts it and answers in the draft's spelling.
func TestSandboxDraft(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	for _, row := range draftRows {
		t.Run(row.id, func(t *testing.T) { row.exchange().run(t) })
	}
}

const draftReason = "the draft form is accepted"

// accepted are the differences of a start that only tether accepts.
func accepted(sandboxType string, end []difference) []difference {
	return append(end, difference{"start", draftReason, canonical(map[string]any{"result": map[string]any{"processId": "p", "sandboxType": sandboxType}})})
}

var draftRows = []sandboxRow{
	{id: "disabled", intent: `{"mode":"disabled","policy":{"type":"read-only"},"sandboxPolicyCwd":"$WS"}`, script: `echo x > a.txt`,
		differs: append(accepted("none", ends(draftReason, 0, false, nil)), difference{"host", draftReason, plainHost("x\n")})},
	{id: "require read-only", intent: `{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"file://$WS"}`, script: `echo x > a.txt`,
		differs: accepted("linux-seccomp", ends(draftReason, 2, true, stderr("/bin/sh: 1: cannot create a.txt: Read-only file system\n")))},
	{id: "auto workspace-write", intent: `{"mode":"auto","policy":{"type":"workspace-write"},"sandboxPolicyCwd":"$WS"}`,
		script: `echo x > a.txt; echo x > .git/config; echo x > $OUT/n`,
		differs: append(accepted("linux-seccomp", ends(draftReason, 2, true, stderr("/bin/sh: 1: cannot create .git/config: Read-only file system\n"+
			"/bin/sh: 1: cannot create $BENCH/rows/out/n: Read-only file system\n"))), difference{"host", draftReason, plainHost("x\n")})},
	{id: "fileSystemPolicy decides files", intent: `{"mode":"require","policy":{"type":"danger-full-access"},"sandboxPolicyCwd":"$WS",
		"fileSystemPolicy":{"kind":"restricted","entries":[` + rootRead + `,` + at("$OUT", "deny") + `]},"networkPolicy":"restricted"}`,
		script:  `cat $OUT/secret.txt`,
		differs: accepted("linux-seccomp", ends(draftReason, 1, true, stderr("cat: $BENCH/rows/out/secret.txt: Permission denied\n")))},
	{id: "networkPolicy decides the network", intent: `{"mode":"require","policy":{"type":"danger-full-access"},"sandboxPolicyCwd":"$WS","networkPolicy":"restricted"}`,
		argv: socketOf(afInet, 1), differs: accepted("linux-seccomp", ends(draftReason, 1, false, stdout("errno 1\n")))},
	{id: "external", intent: `{"mode":"require","fileSystemPolicy":{"kind":"external-sandbox"},"networkPolicy":"enabled","sandboxPolicyCwd":"$WS"}`,
		argv: socketOf(afInet, 1), differs: accepted("linux-seccomp", ends(draftReason, 0, false, stdout("done\n")))},
	{id: "unknown mode", intent: `{"mode":"zzz","policy":{"type":"read-only"},"sandboxPolicyCwd":"$WS"}`, script: `true`,
		differs: refused(draftReason, -32602, "unknown variant `zzz`, expected one of `disabled`, `auto`, `require`")},
	{id: "unknown kind", intent: `{"mode":"require","fileSystemPolicy":{"kind":"zzz"},"sandboxPolicyCwd":"$WS"}`, script: `true`,
		differs: refused(draftReason, -32602, "unknown variant `zzz`, expected one of `restricted`, `unrestricted`, `external-sandbox`")},
	{id: "nothing decides files", intent: `{"mode":"require","networkPolicy":"enabled","sandboxPolicyCwd":"$WS"}`, script: `true`,
		differs: refused(draftReason, -32602, "missing field `policy`")},
}
