package denial

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/tetherexec/tether/internal/outlog"
)

// A chunk is output on one stream.
type chunk struct {
	stream outlog.Stream
	text   string
}

func out(text string) chunk  { return chunk{outlog.Stdout, text} }
func errs(text string) chunk { return chunk{outlog.Stderr, text} }
func pty(text string) chunk  { return chunk{outlog.PTY, text} }

func judge(chunks ...chunk) *Judge {
	j := new(Judge)
	for _, c := range chunks {
		j.Add(c.stream, []byte(c.text))
	}
	return j
}

// TestRows has the rows of the behaviour table that need no process. X07 and
// E-NSIGSYS are about processes without a sandbox, for which the Judge is not
// used. TestWindow has X10 and X11; X17 is about time.
func TestRows(t *testing.T) {
	type row struct {
		id     string
		code   int
		want   bool
		chunks []chunk
	}
	denied := []chunk{out("sh: Permission denied\n")}
	rows := []row{
		{"X01", 1, true, denied},
		{"X02", 0, false, denied},
		{"X03", 2, true, denied},
		{"X04", 126, true, denied},
		{"X05", 127, true, denied},
		{"X06", 1, false, []chunk{out("boom\n")}},
		{"X08", 1, true, []chunk{out("READ-ONLY FILE SYSTEM\n")}},
		{"X09-a", 9, true, []chunk{out("a: operation not permitted")}},
		{"X09-b", 9, true, []chunk{out("a: permission denied")}},
		{"X09-c", 9, true, []chunk{out("a: read-only file system")}},
		{"X09-d", 9, true, []chunk{out("a: seccomp")}},
		{"X09-e", 9, true, []chunk{out("a: sandbox")}},
		{"X09-f", 9, true, []chunk{out("a: landlock")}},
		{"X09-g", 9, true, []chunk{out("a: failed to write file")}},
		{"X12", 1, true, []chunk{out("Permission de"), out("nied\n")}},
		{"X13", 1, true, []chunk{out("Permission "), errs("denied\n")}},
		{"X14", 1, false, []chunk{out("EPERM EACCES forbidden\n")}},
		{"X15", 159, true, nil},
		{"E-SIGSYS", 159, true, []chunk{errs("Bad system call\n")}},
		{"E04", 127, false, []chunk{errs("sh: 1: nope-cmd: not found\n")}},
		{"K10", 137, false, []chunk{out("working\n")}},
		{"T05", 2, true, []chunk{pty("sh: 1: cannot create /o/n: Read-only file system\r\n")}},
		{"N15", 7, false, []chunk{errs("curl: (7) Failed to connect to 127.0.0.1 port 80: Couldn't connect to server\n")}},
	}
	for _, code := range []int{0, 1, 2, 42, 101, 125, 126, 127, 128, 255, 129, 130, 134, 137, 139, 143} {
		rows = append(rows, row{fmt.Sprint("exit-", code), code, false, nil})
	}
	for _, r := range rows {
		if got := judge(r.chunks...).Denied(r.code); got != r.want {
			t.Errorf("%s: %v, want %v", r.id, got, r.want)
		}
	}
}

func TestViews(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   bool
		chunks []chunk
	}{
		{"one stream around another", true, []chunk{out("Permission "), errs("x"), out("denied")}},
		{"stderr around stdout", true, []chunk{errs("sec"), out("x"), errs("comp")}},
		{"pty is stdout", true, []chunk{pty("sand"), errs("x"), out("box")}},
		{"arrival order", true, []chunk{out("a lan"), errs("d"), out("loc"), errs("k b")}},
		{"wrong order", false, []chunk{errs("denied "), out("permission ")}},
		{"empty entries", true, []chunk{out("sand"), errs(""), out(""), errs("box")}},
		{"nothing between", false, []chunk{out("sand box")}},
		{"a false start", true, []chunk{out("permpermission denied")}},
		{"a false start of another phrase", true, []chunk{out("read-only file sandbox")}},
		{"the end of one is the start of another", true, []chunk{out("operation not permission denied")}},
		{"a beginning", false, []chunk{out("failed to write fil")}},
		{"invalid bytes inside", false, []chunk{out("permission\xff denied")}},
		{"a truncated character inside", false, []chunk{out("land\xe2\x84lock")}},
		{"a truncated character before", true, []chunk{out("\xe2\x84landlock")}},
		{"invalid bytes around", true, []chunk{out("\xffpermission denied\xc3")}},
		{"kelvin sign", true, []chunk{out("LANDLOC\u212a")}},
		{"divided kelvin sign", true, []chunk{out("landloc\xe2"), out("\x84"), errs("\xaa")}},
		{"divided kelvin sign in one view", true, []chunk{out("landloc\xe2"), errs("-"), out("\x84\xaa")}},
		{"unfinished kelvin sign", false, []chunk{out("landloc\xe2\x84")}},
		{"capital I with dot", false, []chunk{out("perm\u0130ssion denied")}},
		{"long s", false, []chunk{out("permi\u017fsion denied")}},
	} {
		if got := judge(c.chunks...).Denied(1); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestWindow reads from a log, because only the newest entries count (X10,
// X11).
func TestWindow(t *testing.T) {
	fill := strings.Repeat("0123456789abcde\n", 1200<<10/16)
	for _, c := range []struct {
		name   string
		want   bool
		chunks []chunk
	}{
		{"X10", false, []chunk{out("Permission denied\n"), out(fill)}},
		{"X11", true, []chunk{out(fill), out("Permission denied\n")}},
		{"at the edge", true, []chunk{errs("seccomp"), out(fill[:WindowBytes-len("seccomp")])}},
		{"over the edge", false, []chunk{errs("seccomp"), out(fill[:WindowBytes-len("seccomp")+1])}},
		{"half of it", false, []chunk{errs("sec"), out(fill[:WindowBytes-4]), errs("comp")}},
	} {
		l := outlog.New(outlog.NewPool(t.TempDir(), 1<<30), outlog.Config{})
		for _, c := range c.chunks {
			if err := l.Append(c.stream, []byte(c.text)); err != nil {
				t.Fatal(err)
			}
		}
		var j Judge
		err := l.Tail(WindowBytes, WindowEntries, func(e outlog.Entry) { j.Add(e.Stream, e.Data) })
		if got := j.Denied(1); err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
		l.End()
	}
}

// lowerCase is the full Unicode mapping, as far as it concerns ASCII.
func lowerCase(text string) string {
	var b strings.Builder
	for _, r := range text { // with replacement
		if r == '\u0130' {
			b.WriteString("i\u0307")
		} else {
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// naive is the rule, implemented directly.
func naive(chunks []chunk) bool {
	var views [3]strings.Builder
	for _, c := range chunks {
		own := &views[0]
		if c.stream == outlog.Stderr {
			own = &views[1]
		}
		own.WriteString(c.text)
		views[2].WriteString(c.text)
	}
	for i := range views {
		text := lowerCase(views[i].String())
		for _, p := range phrases {
			if strings.Contains(text, p) {
				return true
			}
		}
	}
	return false
}

// TestLowerCase proves the comment of spellings.
func TestLowerCase(t *testing.T) {
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if l := unicode.ToLower(r); l < 0x80 && r != '\u212a' && r != '\u0130' {
			t.Errorf("%U becomes %q", r, l)
		}
	}
	for _, p := range phrases {
		if strings.HasSuffix(p, "i") || strings.Count(p, "k") > 1 || p != lowerCase(p) {
			t.Errorf("the table is not made for %q", p)
		}
		for _, q := range phrases {
			if p != q && strings.Contains(p, q) {
				t.Errorf("%q contains %q", p, q)
			}
		}
	}
}

// pieces are texts that could be confused with a phrase.
func pieces() []string {
	list := []string{"", " ", "-", "\n", "x", "\xff", "\xe2", "\x84", "\xaa", "\u212a", "\u0130", "I", "\u017f", "per", "file", "san", "lan"}
	for _, p := range phrases {
		list = append(list, p, strings.ToUpper(p))
		for i := range len(p) {
			list = append(list, p[:i], p[i:])
		}
	}
	return list
}

// FuzzJudge compares with the direct implementation. Each two bytes choose a
// stream and a piece of text; with a flag the bytes themselves are the text.
func FuzzJudge(f *testing.F) {
	list := pieces()
	f.Add([]byte("permission denied"), true)
	f.Add([]byte{0, 30, 1, 0, 0, 31, 1, 32}, false)
	for i := range list {
		f.Add([]byte{0, byte(i), 1, byte(i + 1), 0, byte(i + 2), 1, byte(i + 3)}, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, raw bool) {
		var chunks []chunk
		for ; len(b) >= 2; b = b[2:] {
			c := chunk{stream: outlog.Stream(1 + b[0]%3), text: string(b[1:2])}
			if !raw {
				c.text = list[(int(b[0]/3)<<8|int(b[1]))%len(list)]
			}
			chunks = append(chunks, c)
		}
		if got, want := judge(chunks...).Denied(1), naive(chunks); got != want {
			t.Errorf("%v, want %v: %+v", got, want, chunks)
		}
	})
}

// TestCuts cuts each phrase at every position, twice, over all streams.
func TestCuts(t *testing.T) {
	for _, p := range spellings() {
		for i := range len(p) + 1 {
			for k := i; k <= len(p); k++ {
				for streams := range 27 {
					s := func(n int) outlog.Stream { return outlog.Stream(1 + streams/n%3) }
					chunks := []chunk{{s(1), "x" + p[:i]}, {s(3), p[i:k]}, {s(9), p[k:] + "x"}}
					if !judge(chunks...).Denied(1) {
						t.Fatalf("not found: %+v", chunks)
					}
				}
			}
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	texts := map[string][]byte{
		"prose":  bytes.Repeat([]byte("compiling the parser of operational permissions for a read-only view\n"), 1+WindowBytes/69)[:WindowBytes],
		"binary": bytes.Repeat([]byte{0xe2, 0x84, 0, 'o', 'P'}, 1+WindowBytes/5)[:WindowBytes],
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(WindowBytes)
			b.ReportAllocs()
			for b.Loop() {
				var j Judge
				for i := 0; i < len(text); i += 4096 { // both streams in turns
					j.Add(outlog.Stream(1+i/4096%2), text[i:i+4096])
				}
				if j.Denied(1) {
					b.Fatal("denied")
				}
			}
		})
	}
}

func BenchmarkTable(b *testing.B) {
	for b.Loop() {
		newTable(spellings())
	}
}
