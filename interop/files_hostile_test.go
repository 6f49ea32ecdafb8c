//go:build interop

package interop_test

import (
	"os"
	"strings"
)

// hostilePaths are paths that an attacker might try.
var hostilePaths = []string{
	"$WS/sub/../../out/secret.txt", "$WS/../../../../../../../../../..$OUT/secret.txt", "$WS/..", "$WS/none/../a.txt", "$WS/a.txt/../a.txt", "$WS/%2E%2E/out/secret.txt",
	"$WS/a%00.txt", "$WS/%FF%FE", "$WS/%C3", "$WS/loop/x", "$WS/ring/x",
	"$WS" + strings.Repeat("/"+strings.Repeat("n", 200), 22), "$WS" + strings.Repeat("/.", 3000) + "/a.txt", "$WS/" + strings.Repeat("n", 5000),
}

// everywhere has one request of each method for each hostile path.
func everywhere() (calls []fileCall) {
	for _, path := range hostilePaths {
		calls = append(calls, on("readFile", path), on("readFile", path, noFollow), on("getMetadata", path), on("getMetadata", path, noFollow), on("canonicalize", path), on("readDirectory", path),
			walk(path, 0, 9, 9, true), open("r", path), open("w", path, replace), write(path, "x", noFollow), write(path, "x"), on("createDirectory", path, noFollow, shallow), on("createDirectory", path),
			copyTo(path, "$WS/copy", false), copyTo("$WS/sub", path, true), copyTo("$WS/b.txt", path, false), on("remove", path, shallow, noFollow), on("remove", path, shallow, noForce), closeHandle("r"), closeHandle("w"))
	}
	return calls
}

func hostileLinks(f *fixture) {
	f.link("ws/loop", "$WS/loop")
	f.link("ws/ring", "$WS/ring2")
	f.link("ws/ring2", "$WS/ring")
	f.file("ws/b.txt", "b")
}

// Requests about a file of 10 GiB, and about one that becomes shorter.
var (
	huge = []fileCall{on("readFile", "$FX.huge"), on("getMetadata", "$FX.huge"), open("h", "$FX.huge"), readBlock("h", 10<<30-2, 4), readBlock("h", 10<<30, 1), closeHandle("h")}

	shrinking = []fileCall{open("h", "$WS/a.txt"), readBlock("h", 0, 4), meanwhile(func(f *fixture) { os.Truncate(f.expand("$WS/a.txt"), 2) }),
		readBlock("h", 4, 4), readBlock("h", 0, 4), on("readFile", "$WS/a.txt"), meanwhile(func(f *fixture) { os.Truncate(f.expand("$WS/a.txt"), 0) }),
		readBlock("h", 0, 4), on("readFile", "$WS/a.txt")}

	swapped = []fileCall{write("$WS/sub/n", "1", noFollow), open("h", "$WS/sub/n"), meanwhile(func(f *fixture) {
		os.Rename(f.expand("$WS/sub"), f.expand("$WS/moved"))
		f.link("ws/sub", "$OUT")
	}), write("$WS/sub/secret.txt", "x", noFollow), on("readFile", "$WS/sub/secret.txt", noFollow), on("getMetadata", "$WS/sub/secret.txt", noFollow), on("createDirectory", "$WS/sub/d", noFollow, shallow),
		on("remove", "$WS/sub/secret.txt", noFollow, shallow), readBlock("h", 0, 9), on("readFile", "$WS/sub/n"), on("canonicalize", "$WS/sub")}
)

func tenGiB(f *fixture) { f.sparse(".huge", 10<<30) }

var plainHostileRows = []fileRow{
	{id: "hostile paths", with: hostileLinks, calls: everywhere()},
	{id: "a file of 10 GiB", with: tenGiB, others: []string{"$FX.huge"}, calls: huge},
	{id: "a file that shrinks", calls: shrinking},
	{id: "a parent becomes a link", calls: swapped},
	{id: "handles of others", calls: []fileCall{open("h", "$WS/a.txt"), elsewhere(readBlock("h", 0, 1)), elsewhere(writeBlock("h", 0, "x")), elsewhere(closeHandle("h")), elsewhere(open("h", "$WS/b.txt", replace)),
		readBlock("h", 0, 6), closeHandle("h"), open("h", "$WS/a.txt"), open("h", "$WS/a.txt"), readBlock("unknown", 0, 1), writeBlock("unknown", 0, "x"), closeHandle("unknown")}},
}

var confinedHostileRows = []fileRow{
	{id: "hostile paths in a workspace", policy: workspaceOnly, with: hostileLinks, calls: everywhere()},
	{id: "hostile paths beside a deny", policy: denyOut, with: hostileLinks, calls: everywhere()},
	{id: "a confined file of 10 GiB", policy: denyOut, with: tenGiB, others: []string{"$FX.huge"}, calls: huge},
	{id: "a confined file that shrinks", policy: denyOut, calls: shrinking},
	{id: "a confined parent becomes a link", policy: workspaceOnly, calls: swapped},
	{id: "a confined parent becomes a link to a denied place", policy: denyOut, calls: swapped},
}

// elsewhere sends a request in a session of its own.
func elsewhere(call fileCall) fileCall {
	return fileCall{instead: func(c *conn, f *fixture, at int) {
		other := c.p.open()
		c.p.note(call.method+" elsewhere", fileRow{}.comparable(f, withoutID(other.call(call.method, f.expand(call.params)))))
	}}
}
