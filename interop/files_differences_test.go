//go:build interop

package interop_test

import (
	"fmt"
	"slices"
	"strings"
)

// Reasons of intended differences.
const (
	noPlaceholders   = "file requests need no placeholders: a missing protected name is missing, and making it is refused"
	neverBlocks      = "the reference waits forever for a reader"
	refusedClearly   = "an intent that cannot be enforced is refused as such, not as a failure of a helper"
	globHolds        = "a denied glob also holds for names that come later, and says that access is denied"
	selfCopy         = "copying a file onto itself changes nothing"
	tooLong          = "inside a sandbox a path must not be longer than the kernel accepts, even if links are not followed"
	onlyWhatSucceeds = "a copy whose source cannot be read leaves nothing behind"
)

const (
	readOnlyFS = `{"error":{"code":-32603,"message":"Read-only file system (os error 30)"}}`
	denied     = `{"error":{"code":-32600,"message":"Permission denied (os error 13)"}}`
	longPath   = `{"error":{"code":-32603,"message":"Filename too long (os error 36)"}}`
	missing    = `{"error":{"code":-32004,"message":"No such file or directory (os error 2)"}}`
)

func failure(code int, message string) string {
	return canonical(map[string]any{"error": map[string]any{"code": code, "message": message}})
}

// answers are differences of the nth requests of everyMethod; without numbers, of all.
func answers(reason, want string, numbers ...int) (differs []difference) {
	for i, call := range everyMethod {
		if len(numbers) == 0 || slices.Contains(numbers, i+1) {
			differs = append(differs, difference{fmt.Sprintf("%d %s", i+1, call.method), reason, want})
		}
	}
	return differs
}

// changing are the requests of everyMethod that change something.
var changing = []int{3, 4, 5, 10, 11}

// cannotEnforce is tether's answer to an intent that cannot be enforced.
func cannotEnforce(why string) string {
	return failure(-32600, "filesystem sandbox cannot be enforced on this executor: "+why)
}

const (
	rootGlob      = "unreadable glob `/**/*.env` cannot be safely expanded; use a pattern with a non-root directory prefix"
	denyBehind    = "cannot enforce sandbox deny-read path $BENCH/rows/ws/lnk/secret.txt because it crosses writable symlink $BENCH/rows/ws/lnk"
	protectedLink = "cannot enforce sandbox read-only path $BENCH/rows/ws/.git because it crosses writable symlink $BENCH/rows/ws/.git"
	needsBwrap    = "filesystem-restricted execution requires bubblewrap to isolate app-server sockets"
)

// workspaceWith is the plain host with more lines for the workspace, after a.txt.
func workspaceWith(more string) string {
	return strings.Replace(plainHost("inside"), "drwxr-xr-x ws/sub\n", more+"drwxr-xr-x ws/sub\n", 1)
}

// workspaceEntry is an entry of an answer to readDirectory.
func workspaceEntry(name, kind string) string {
	return fmt.Sprintf(`{"fileName":%q,"isDirectory":%t,"isFile":%t}`, name, kind == "directory", kind == "file")
}

func walked(errors string, entries ...string) string {
	for i, e := range entries {
		name, kind, _ := strings.Cut(e, " ")
		entries[i] = fmt.Sprintf(`{"kind":%q,"path":"file://$BENCH/rows/%s"}`, kind, name)
	}
	return fmt.Sprintf(`{"result":{"entries":[%s],"errors":[%s],"truncated":false}}`, strings.Join(entries, ","), errors)
}

// fileDifferences are the answers in which tether is meant to differ, by row.
var fileDifferences = map[string][]difference{
	"createdAtMs": {{"1 fs/getMetadata", "the birth time is known either way",
		`{"result":{"createdAtMs":"known","isDirectory":false,"isFile":true,"isSymlink":false,"modifiedAtMs":"known","size":6}}`}},
	"readBlock beyond signed offsets": {
		{"2 fs/readBlock", "beyond the end there is nothing, however far", `{"result":{"chunk":"","eof":true}}`},
		{"3 fs/readBlock", "so the handle stays open", `{"result":{"chunk":"i","eof":false}}`},
	},
	"writeFile to a FIFO":     {{"1 fs/writeFile", neverBlocks, failure(-32600, "path `$BENCH/rows/ws/fifo` is not a file")}},
	"copy a file onto a FIFO": {{"1 fs/copy", neverBlocks, failure(-32600, "path `$BENCH/rows/ws/fifo` is not a file")}},
	"walk of strange names": {{"1 fs/walk", "URIs of names are right whatever the bytes", walked("", "ws/t/100%25 file", "ws/t/[x] file", "ws/t/a%20b file",
		"ws/t/back%5Cslash file", "ws/t/line%0Ahere file", "ws/t/n%FF file", "ws/t/q%3F%23 file", "ws/t/tab%09here file", "ws/t/%C3%BC%C3%B1 file")}},
	"copy a file onto itself":       {{"host", selfCopy, workspaceWith("-rw------- ws/h \"secret\"\nLrwxrwxrwx ws/l\n") + "ws/l leads to $BENCH/rows/ws/a.txt\n"}},
	"copy a file onto a link to it": {{"host", selfCopy, workspaceWith("Lrwxrwxrwx ws/l\n") + "ws/l leads to $BENCH/rows/ws/a.txt\n"}},

	"CF91":                               {{"1 fs/readFile", "the environment of the server stays hidden", `{"result":{"dataBase64":"PATH=/usr/local/bin:/usr/bin:/bin\u0000TMPDIR=/tmp\u0000"}}`}},
	"CF41":                               {{"1 fs/writeFile", "a write to private scratch is refused", readOnlyFS}},
	"CF52":                               {{"1 fs/createDirectory", noPlaceholders, readOnlyFS}},
	"CF66":                               {{"host", onlyWhatSucceeds, plainHost("inside")}},
	"CF52 not recursive":                 {{"1 fs/createDirectory", noPlaceholders, readOnlyFS}},
	"a missing protected name as a file": {{"1 fs/writeFile", noPlaceholders, readOnlyFS}, {"2 fs/writeFile", noPlaceholders, readOnlyFS}},
	"remove a missing protected name":    {{"1 fs/remove", noPlaceholders, readOnlyFS}, {"2 fs/remove", noPlaceholders, readOnlyFS}},
	"copy to a missing protected name":   {{"1 fs/copy", noPlaceholders, readOnlyFS}, {"2 fs/copy", noPlaceholders, readOnlyFS}},
	"open replace what is no file":       {{"4 fs/open", noPlaceholders, readOnlyFS}},
	"look at a missing protected name": {{"1 fs/getMetadata", noPlaceholders, missing}, {"3 fs/readDirectory", noPlaceholders, missing},
		{"2 fs/readDirectory", noPlaceholders, `{"result":{"entries":[` + workspaceEntry("a.txt", "file") + "," + workspaceEntry("sub", "directory") + `]}}`}},
	"reads beside a deny": {
		{"21 fs/readDirectory", noPlaceholders, `{"result":{"entries":[` + strings.Join([]string{workspaceEntry("a.txt", "file"), workspaceEntry("fifo", ""),
			workspaceEntry("l", "file"), workspaceEntry("ldir", "directory"), workspaceEntry("sub", "directory")}, ",") + `]}}`},
		{"25 fs/walk", noPlaceholders, walked(`{"message":"Permission denied (os error 13)","path":"file://$BENCH/rows/ws/ldir"}`, "ws/a.txt file", "ws/ldir directory", "ws/sub directory")},
		{"26 fs/walk", noPlaceholders, walked("", "ws/a.txt file", "ws/sub directory")},
	},
	"walk beside a deny": {{"1 fs/walk", noPlaceholders, walked(`{"message":"Permission denied (os error 13)","path":"file://$BENCH/rows/out"}`,
		"out directory", "ws directory", "ws/a.txt file", "ws/sub directory")}},
	"a denied glob": {{"4 fs/writeFile", globHolds, denied}, {"5 fs/writeFile", globHolds, denied}, {"6 fs/remove", globHolds, denied},
		{"host", globHolds, strings.Replace(workspaceWith("drwxr-xr-x ws/d\n-rw------- ws/d/y.env \"two\"\n"), "ws/sub\n", "ws/sub\n-rw------- ws/x.env \"one\"\n", 1)}},

	"a denied directory becomes a link": {{"3 fs/readFile", "a denied symlink denies what it leads to", denied}},
	"a root glob":                       answers(refusedClearly, cannotEnforce(rootGlob)),
	"a deny behind a writable link":     answers(refusedClearly, cannotEnforce(denyBehind)),
	"a protected link":                  answers(refusedClearly, cannotEnforce(protectedLink), changing...),
	"a protected link beside a deny":    answers(refusedClearly, cannotEnforce(protectedLink)),
	"landlock":                          answers(refusedClearly, cannotEnforce(needsBwrap), changing...),
	"landlock beside a deny":            answers(refusedClearly, cannotEnforce(needsBwrap)),
	"landlock with restricted reads":    answers(refusedClearly, cannotEnforce(needsBwrap)),

	"hostile paths in a workspace": {{"230 fs/writeFile", tooLong, longPath}, {"232 fs/createDirectory", tooLong, longPath}, {"237 fs/remove", tooLong, longPath}},
	"hostile paths beside a deny":  {{"222 fs/readFile", tooLong, longPath}, {"230 fs/writeFile", tooLong, longPath}, {"232 fs/createDirectory", tooLong, longPath}, {"237 fs/remove", tooLong, longPath}},
}
