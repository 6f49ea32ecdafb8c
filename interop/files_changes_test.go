//go:build interop

package interop_test

import (
	"fmt"
	"os"
)

// changedRows change the host between requests with the same sandbox. An earlier look at the host must not decide a later request.
var changedRows = []fileRow{
	{id: "a protected name appears", policy: workspaceOnly, calls: []fileCall{write("$WS/n", "1"), meanwhile(gitDirectory),
		write("$WS/.git/config", "x"), on("remove", "$WS/.git"), open("h", "$WS/.git/config", replace), write("$WS/n", "2")}},
	{id: "a protected name goes", policy: workspaceOnly, with: gitDirectory, calls: []fileCall{write("$WS/.git/config", "x"),
		meanwhile(func(f *fixture) { os.RemoveAll(f.expand("$WS/.git")) }), write("$WS/.git/config", "x"), write("$WS/n", "2")}},
	{id: "a protected name becomes a file", policy: workspaceOnly, with: gitDirectory, calls: []fileCall{write("$WS/n", "1"),
		meanwhile(func(f *fixture) {
			os.RemoveAll(f.expand("$WS/.git"))
			f.file("ws/.git", "gitdir: real.git\n")
			f.file("ws/real.git/config", "c")
		}),
		write("$WS/.git", "x"), write("$WS/real.git/config", "x"), write("$WS/n", "2")}},
	{id: "a directory becomes a link to outside", policy: workspaceOnly, calls: []fileCall{write("$WS/sub/n", "1"),
		meanwhile(func(f *fixture) { os.RemoveAll(f.expand("$WS/sub")); f.link("ws/sub", "$OUT") }),
		write("$WS/sub/n", "2"), write("$WS/sub/secret.txt", "x"), on("remove", "$WS/sub/secret.txt"), on("createDirectory", "$WS/sub/d")}},
	{id: "a denied path appears", policy: workspaceOnly.and(at("$OUT/late", "deny")), calls: []fileCall{on("readFile", "$OUT/late/k"),
		meanwhile(func(f *fixture) { f.file("out/late/k", "key") }), on("readFile", "$OUT/late/k"), on("readDirectory", "$OUT/late"), copyTo("$OUT/late/k", "$WS/k", false)}},
	{id: "a denied directory is replaced", policy: denyOut, calls: []fileCall{on("readFile", "$OUT/secret.txt"),
		meanwhile(func(f *fixture) {
			os.Rename(f.expand("$OUT"), f.expand("$FX/moved"))
			f.file("out/secret.txt", "other")
		}),
		on("readFile", "$OUT/secret.txt"), on("readFile", "$FX/moved/secret.txt")}},
	{id: "a denied directory becomes a link", policy: readOnly.and(at("$OUT", "deny")), calls: []fileCall{on("readFile", "$OUT/secret.txt"),
		meanwhile(func(f *fixture) { os.Rename(f.expand("$OUT"), f.expand("$FX/moved")); f.link("out", "$FX/moved") }),
		on("readFile", "$OUT/secret.txt")}},
	{id: "the workspace is made anew", policy: workspaceOnly, calls: []fileCall{write("$WS/n", "1"),
		meanwhile(func(f *fixture) { os.RemoveAll(f.expand("$WS")); f.dir("ws") }), write("$WS/n", "2"), on("readDirectory", "$WS")}},
	{id: "the workspace is moved away", policy: workspaceOnly, calls: []fileCall{write("$WS/n", "1"),
		meanwhile(func(f *fixture) { os.Rename(f.expand("$WS"), f.expand("$FX/moved")); f.dir("ws") }), write("$WS/n", "2"), write("$FX/moved/n", "x")}},
	{id: "the workspace becomes a link", policy: workspaceOnly, calls: []fileCall{write("$WS/n", "1"),
		meanwhile(func(f *fixture) { os.Rename(f.expand("$WS"), f.expand("$FX/moved")); f.link("ws", "$OUT") }), write("$WS/n", "2"), write("$FX/moved/n", "x")}},
	{id: "the workspace appears", policy: workspaceOnly, with: func(f *fixture) { os.RemoveAll(f.expand("$WS")) }, calls: []fileCall{write("$WS/n", "1"),
		meanwhile(func(f *fixture) { f.dir("ws") }), write("$WS/n", "2")}},
	{id: "a file matches a glob later", policy: workspaceOnly.and(glob("$WS/**/*.env", "deny")), calls: []fileCall{on("readFile", "$WS/late.env"),
		meanwhile(func(f *fixture) { f.file("ws/late.env", "key"); f.file("ws/d/deep.env", "key") }), on("readFile", "$WS/late.env"), on("readFile", "$WS/d/deep.env"),
		copyTo("$WS/late.env", "$WS/k", false), copyTo("$WS/d", "$WS/e", true)}},
	{id: "two sandboxes in turn", calls: []fileCall{confinedBy(readOnly, write("$WS/n", "1")), confinedBy(workspaceOnly, write("$WS/n", "2")), confinedBy(readOnly, write("$WS/n", "3")),
		confinedBy(denyOut, on("readFile", "$OUT/secret.txt")), confinedBy(workspaceOnly, on("readFile", "$OUT/secret.txt")), confinedBy(minimalRead, on("readFile", "$OUT/secret.txt")),
		write("$OUT/plain", "4"), confinedBy(workspaceOnly, write("$OUT/n", "5"))}},
	{id: "an open handle outlives the right", policy: workspaceOnly, calls: []fileCall{open("h", "$WS/n", replace),
		meanwhile(func(f *fixture) { os.Rename(f.expand("$WS/n"), f.expand("$OUT/n")) }), writeBlock("h", 0, "late"), closeHandle("h")}},
}

// confinedBy is a request with a sandbox of its own.
func confinedBy(policy entries, call fileCall) fileCall {
	call.params = fmt.Sprintf(`%s,"sandbox":%s}`, call.params[:len(call.params)-1], policy.intent("restricted", ""))
	return call
}
