//go:build interop

package interop_test

import (
	"fmt"
	"os"
	"strings"
)

// links makes links of all kinds in the workspace.
func someLinks(f *fixture) {
	f.link("ws/l", "$WS/a.txt")
	f.link("ws/ldir", "$OUT")
	f.link("ws/dangling", "$OUT/none")
	f.link("ws/loop", "$WS/loop")
	f.fifo("ws/fifo")
}

var plainReadRows = []fileRow{
	{id: "readFile", with: someLinks, calls: []fileCall{
		on("readFile", "$WS/a.txt"), on("readFile", "$WS/l"), on("readFile", "$WS/ldir/secret.txt"), on("readFile", "$WS/sub/../a.txt"),
		on("readFile", "$WS/none"), on("readFile", "$WS/dangling"), on("readFile", "$WS/a.txt/below"), on("readFile", "$WS/loop"),
		on("readFile", "$WS/sub"), on("readFile", "$WS/fifo"), on("readFile", "/dev/null"), on("readFile", "/dev/zero"),
		on("readFile", "$WS/"+strings.Repeat("n", 300)), on("readFile", "/proc/sys/kernel/ostype"), on("readFile", "$WS/a.txt/"), on("readFile", "/"),
	}},
	{id: "readFile without following", with: someLinks, calls: []fileCall{
		on("readFile", "$WS/a.txt", noFollow), on("readFile", "$WS/l", noFollow), on("readFile", "$WS/ldir/secret.txt", noFollow),
		on("readFile", "$WS/none", noFollow), on("readFile", "$WS/a.txt/below", noFollow), on("readFile", "$WS/sub", noFollow),
		on("readFile", "$WS/fifo", noFollow), on("readFile", "/dev/null", noFollow), on("readFile", "/", noFollow), on("readFile", "$WS/a.txt", `"followSymlinks":null`),
	}},
	{id: "readFile of bytes", with: func(f *fixture) { f.file("ws/b", "\x00\xff\n"); f.file("ws/empty", "") },
		calls: []fileCall{on("readFile", "$WS/b"), on("readFile", "$WS/empty")}},
	{id: "readFile of a name with everything", with: func(f *fixture) { f.file("ws/a b%#?ü", "x") },
		calls: []fileCall{on("readFile", "$WS/a%20b%25%23%3F%C3%BC"), on("readFile", "$WS/a b%25%23%3Fü")}},
	{id: "readFile without the right", asRoot: true, with: func(f *fixture) { f.mode("out/secret.txt", 0); f.dir("ws/closed"); f.mode("ws/closed", 0) },
		calls: []fileCall{on("readFile", "$OUT/secret.txt"), on("readFile", "$WS/closed/x"), meanwhile(func(f *fixture) { f.mode("ws/closed", 0o755) })}},
	{id: "readFile of a huge file", with: func(f *fixture) { f.sparse(".huge", 512<<20+1) }, others: []string{"$FX.huge"},
		calls: []fileCall{on("readFile", "$FX.huge")}},
	{id: "readFile of a large file", with: func(f *fixture) { f.file("ws/large", strings.Repeat("0123456789abcdef", 1<<18)) },
		calls: []fileCall{on("readFile", "$WS/large")}},
	{id: "getMetadata", with: someLinks, calls: []fileCall{
		on("getMetadata", "$WS/a.txt"), on("getMetadata", "$WS"), on("getMetadata", "$WS/l"), on("getMetadata", "$WS/ldir"), on("getMetadata", "$WS/fifo"),
		on("getMetadata", "$WS/dangling"), on("getMetadata", "$WS/none"), on("getMetadata", "$WS/loop"), on("getMetadata", "$WS/a.txt/below"),
		on("getMetadata", "/"), on("getMetadata", "/dev/null"), on("getMetadata", "$WS/ldir/secret.txt"),
		on("getMetadata", "$WS/a.txt", noFollow), on("getMetadata", "$WS/sub", noFollow), on("getMetadata", "$WS/l", noFollow),
		on("getMetadata", "$WS/ldir/secret.txt", noFollow), on("getMetadata", "$WS/dangling", noFollow), on("getMetadata", "$WS/none", noFollow),
		on("getMetadata", "$WS/fifo", noFollow), on("getMetadata", "/", noFollow), on("getMetadata", "$WS/a.txt/below", noFollow),
	}},
	{id: "createdAtMs", born: true, calls: []fileCall{on("getMetadata", "$WS/a.txt"), on("getMetadata", "$WS/a.txt", noFollow)}},
	{id: "canonicalize", with: someLinks, calls: []fileCall{
		on("canonicalize", "$WS/a.txt"), on("canonicalize", "$WS/l"), on("canonicalize", "$WS/ldir/secret.txt"), on("canonicalize", "$WS/sub/"),
		on("canonicalize", "$WS/sub/../l"), on("canonicalize", "/"), on("canonicalize", "$WS/fifo"), on("canonicalize", "$WS/none"),
		on("canonicalize", "$WS/dangling"), on("canonicalize", "$WS/loop"), on("canonicalize", "$WS/a.txt/below"), on("canonicalize", "$WS/a.txt/"),
	}},
	{id: "canonicalize a name with everything", with: func(f *fixture) { f.file("ws/a b%#?ü[]{}|^~'\"`", "x"); f.link("ws/l", "$WS/a b%#?ü[]{}|^~'\"`") },
		calls: []fileCall{on("canonicalize", "$WS/l")}},
	{id: "canonicalize a strange name", with: func(f *fixture) { f.file("ws/\xff", "x"); f.link("ws/l", "$WS/\xff") },
		calls: []fileCall{on("canonicalize", "$WS/l"), on("readFile", "$WS/%FF")}},
}

// sparse makes a file of this size beside the fixture.
func (f *fixture) sparse(suffix string, size int64) {
	file, err := os.Create(f.top + suffix)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		f.t.Fatal(err)
	}
}

const maxBlock = 1 << 20

var plainBlockRows = []fileRow{
	{id: "readBlock", with: someLinks, calls: []fileCall{
		open("h", "$WS/a.txt"), readBlock("h", 0, 4), readBlock("h", 4, 2), readBlock("h", 6, 1), readBlock("h", 4, 100), readBlock("h", 1<<40, 5),
		readBlock("h", 1<<63-1, 1), open("h", "$WS/a.txt"), open("", "$WS/l", `"mode":"read"`), readBlock("", 0, 3),
		closeHandle("h"), readBlock("h", 0, 1), closeHandle("h"), closeHandle("never"),
	}},
	{id: "readBlock beyond signed offsets", calls: []fileCall{open("h", "$WS/a.txt"), readBlock("h", 1<<63, 1), readBlock("h", 0, 1)}},
	{id: "readBlock lengths", calls: []fileCall{open("h", "$WS/a.txt"), readBlock("h", 0, 0), readBlock("h", 0, maxBlock), readBlock("h", 0, maxBlock+1),
		readBlock("none", 0, 0), readBlock("none", 0, 1)}},
	{id: "open keeps the file", calls: []fileCall{open("h", "$WS/a.txt"), meanwhile(func(f *fixture) {
		os.Remove(f.expand("$WS/a.txt"))
		f.file("ws/a.txt", "other")
	}), readBlock("h", 0, 100)}},
	{id: "open what is no file", with: someLinks, calls: []fileCall{
		open("h", "$WS/sub"), open("h", "$WS/fifo"), open("h", "/dev/null"), open("h", "$WS/none"), open("h", "$WS/dangling"), open("h", "$WS/loop"),
		open("h", "$WS/a.txt/below"), open("h", "$WS/sub", replace), open("h", "$WS/fifo", replace), open("h", "/dev/null", replace),
		open("h", "$WS/none/x", replace), open("h", "$WS/loop", replace), open("h", "$WS/a.txt/below", replace),
	}},
	{id: "writeBlock", with: someLinks, calls: []fileCall{
		open("w", "$WS/new", replace), writeBlock("w", 4, "four"), writeBlock("w", 0, "zero"), writeBlock("w", 12, "gap"), readBlock("w", 0, 4),
		writeBlock("w", 1<<63-1, "x"), writeBlock("w", 1<<63-2, "xx"), writeBlock("w", 0, ""), writeBlock("w", 2, "!"), closeHandle("w"), writeBlock("w", 0, "x"),
		open("l", "$WS/l", replace), writeBlock("l", 0, "through"), open("d", "$WS/dangling", replace), writeBlock("d", 0, "target"),
	}},
	{id: "writeBlock lengths", calls: []fileCall{open("w", "$WS/new", replace), writeBlock("w", 0, strings.Repeat("b", maxBlock)),
		writeBlock("w", 0, strings.Repeat("c", maxBlock+1)), writeBlock("none", 0, ""), writeBlock("none", 0, "x")}},
	{id: "open replace empties at once", calls: []fileCall{open("w", "$WS/a.txt", replace)}},
	{id: "readBlock of a write handle closes it", calls: []fileCall{open("w", "$WS/new", replace), readBlock("w", 0, 1), writeBlock("w", 0, "x")}},
	{id: "writeBlock of a read handle keeps it", calls: []fileCall{open("r", "$WS/a.txt"), writeBlock("r", 0, "x"), readBlock("r", 0, 6)}},
	{id: "handle ids", calls: []fileCall{open(strings.Repeat("h", 32), "$WS/a.txt"), open(strings.Repeat("h", 33), "$WS/a.txt"),
		open(strings.Repeat("ü", 17), "$WS/a.txt"), readBlock(strings.Repeat("h", 33), 0, 1), writeBlock(strings.Repeat("h", 33), 0, "x"), closeHandle(strings.Repeat("h", 33)),
		open(strings.Repeat("h", 33), "$WS/none"), open(strings.Repeat("h", 32), "$WS/none"), readBlock(strings.Repeat("h", 33), 0, 0)}},
	{id: "128 handles", calls: func() (calls []fileCall) {
		for i := range 129 {
			calls = append(calls, open(fmt.Sprint(i), "$WS/a.txt"))
		}
		return append(calls, open("n", "$WS/new", replace), closeHandle("7"), open("again", "$WS/a.txt"))
	}()},
	{id: "a refused open replace has emptied the file", calls: []fileCall{open("h", "$WS/a.txt"), open("h", "$WS/a.txt", replace)}},
}

var plainWriteRows = []fileRow{
	{id: "writeFile", with: someLinks, calls: []fileCall{
		write("$WS/new", "new"), write("$WS/a.txt", "shorter"), write("$WS/a.txt", ""), write("$WS/l", "through"), write("$WS/dangling", "target"),
		write("$WS/none/x", "x"), write("$WS/sub", "x"), write("$WS/loop", "x"), write("$WS/a.txt/below", "x"), write("/dev/null", "x"),
		write("$WS/ldir/new", "outside"), write("$WS/"+strings.Repeat("n", 300), "x"), write("$WS/new/", "x"), write("/", "x"),
	}},
	{id: "writeFile without following", with: someLinks, calls: []fileCall{
		write("$WS/new", "new", noFollow), write("$WS/a.txt", "changed", noFollow), write("$WS/l", "x", noFollow), write("$WS/dangling", "x", noFollow),
		write("$WS/ldir/new", "x", noFollow), write("$WS/none/x", "x", noFollow), write("$WS/sub", "x", noFollow), write("$WS/fifo", "x", noFollow),
		write("/dev/null", "x", noFollow), write("/", "x", noFollow), write("$WS/a.txt/below", "x", noFollow),
	}},
	{id: "writeFile keeps mode and links", with: func(f *fixture) { f.mode("ws/a.txt", 0o4751); f.hardLink("ws/h", "ws/a.txt") },
		calls: []fileCall{write("$WS/a.txt", "changed"), write("$WS/h", "twice")}},
	{id: "writeFile to a FIFO", with: someLinks, fresh: true, calls: []fileCall{briefly(write("$WS/fifo", "x")), drain("ws/fifo")}},
	{id: "writeFile of bad base64", calls: []fileCall{
		on("writeFile", "$WS/new", `"dataBase64":"@@@"`), on("writeFile", "$WS/new", `"dataBase64":"YQ"`), on("writeFile", "$WS/new", `"dataBase64":"YR=="`),
		on("writeFile", "$WS/new", `"dataBase64":"YQ==\n"`), on("writeFile", "$WS/none/x", `"dataBase64":"Y"`), on("writeFile", "$WS/a.txt", `"dataBase64":"-_-_"`),
	}},
	{id: "writeFile of a large file", calls: []fileCall{write("$WS/large", strings.Repeat("0123456789abcdef", 1<<17))}},
	{id: "writeFile to a read-only file", asRoot: true, with: func(f *fixture) { f.mode("ws/a.txt", 0o444) }, calls: []fileCall{write("$WS/a.txt", "changed")}},
	{id: "writeFile where the kernel forbids", asRoot: true, calls: []fileCall{write("/proc/version", "x"), write("/proc/none", "x"), write("/sys/none", "x")}},
}

var plainDirectoryRows = []fileRow{
	{id: "createDirectory", with: someLinks, calls: []fileCall{
		on("createDirectory", "$WS/new"), on("createDirectory", "$WS/deep/er/est"), on("createDirectory", "$WS/sub"), on("createDirectory", "$WS/ldir"),
		on("createDirectory", "$WS/ldir/in"), on("createDirectory", "$WS/a.txt"), on("createDirectory", "$WS/a.txt/below"), on("createDirectory", "$WS/dangling"),
		on("createDirectory", "$WS/dangling/x"), on("createDirectory", "$WS/loop"), on("createDirectory", "/"), on("createDirectory", "$WS/trail/"),
		on("createDirectory", "$WS/l"),
	}},
	{id: "createDirectory where nothing can be made", fresh: true, calls: []fileCall{on("createDirectory", "/proc/none", noFollow), on("createDirectory", "/proc/none", shallow),
		on("createDirectory", "/proc/none")}},
	{id: "createDirectory not recursive", with: someLinks, calls: []fileCall{
		on("createDirectory", "$WS/new", shallow), on("createDirectory", "$WS/sub", shallow), on("createDirectory", "$WS/x/y", shallow), on("createDirectory", "$WS/a.txt", shallow),
		on("createDirectory", "$WS/dangling", shallow), on("createDirectory", "$WS/ldir/in", shallow), on("createDirectory", "/", shallow), on("createDirectory", "$WS/o", `"recursive":null`),
	}},
	{id: "createDirectory without following", with: someLinks, calls: []fileCall{
		on("createDirectory", "$WS/new", noFollow), on("createDirectory", "$WS/deep/er/est", noFollow), on("createDirectory", "$WS/sub", noFollow),
		on("createDirectory", "$WS/ldir", noFollow), on("createDirectory", "$WS/ldir/in", noFollow), on("createDirectory", "$WS/a.txt", noFollow),
		on("createDirectory", "$WS/a.txt/below", noFollow), on("createDirectory", "$WS/dangling", noFollow), on("createDirectory", "/", noFollow),
		on("createDirectory", "$WS/one", noFollow, shallow), on("createDirectory", "$WS/sub", noFollow, shallow), on("createDirectory", "$WS/x/y", noFollow, shallow),
		on("createDirectory", "/", noFollow, shallow), on("createDirectory", "$WS/ldir/two", noFollow, shallow), on("createDirectory", "$WS/ldir", noFollow, shallow),
	}},
}
