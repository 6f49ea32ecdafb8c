package explain

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// bound returns the policy of permissions on this machine.
func bound(t *testing.T, dir, entries string) *sandbox.Policy {
	t.Helper()
	var s wire.Sandbox
	text := fmt.Sprintf(`{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[%s]}},"windowsSandboxLevel":"disabled"}`,
		strings.ReplaceAll(entries, "DIR", "file://"+dir))
	if err := wire.Decode([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	p, err := sandbox.Bind(&s, sandbox.Process{Cwd: dir}, sandbox.OS{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func entry(path, access string) string {
	return fmt.Sprintf(`{"path":{"type":"path","path":%q},"access":%q}`, path, access)
}

const root = `{"path":{"type":"special","value":{"kind":"root"}},"access":%q}`

// directories makes a, b and b/in in a new directory.
func directories(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b/in"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The rows are the same for a policy, and for what another program has recorded of it.
func TestFileRows(t *testing.T) {
	dir := directories(t)
	for _, row := range []struct{ name, entries, want string }{
		{"everything", fmt.Sprintf(root, "write"), "readable  everything\nwritable  everything\n"},
		{"two places", entry("DIR/a", "read") + "," + entry("DIR/b", "write"), `readable  DIR/a
          DIR/b
writable  DIR/b
`},
		{"exceptions", entry("DIR", "read") + "," + entry("DIR/b", "write") + "," + entry("DIR/b/in", "deny"), `readable  DIR
            except DIR/b/in: no access (entry DIR/b/in, deny)
writable  DIR/b
            except DIR/b/in: no access (entry DIR/b/in, deny)
`},
		{"nothing", "", "readable  nothing\nwritable  nothing\n"},
		{"a place that is missing", entry("DIR/a", "read") + "," + entry("DIR/missing", "write"), "readable  DIR/a\nwritable  nothing\n"},
	} {
		p := bound(t, dir, row.entries)
		recorded, err := sandbox.DecodePolicy(p.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for of, p := range map[string]*sandbox.Policy{"the policy": p, "its record": recorded} {
			if of == "its record" && strings.Contains(row.name, "missing") {
				continue // what was missing is not recorded
			}
			f := Files(p, math.MaxInt)
			var got strings.Builder
			FileRows(&f, func(name, text string) { fmt.Fprintln(&got, Row(name, text)) })
			text := strings.ReplaceAll(got.String(), dir, "DIR")
			if want := row.want; !sameRows(text, want) {
				t.Errorf("%s, %s:\n%swant\n%s", row.name, of, text, want)
			}
		}
	}
}

// sameRows compares rows without those about names that are always protected.
func sameRows(got, want string) bool {
	var kept strings.Builder
	for line := range strings.Lines(got) {
		if !strings.Contains(line, "(protected name") && !strings.Contains(line, "of the kernel") && !strings.Contains(line, "control socket") {
			kept.WriteString(line)
		}
	}
	return kept.String() == want
}

// A description with too many places is cut, and says so.
func TestFilesAreCut(t *testing.T) {
	dir := directories(t)
	var entries []string
	for i := range 100 {
		name := fmt.Sprintf("a/%d", i)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry("DIR/"+name, "write"))
	}
	p := bound(t, dir, strings.Join(entries, ","))
	count := func(places []wire.SandboxPlace) (n int) {
		for _, p := range places {
			n += 1 + len(p.Except)
		}
		return n
	}
	all := Files(p, math.MaxInt)
	total := count(all.Readable) + count(all.Writable)
	if all.Partial || total < 200 {
		t.Errorf("%d places and exceptions", total)
	}
	for _, most := range []int{0, 1, 50, 150, total - 1, total} {
		f := Files(p, most)
		if n := count(f.Readable) + count(f.Writable); n > most || f.Partial != (most < total) {
			t.Errorf("%d of %d, at most %d, %v", n, total, most, f.Partial)
		}
	}
}

func TestText(t *testing.T) {
	mode := string(wire.NetworkModeLimited)
	for _, row := range []struct {
		files           wire.SandboxFacts
		network         wire.NetworkFacts
		confined, known bool
		want            string
	}{
		{wire.SandboxFacts{Type: "none"}, wire.NetworkFacts{Type: wire.NetworkOfMachine}, false, false, `network   on
sandbox   none: the command has all rights of the server's user`},
		{wire.SandboxFacts{Type: "linuxSeccomp"}, wire.NetworkFacts{Type: wire.NetworkOff}, true, false, `network   off
sandbox   linuxSeccomp; its rules are not kept any more`},
		{wire.SandboxFacts{Type: "linuxSeccomp", FullRead: true}, wire.NetworkFacts{Type: wire.NetworkManaged, Mode: &mode, Allow: []string{"a.example", "*.b"}, Deny: []string{"c.b"}, Asks: true}, true, true,
			`network   only through a proxy that decides about hosts
            allowed: a.example, *.b
            refused: c.b
            the client is asked about all others
            only requests that read: GET, HEAD and OPTIONS
sandbox   linuxSeccomp
readable  everything
writable  nothing`},
	} {
		if got := strings.Join(Text(&row.files, &row.network, row.confined, row.known), "\n"); got != row.want {
			t.Errorf("%s\nwant\n%s", got, row.want)
		}
	}
}
