//go:build interop

package interop_test

import (
	"fmt"
	"os"
)

// aTree makes a directory tree to walk, copy and remove.
func aTree(f *fixture) {
	someLinks(f)
	f.file("ws/t/b/two", "2")
	f.file("ws/t/a/one", "1")
	f.file("ws/t/a/deep/three", "3")
	f.file("ws/t/.hidden/four", "4")
	f.file("ws/t/.dot", "5")
	f.file("ws/t/file", "6")
	f.mode("ws/t/file", 0o751)
	f.link("ws/t/up", "$WS/t")
	f.link("ws/t/side", "$OUT")
	f.link("ws/t/tofile", "$WS/a.txt")
	f.link("ws/t/nowhere", "$OUT/none")
	f.fifo("ws/t/pipe")
}

// strangeNames are names that need care in URIs.
func strangeNames(f *fixture) {
	for _, name := range []string{"a b", "100%", "q?#", "n\xff", "tab\there", "line\nhere", "üñ", "back\\slash", "[x]"} {
		f.file("ws/t/"+name, "x")
	}
}

var plainListRows = []fileRow{
	{id: "readDirectory", with: aTree, calls: []fileCall{
		on("readDirectory", "$WS"), on("readDirectory", "$WS/t"), on("readDirectory", "$WS/sub"), on("readDirectory", "$WS/ldir"), on("readDirectory", "$WS/a.txt"),
		on("readDirectory", "$WS/none"), on("readDirectory", "$WS/dangling"), on("readDirectory", "$WS/loop"), on("readDirectory", "$WS/fifo"), on("readDirectory", "$WS/sub/"),
	}},
	{id: "readDirectory of strange names", with: strangeNames, calls: []fileCall{on("readDirectory", "$WS/t")}},
	{id: "50000 entries", with: func(f *fixture) { f.many(".many", 50_000) }, calls: []fileCall{
		on("readDirectory", "$FX.many"), walk("$FX.many", 1, 10, 50_000, false), // too large an answer
		meanwhile(func(f *fixture) { f.sparse(".many/last", 0) }), on("readDirectory", "$FX.many"),
	}, others: []string{"$FX.many"}},
}

// many makes a directory with n names of one file beside the fixture: links are made
// faster than files.
func (f *fixture) many(suffix string, n int) {
	if err := os.Mkdir(f.top+suffix, 0o755); err != nil {
		f.t.Fatal(err)
	}
	first := fmt.Sprintf("%s/%05d", suffix, 0)
	f.sparse(first, 0)
	for i := 1; i < n; i++ {
		if err := os.Link(f.top+first, fmt.Sprintf("%s%s/%05d", f.top, suffix, i)); err != nil {
			f.t.Fatal(err)
		}
	}
}

const pruneHidden = `"pruneHiddenDirectories":true`

var plainWalkRows = []fileRow{
	{id: "walk", with: aTree, calls: []fileCall{
		walk("$WS/t", 64, 10000, 50000, false), walk("$WS/t", 64, 10000, 50000, true), walk("$WS/t", 0, 1, 50000, false), walk("$WS/t", 1, 100, 100, false),
		walk("$WS/t", 64, 100, 100, false, pruneHidden), walk("$WS/t", 64, 100, 100, true, pruneHidden), walk("$WS/t", 64, 2, 100, false),
		walk("$WS/t", 64, 1, 100, false), walk("$WS/t", 64, 100, 3, false), walk("$WS/t", 64, 100, 1, true), walk("$WS/t", 0, 1, 9, false), walk("$WS/t", 0, 1, 10, false),
		walk("$WS/t", 0, 1, 8, false), walk("$WS/ldir", 5, 5, 5, true), walk("$WS/ldir", 5, 5, 5, false), walk("$WS/a.txt", 5, 5, 5, false),
		walk("$WS/none", 5, 5, 5, false), walk("$WS/dangling", 5, 5, 5, true), walk("$WS/fifo", 5, 5, 5, false), walk("$WS/a.txt/below", 5, 5, 5, false),
		walk("$WS/t/", 0, 1, 50, false), walk("$WS/t/../t", 0, 1, 50, false), walk("$WS/loop", 5, 5, 5, true), walk("$WS/t", 64, 100, 100, false, `"pruneHiddenDirectories":null`),
	}},
	{id: "walk limits", calls: []fileCall{
		walk("$WS", 5, 0, 5, false), walk("$WS", 5, 5, 0, false), walk("$WS", 65, 5, 5, false), walk("$WS", 5, 10001, 5, false), walk("$WS", 5, 5, 50001, false),
		walk("$WS", -1, 5, 5, false), walk("$WS/none", 5, 0, 5, false), on("walk", "$WS"), on("walk", "$WS", `"options":{"maxDepth":1}`), on("walk", "$WS", `"options":null`),
	}},
	{id: "walk of an unreadable directory", asRoot: true, with: func(f *fixture) { f.dir("ws/closed"); f.mode("ws/closed", 0) },
		calls: []fileCall{walk("$WS", 5, 5, 50, false), meanwhile(func(f *fixture) { f.mode("ws/closed", 0o755) })}},
	{id: "walk of strange names", with: strangeNames, calls: []fileCall{walk("$WS/t", 5, 5, 50, false)}},
}

var plainRemoveRows = []fileRow{
	{id: "remove", with: aTree, calls: []fileCall{
		on("remove", "$WS/a.txt"), on("remove", "$WS/l"), on("remove", "$WS/ldir"), on("remove", "$WS/dangling"), on("remove", "$WS/fifo"), on("remove", "$WS/t"),
		on("remove", "$WS/none"), on("remove", "$WS/none/x"), on("remove", "$WS/loop/x"), on("remove", "$WS/loop"), on("remove", "$OUT/secret.txt/below"),
	}},
	{id: "remove without force", with: aTree, calls: []fileCall{
		on("remove", "$WS/none", noForce), on("remove", "$WS/none/x", noForce), on("remove", "$WS/a.txt/below", noForce), on("remove", "$WS/a.txt", noForce),
		on("remove", "$WS/t", noForce), on("remove", "$WS/t", `"force":null`),
	}},
	{id: "remove not recursive", asRoot: true, with: aTree, calls: []fileCall{
		on("remove", "$WS/t", shallow), on("remove", "$WS/sub", shallow), on("remove", "$WS/ldir", shallow), on("remove", "$WS/a.txt", shallow, noForce), on("remove", "$WS/none", shallow),
		on("remove", "$WS/none", shallow, noForce), on("remove", "$WS/fifo", shallow), on("remove", "/proc/version", shallow),
	}},
	{id: "remove without following", with: aTree, calls: []fileCall{
		on("remove", "$WS/a.txt", noFollow), on("remove", "$WS/a.txt", noFollow, shallow), on("remove", "$WS/l", noFollow, shallow), on("remove", "$WS/ldir/secret.txt", noFollow, shallow),
		on("remove", "$WS/t", noFollow, shallow), on("remove", "$WS/sub", noFollow, shallow), on("remove", "$WS/none", noFollow, shallow), on("remove", "$WS/none", noFollow, shallow, noForce),
		on("remove", "$WS/none/x", noFollow, shallow), on("remove", "$WS/fifo", noFollow, shallow), on("remove", "$OUT/secret.txt/below", noFollow, shallow),
	}},
	{id: "remove through a link and with a slash", with: aTree, calls: []fileCall{on("remove", "$WS/ldir/secret.txt"), on("remove", "$WS/sub/"), on("remove", "$WS/a.txt/"), on("remove", "$WS/t/side/")}},
}

var plainCopyRows = []fileRow{
	{id: "copy a file", with: aTree, calls: []fileCall{
		copyTo("$WS/t/file", "$WS/new", false), copyTo("$WS/t/file", "$WS/a.txt", true), copyTo("$WS/t/file", "$WS/sub", false), copyTo("$WS/t/file", "$WS/none/x", false),
		copyTo("$WS/t/file", "$WS/none/x", true), copyTo("$WS/none", "$WS/x", false), copyTo("$WS/a.txt/below", "$WS/x", false), copyTo("$WS/t/file", "$WS/a.txt/below", false),
		copyTo("$WS/t/file", "$WS/dangling", false), copyTo("$WS/fifo", "$WS/x", false), copyTo("/dev/null", "$WS/x", false), copyTo("$WS/t/file", "$WS/loop", false),
	}},
	{id: "copy over a link", with: aTree, calls: []fileCall{copyTo("$WS/t/file", "$WS/l", false)}},
	{id: "copy a file onto a FIFO", with: aTree, fresh: true, calls: []fileCall{briefly(copyTo("$WS/t/file", "$WS/fifo", false)), drain("ws/fifo")}},
	{id: "copy a file onto itself", with: func(f *fixture) { f.hardLink("ws/h", "out/secret.txt"); f.link("ws/l", "$WS/a.txt") }, calls: []fileCall{
		copyTo("$WS/a.txt", "$WS/a.txt", false), copyTo("$WS/h", "$OUT/secret.txt", false)}},
	{id: "copy a file onto a link to it", with: func(f *fixture) { f.link("ws/l", "$WS/a.txt") }, calls: []fileCall{copyTo("$WS/a.txt", "$WS/l", false)}},
	{id: "copy a link", with: aTree, calls: []fileCall{
		copyTo("$WS/l", "$WS/l2", false), copyTo("$WS/dangling", "$WS/d2", false), copyTo("$WS/ldir", "$WS/ld2", false), copyTo("$WS/ldir", "$WS/ld3", true),
		copyTo("$WS/l", "$WS/a.txt", false), copyTo("$WS/l", "$WS/none/x", false), copyTo("$WS/l", "$WS/sub", false), copyTo("$WS/l", "$WS/l", false),
	}},
	{id: "copy a directory", with: aTree, calls: []fileCall{
		copyTo("$WS/t", "$WS/t2", false), copyTo("$WS/t", "$WS/t2", true), copyTo("$WS/t", "$WS/made/on/the/way", true), copyTo("$WS/t", "$WS/t", true),
		copyTo("$WS/t", "$WS/t/a/below", true), copyTo("$WS/t", "$WS/t/none/below", true), copyTo("$WS/t/a", "$WS/ldir/a", true), copyTo("$WS/t", "$WS/t/up/x", true),
		copyTo("$WS/t/a", "$WS/a.txt", true), copyTo("$WS/t/a", "$WS/a.txt/x", true), copyTo("$WS/sub", "$WS/t2/b", true), copyTo("$WS/t", "$WS/t2", true), copyTo("$WS/t/a", "$WS/dangling", true),
	}},
	{id: "copy a directory into another", with: func(f *fixture) {
		f.file("ws/from/a", "new")
		f.file("ws/from/d/b", "new")
		f.file("ws/to/a", "old")
		f.file("ws/to/d/c", "kept")
		f.mode("ws/from/d", 0o700)
	}, calls: []fileCall{copyTo("$WS/from", "$WS/to", true)}},
	{id: "copy a directory with modes", with: func(f *fixture) {
		f.file("ws/from/d/b", "x")
		f.mode("ws/from/d", 0o750)
		f.mode("ws/from/d/b", 0o6755)
	},
		calls: []fileCall{copyTo("$WS/from", "$WS/to", true), copyTo("$WS/from/d/b", "$WS/c", false)}},
}

// fileMethods are all methods about files.
var fileMethods = []string{"readFile", "writeFile", "open", "readBlock", "writeBlock", "close", "createDirectory", "getMetadata", "canonicalize",
	"readDirectory", "walk", "remove", "copy", "watchMissing"}

var plainParamRows = []fileRow{
	{id: "foreign paths", calls: func() (calls []fileCall) {
		for _, uri := range []string{"/C:/x", "server/share", "/$WS/%00", "/$WS/a%2Fb", "localhost$WS/a.txt"} {
			calls = append(calls, on("readFile", uri), write(uri, "x"), on("createDirectory", uri), on("getMetadata", uri), on("canonicalize", uri), on("readDirectory", uri),
				walk(uri, 1, 1, 1, false), on("remove", uri), copyTo(uri, "$WS/x", false), copyTo("$WS/a.txt", uri, false), open("h"+uri[:5], uri), watch(len(calls)+1, "", uri))
		}
		return calls
	}()},
	{id: "params of the wrong shape", calls: func() (calls []fileCall) {
		for _, method := range fileMethods {
			for _, params := range []string{`{}`, `null`, `5`, `{"path":5}`, `{"path":"/tmp"}`, `{"path":"http://x/y"}`, `{"path":null}`} {
				calls = append(calls, with(method, params))
			}
		}
		return calls
	}()},
	{id: "members of the wrong shape", calls: []fileCall{
		open("h", "$WS/a.txt", `"mode":null`), open("h", "$WS/a.txt", `"mode":"append"`), with("open", `{"handleId":5,"path":"file://$WS/a.txt"}`), on("readFile", "$WS/a.txt", `"followSymlinks":5`),
		on("remove", "$WS/a.txt", `"force":"no"`), on("createDirectory", "$WS/n", `"recursive":1`), with("copy", `{"sourcePath":"file://$WS/a.txt","destinationPath":"file://$WS/n"}`),
		with("copy", `{"sourcePath":"file://$WS/a.txt","destinationPath":"file://$WS/n","recursive":null}`), with("readBlock", `{"handleId":"h","offset":-1,"len":1}`),
		with("readBlock", `{"handleId":"h","offset":0,"len":-1}`), with("writeBlock", `{"handleId":"h","offset":0,"chunk":"@@"}`), on("readFile", "$WS/a.txt", `"sandbox":null`),
		on("readFile", "$WS/a.txt", `"sandbox":5`), on("readFile", "$WS/a.txt", `"unknown":5`), on("writeFile", "$WS/n", `"dataBase64":null`),
		with("watchMissing", `{"watchId":-1,"missing":[]}`), with("watchMissing", `{"watchId":1,"missing":null}`), with("watchMissing", `{"watchId":1,"missing":["/tmp"]}`),
	}},
}

var watchRows = []fileRow{
	{id: "watchMissing fires for a path", calls: []fileCall{watch(1, "", "$WS/none"), fires(true, func(f *fixture) { f.file("ws/none", "") }),
		fires(false, func(f *fixture) { os.Remove(f.expand("$WS/none")); f.file("ws/none", "") })}},
	{id: "watchMissing fires for an ancestor", calls: []fileCall{watch(1, "", "$WS/x/y/z", "$WS/other"), fires(false, func(f *fixture) { f.file("ws/beside", "") }),
		fires(true, func(f *fixture) { f.dir("ws/x") })}},
	{id: "watchMissing fires for what is present", calls: []fileCall{watch(1, "$WS/a.txt", "$WS/none"), fires(true, func(f *fixture) { f.file("ws/a.txt", "changed") })}},
	{id: "watchMissing fires for a mode", calls: []fileCall{watch(1, "$WS/a.txt", "$WS/none"), fires(true, func(f *fixture) { f.mode("ws/a.txt", 0o644) })}},
	{id: "watchMissing fires for a replacement", calls: []fileCall{watch(1, "$WS/a.txt", "$WS/none"), fires(true, func(f *fixture) {
		f.file("ws/b.txt", "b")
		os.Rename(f.expand("$WS/b.txt"), f.expand("$WS/a.txt"))
	})}},
	{id: "watchMissing fires for a removed directory", calls: []fileCall{watch(1, "$WS/sub", "$WS/none"), fires(false, func(f *fixture) { f.file("ws/sub/child", "") }),
		fires(true, func(f *fixture) { os.RemoveAll(f.expand("$WS/sub")) })}},
	{id: "watchMissing is refused", with: someLinks, calls: []fileCall{
		watch(1, ""), watch(2, "", "$WS/a.txt"), watch(3, "$WS/none", "$WS/other"), watch(4, "", "$WS/ldir/none"), watch(5, "", "$WS/dangling"), watch(6, "$WS/l", "$WS/none"),
		watch(7, "", manyPaths(65)...), watch(8, "", manyPaths(64)...), watch(8, "", "$WS/none"), watch(3, "", "$WS/none"), watch(9, "", "$WS/a.txt/below"),
		watch(10, "", "$WS/none", "$WS/none"), watch(0, "", "$WS/none"),
	}},
	{id: "watchMissing replaces", calls: []fileCall{watch(1, "", "$WS/one"), watch(2, "", "$WS/two"), fires(false, func(f *fixture) { f.file("ws/one", "") }),
		watch(2, "", "$WS/three"), fires(true, func(f *fixture) { f.file("ws/two", "") })}},
	{id: "a refused watchMissing cancels", calls: []fileCall{watch(1, "", "$WS/one"), watch(2, "", "$WS/a.txt"), fires(false, func(f *fixture) { f.file("ws/one", "") })}},
}

func manyPaths(n int) (paths []string) {
	for i := range n {
		paths = append(paths, fmt.Sprintf("$WS/none%d", i))
	}
	return paths
}
