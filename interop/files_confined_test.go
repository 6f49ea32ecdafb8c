//go:build interop

package interop_test

import (
	"encoding/json"
)

// denyOut is a policy with a writable workspace and a hidden secret.
var denyOut = workspaceOnly.and(at("$OUT", "deny"))

func toOutside(f *fixture) {
	f.link("ws/l", "$OUT/secret.txt")
	f.link("ws/ldir", "$OUT")
	f.link("ws/dangling", "$OUT/none")
	f.hardLink("ws/h", "out/secret.txt")
	f.fifo("ws/fifo")
}

var confinedReadRows = []fileRow{
	{id: "CF02", policy: readOnly, calls: []fileCall{on("readFile", "$OUT/secret.txt")}},
	{id: "CF03", policy: minimalRead, calls: []fileCall{on("readFile", "$WS/a.txt")}},
	{id: "CF04", policy: minimalRead, calls: []fileCall{on("readFile", "$OUT/secret.txt")}},
	{id: "CF05", policy: minimalRead, with: toOutside, calls: []fileCall{on("readFile", "$WS/l")}},
	{id: "CF06", policy: minimalRead, with: toOutside, calls: []fileCall{on("readFile", "$WS/ldir/secret.txt")}},
	{id: "CF07", policy: minimalRead, with: toOutside, calls: []fileCall{on("readFile", "$WS/h")}},
	{id: "CF08", policy: denyOut, calls: []fileCall{on("readFile", "$OUT/secret.txt")}},
	{id: "CF09", policy: denyOut, with: toOutside, calls: []fileCall{on("readFile", "$WS/l")}},
	{id: "CF12", intent: intentFor(`{"type":"disabled"}`, ""), calls: []fileCall{on("readFile", "$OUT/secret.txt"), write("$OUT/n", "x")}},
	{id: "CF13", intent: intentFor(`{"type":"external","network":"restricted"}`, ""), calls: []fileCall{on("readFile", "$OUT/secret.txt"), write("$OUT/n", "x")}},
	{id: "CF16", policy: readOnly, with: toOutside, calls: []fileCall{on("readFile", "$WS/l", noFollow), on("readFile", "$WS/ldir/secret.txt", noFollow), on("readFile", "$WS/a.txt", noFollow)}},
	{id: "CF91", policy: readOnly, calls: []fileCall{on("readFile", "/proc/self/environ"), on("readFile", "/proc/sys/kernel/ostype")}},
	{id: "CF55", policy: denyOut, calls: []fileCall{on("getMetadata", "$OUT")}},
	{id: "CF56", policy: denyOut, calls: []fileCall{on("getMetadata", "$OUT/secret.txt")}},
	{id: "CF67", policy: minimalRead, with: toOutside, calls: []fileCall{on("canonicalize", "$WS/l"), on("canonicalize", "$WS/a.txt")}},
	{id: "CF68", policy: readOnly, with: toOutside, calls: []fileCall{on("canonicalize", "$WS/l")}},
	{id: "read-only reads", policy: readOnly, with: someLinks, calls: confinedReads},
	{id: "workspace-write reads", policy: workspaceWrite, with: someLinks, calls: confinedReads},
	{id: "restricted reads", policy: minimalRead, with: someLinks, calls: confinedReads},
	{id: "reads beside a deny", policy: denyOut, with: someLinks, calls: confinedReads},
	{id: "a denied file", policy: readOnly.and(at("$OUT/secret.txt", "deny")), with: toOutside, calls: []fileCall{
		on("readFile", "$OUT/secret.txt"), on("readFile", "$WS/h"), on("getMetadata", "$OUT/secret.txt"), on("canonicalize", "$WS/l"), on("readDirectory", "$OUT"), walk("$OUT", 1, 1, 9, false)}},
	{id: "a denied glob", policy: workspaceOnly.and(glob("$WS/**/*.env", "deny")), with: envFiles, calls: []fileCall{
		on("readFile", "$WS/x.env"), on("readFile", "$WS/d/y.env"), on("readFile", "$WS/a.txt"), write("$WS/x.env", "x"), write("$WS/late.env", "late"), on("remove", "$WS/x.env"), copyTo("$WS/d/y.env", "$WS/z", false)}},
}

// confinedReads has every kind of request that only reads, with its errors.
var confinedReads = []fileCall{
	on("readFile", "$WS/a.txt"), on("readFile", "$WS/none"), on("readFile", "$WS/sub"), on("readFile", "$WS/fifo"), on("readFile", "$WS/l"), on("readFile", "$WS/a.txt/below"),
	on("readFile", "$WS/loop"), on("readFile", "$WS/dangling"), on("readFile", "$WS/ldir/secret.txt"), on("readFile", "$WS/l", noFollow),
	on("getMetadata", "$WS/a.txt"), on("getMetadata", "$WS/none"), on("getMetadata", "$WS/l"), on("getMetadata", "$WS/ldir"), on("getMetadata", "$WS/l", noFollow), on("getMetadata", "$WS/sub", noFollow),
	on("canonicalize", "$WS/l"), on("canonicalize", "$WS/none"), on("canonicalize", "$WS/ldir"), on("canonicalize", "$WS/a.txt/below"),
	on("readDirectory", "$WS"), on("readDirectory", "$WS/none"), on("readDirectory", "$WS/a.txt"), on("readDirectory", "$WS/ldir"),
	walk("$WS", 5, 50, 50, true), walk("$WS", 5, 50, 50, false), walk("$WS/none", 5, 5, 50, false), walk("$WS", 65, 5, 50, false),
	open("h", "$WS/a.txt"), readBlock("h", 2, 3), open("h", "$WS/a.txt"), open("x", "$WS/none"), open("x", "$WS/sub"), open("x", "$WS/ldir/secret.txt"), closeHandle("h"),
}

var confinedWriteRows = []fileRow{
	{id: "CF30", policy: readOnly, calls: []fileCall{write("$WS/n", "x"), write("$WS/a.txt", "x")}},
	{id: "CF31", policy: workspaceOnly, calls: []fileCall{write("$WS/n", "new"), write("$WS/a.txt", "changed")}},
	{id: "CF32", policy: workspaceOnly, calls: []fileCall{write("$OUT/n", "x"), write("$OUT/secret.txt", "x"), write("$OUT/none/x", "x")}},
	{id: "CF33", policy: workspaceOnly, with: toOutside, calls: []fileCall{write("$WS/l", "x"), write("$WS/dangling", "x")}},
	{id: "CF34", policy: workspaceOnly, with: toOutside, calls: []fileCall{write("$WS/ldir/secret.txt", "x"), write("$WS/ldir/n", "x")}},
	{id: "CF35", policy: workspaceOnly, with: gitDirectory, calls: []fileCall{write("$WS/.git/config", "x"), write("$WS/.git/new", "x")}},
	{id: "CF36", policy: workspaceOnly, calls: []fileCall{write("$WS/.codex/x", "x")}},
	{id: "CF36 existing", policy: workspaceOnly, with: func(f *fixture) { f.dir("ws/.codex") }, calls: []fileCall{write("$WS/.codex/x", "x")}},
	{id: "CF37", policy: workspaceOnly, calls: []fileCall{write("$WS/none/x", "x")}},
	{id: "CF38", policy: workspaceOnly, with: toOutside, calls: []fileCall{write("$WS/h", "changed")}},
	{id: "CF41", policy: workspaceOnly, calls: []fileCall{write(hostTemp("/dev/shm"), "x")}, others: []string{hostTemp("/dev/shm")}},
	{id: "a missing protected name as a file", policy: workspaceOnly, calls: []fileCall{write("$WS/.git", "x"), write("$WS/.aws", "x")}},
	{id: "temporary directories", policy: workspaceWrite, calls: []fileCall{write(hostTemp("/tmp"), "x"), write(hostTemp("/var/tmp"), "x")},
		others: []string{hostTemp("/tmp"), hostTemp("/var/tmp")}},
	{id: "no temporary directories", policy: workspaceOnly, calls: []fileCall{write(hostTemp("/tmp"), "x")}, others: []string{hostTemp("/tmp")}},
	{id: "writeFile in a workspace", policy: workspaceOnly, with: someLinks, calls: []fileCall{
		write("$WS/sub", "x"), write("$WS/l", "through"), write("$WS/loop", "x"), write("$WS/a.txt/below", "x"), write("$WS/l", "x", noFollow), write("$WS/n", "x", noFollow),
		on("writeFile", "$WS/bad", `"dataBase64":"@@@"`), write("/dev/null", "x")}},
	{id: "root write", policy: rootWrite, calls: []fileCall{write("$OUT/n", "x"), on("remove", "$OUT/secret.txt"), on("createDirectory", "$WS/.git")}},
	{id: "root write with a deny", policy: rootWrite.and(at("$OUT", "deny")), calls: []fileCall{write("$FX/n", "x"), write("$OUT/n", "x"), on("readFile", "$OUT/secret.txt"), on("remove", "$OUT/secret.txt")}},
	{id: "CF50", policy: workspaceOnly, calls: []fileCall{on("createDirectory", "$WS/new/deep"), on("createDirectory", "$WS/one", shallow), on("createDirectory", "$WS/sub", shallow), on("createDirectory", "$WS/x/y", shallow)}},
	{id: "CF51", policy: workspaceOnly, calls: []fileCall{on("createDirectory", "$OUT/new"), on("createDirectory", "$OUT/new", shallow), on("createDirectory", "$OUT")}},
	{id: "CF52", policy: workspaceOnly, calls: []fileCall{on("createDirectory", "$WS/.agents")}},
	{id: "CF52 not recursive", policy: workspaceOnly, calls: []fileCall{on("createDirectory", "$WS/.agents", shallow)}},
	{id: "createDirectory read-only", policy: readOnly, calls: []fileCall{on("createDirectory", "$WS/new"), on("createDirectory", "$WS/sub")}},
}

var confinedTreeRows = []fileRow{
	{id: "CF57", policy: minimalRead, with: toOutside, calls: []fileCall{on("readDirectory", "$WS")}},
	{id: "CF58", policy: minimalRead, ignore: []string{"tmp", "$FIRST"}, calls: []fileCall{on("readDirectory", "/")}}, // of /tmp see D05
	{id: "CF59", policy: denyOut, calls: []fileCall{on("readDirectory", "$OUT")}},
	{id: "CF60", policy: workspaceOnly, calls: []fileCall{on("remove", "$WS/a.txt"), on("remove", "$WS/sub"), on("remove", "$WS/none"), on("remove", "$WS/none", noForce)}},
	{id: "CF61", policy: workspaceOnly, calls: []fileCall{on("remove", "$OUT/secret.txt"), on("remove", "$OUT"), on("remove", "$OUT/none"), on("remove", "$OUT/none", noForce), on("remove", "$OUT/none", shallow),
		on("remove", "$OUT/none", shallow, noFollow), on("remove", "$OUT/none/x"), on("remove", "$OUT/secret.txt", shallow, noForce)}},
	{id: "CF62", policy: workspaceOnly, with: gitDirectory, calls: []fileCall{on("remove", "$WS/.git/config"), on("remove", "$WS/.git")}},
	{id: "CF63", policy: workspaceOnly, with: toOutside, calls: []fileCall{on("remove", "$WS/l"), on("remove", "$WS/ldir"), on("remove", "$WS/dangling")}},
	{id: "CF64", policy: workspaceOnly, calls: []fileCall{copyTo("$OUT/secret.txt", "$WS/c", false), copyTo("$OUT", "$WS/dir", true), copyTo("$WS/sub", "$WS/s", false)}},
	{id: "CF65", policy: workspaceOnly, calls: []fileCall{copyTo("$WS/a.txt", "$OUT/c", false), copyTo("$WS/a.txt", "$OUT/secret.txt", false), copyTo("$WS", "$OUT/ws", true)}},
	{id: "CF66", policy: denyOut, calls: []fileCall{copyTo("$OUT/secret.txt", "$WS/c", false), copyTo("$OUT", "$WS/dir", true)}},
	{id: "CF69", policy: minimalRead, with: toOutside, calls: []fileCall{walk("$WS", 5, 5, 50, true), walk("$FX", 5, 5, 50, true)}},
	{id: "walk beside a deny", policy: denyOut, calls: []fileCall{walk("$FX", 5, 50, 50, false), walk("$OUT", 5, 5, 50, false)}},
	{id: "removes and copies read-only", policy: readOnly, calls: []fileCall{on("remove", "$WS/a.txt"), on("remove", "$WS/sub"), copyTo("$WS/a.txt", "$WS/c", false), copyTo("$WS/sub", "$WS/s", true), on("remove", "$WS/none")}},
	{id: "copy a tree in a workspace", policy: workspaceOnly, with: aTree, calls: []fileCall{copyTo("$WS/t", "$WS/t2", true), on("remove", "$WS/t"), copyTo("$WS/l", "$WS/l2", false), copyTo("$WS/fifo", "$WS/f2", false)}},
	{id: "remove a missing protected name", policy: workspaceOnly, calls: []fileCall{on("remove", "$WS/.agents"), on("remove", "$WS/.agents", noForce)}},
	{id: "look at a missing protected name", policy: denyOut, calls: []fileCall{on("getMetadata", "$WS/.agents"), on("readDirectory", "$WS"), on("readDirectory", "$WS/.agents")}},
	{id: "copy to a missing protected name", policy: workspaceOnly, calls: []fileCall{copyTo("$WS/a.txt", "$WS/.git", false), copyTo("$WS/sub", "$WS/.codex", true)}},
}

var confinedOpenRows = []fileRow{
	{id: "CF81", policy: minimalRead, calls: []fileCall{open("h", "$OUT/secret.txt"), readBlock("h", 0, 9)}},
	{id: "CF82", policy: minimalRead, with: toOutside, calls: []fileCall{open("h", "$WS/l")}},
	{id: "CF83", policy: denyOut, calls: []fileCall{open("h", "$OUT/secret.txt")}},
	{id: "CF84", policy: readOnly, calls: []fileCall{open("h", "$WS/sub")}},
	{id: "CF85", policy: readOnly, calls: []fileCall{open("h", "/dev/null")}},
	{id: "CF87", policy: readOnly, with: toOutside, calls: []fileCall{open("h", "$WS/fifo")}},
	{id: "CF90", policy: workspaceOnly, with: func(f *fixture) { toOutside(f); gitDirectory(f) }, calls: []fileCall{
		open("a", "$WS/a.txt", replace), open("o", "$OUT/n", replace), open("g", "$WS/.git/config", replace), open("l", "$WS/l", replace), open("n", "$WS/n", replace),
		writeBlock("n", 3, "block"), readBlock("n", 0, 1)}},
	{id: "CF90 read-only", policy: readOnly, calls: []fileCall{open("a", "$WS/a.txt", replace)}},
	{id: "open replace what is no file", policy: workspaceOnly, with: someLinks, calls: []fileCall{
		open("h", "$WS/sub", replace), open("h", "$WS/fifo", replace), open("h", "$WS/none/x", replace), open("h", "$WS/.agents", replace), open("h", "$WS/.agents/x", replace)}},
	{id: "open in a restricted workspace", policy: minimalRead, calls: []fileCall{open("h", "$WS/a.txt"), readBlock("h", 0, 9), open("w", "$WS/a.txt", replace)}},
}

// intentWithout returns an intent without some of its members.
func intentWithout(intent string, names ...string) string {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(intent), &members); err != nil {
		panic("intentWithout: " + err.Error())
	}
	for _, name := range names {
		delete(members, name)
	}
	return canonical(members)
}

// everyMethod has one request of each method that takes a sandbox.
var everyMethod = []fileCall{
	on("readFile", "$WS/a.txt"), open("h", "$WS/a.txt"), open("w", "$WS/w", replace), write("$WS/n", "x"), on("createDirectory", "$WS/d"), on("getMetadata", "$WS/a.txt"),
	on("canonicalize", "$WS/a.txt"), on("readDirectory", "$WS/sub"), walk("$WS/sub", 1, 1, 1, false), on("remove", "$WS/none"), copyTo("$WS/a.txt", "$WS/c", false),
}

var confinedIntentRows = []fileRow{
	{id: "CF14", intent: intentWithout(workspaceOnly.intent("restricted", ""), "cwd", "workspaceRoots"), calls: everyMethod},
	{id: "CF14 with roots", intent: intentWithout(workspaceOnly.intent("restricted", ""), "cwd"), calls: everyMethod},
	{id: "CF15", intent: intentWithout(readOnly.intent("restricted", ""), "cwd", "workspaceRoots"), calls: everyMethod},
	{id: "CF21", policy: readOnly.and(at("/C:/x", "read")), calls: everyMethod},
	{id: "policyContext", intent: intentWithout(workspaceOnly.intent("restricted", `"policyContext":{"cwd":"file://$WS","workspaceRoots":["file://$WS"]}`), "workspaceRoots"), calls: everyMethod},
	{id: "foreign cwd", intent: readOnly.intent("restricted", `"cwd":"file:///C:/x"`), calls: everyMethod},
	{id: "foreign cwd of a workspace", intent: workspaceOnly.intent("restricted", `"cwd":"file:///C:/x"`), calls: everyMethod},
	{id: "foreign cwd beside a deny", intent: denyOut.intent("restricted", `"cwd":"file:///C:/x"`), calls: everyMethod},
	{id: "foreign cwd with restricted reads", intent: minimalRead.intent("restricted", `"cwd":"file:///C:/x"`), calls: everyMethod},
	{id: "foreign root", intent: workspaceOnly.intent("restricted", `"workspaceRoots":["file:///C:/x"]`), calls: everyMethod},
	{id: "foreign root beside a deny", intent: denyOut.intent("restricted", `"workspaceRoots":["file:///C:/x"]`), calls: everyMethod},
	{id: "foreign policyContext", intent: workspaceOnly.intent("restricted", `"policyContext":{"cwd":"file:///C:/x","workspaceRoots":["file:///C:/y"]}`), calls: everyMethod},
	{id: "a root glob", policy: readOnly.and(glob("/**/*.env", "deny")), calls: everyMethod},
	{id: "a deny behind a writable link", policy: workspaceOnly.and(at("$WS/lnk/secret.txt", "deny")), with: func(f *fixture) { f.link("ws/lnk", "$OUT") }, calls: everyMethod},
	{id: "a protected link", policy: workspaceOnly, with: func(f *fixture) { f.dir("ws/real"); f.link("ws/.git", "$WS/real") }, calls: everyMethod},
	{id: "a missing workspace", intent: workspaceOnly.intent("restricted", `"cwd":"file://$FX/none","workspaceRoots":["file://$FX/none"]`), calls: everyMethod},
	{id: "changes in a missing workspace", intent: workspaceOnly.intent("restricted", `"cwd":"file://$FX/none","workspaceRoots":["file://$FX/none"]`), calls: []fileCall{
		write("$FX/none/n", "x"), write("$FX/none/.git/n", "x"), open("w", "$FX/none/n", replace), on("createDirectory", "$FX/none/d", shallow), on("createDirectory", "$FX/none/d"),
		on("createDirectory", "$FX/none"), on("remove", "$FX/none/n"), on("remove", "$FX/none/n", noForce), on("remove", "$FX/none/.git"), on("remove", "$FX/none"), copyTo("$WS/a.txt", "$FX/none/c", false), copyTo("$WS/sub", "$FX/none/c", true)}},
	{id: "network enabled", intent: workspaceOnly.intent("enabled", ""), calls: everyMethod},
	{id: "unrestricted", intent: intentFor(`{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`, ""), calls: everyMethod},
	{id: "landlock", intent: readOnly.intent("restricted", `"useLegacyLandlock":true`), calls: everyMethod},
	{id: "landlock beside a deny", intent: denyOut.intent("restricted", `"useLegacyLandlock":true`), calls: everyMethod},
	{id: "landlock with restricted reads", intent: minimalRead.intent("restricted", `"useLegacyLandlock":true`), calls: everyMethod},
	{id: "a protected link beside a deny", policy: denyOut, with: func(f *fixture) { f.dir("ws/real"); f.link("ws/.git", "$WS/real") }, calls: everyMethod},
	{id: "foreign paths in a sandbox", policy: denyOut, calls: []fileCall{on("readFile", "/C:/x"), write("/C:/x", "x"), on("getMetadata", "/C:/x"), copyTo("$WS/a.txt", "/C:/x", false), open("h", "/C:/x")}},
}
