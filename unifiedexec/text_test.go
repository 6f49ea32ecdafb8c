package unifiedexec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// Scenario UE09.
func TestHeadTail(t *testing.T) {
	for _, size := range []int{0, 1, half, half + 1, 1048576, 1048577, 3000004} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		var once headTail
		once.add(data)
		want := data
		if over := size - bufferLimit; over > 0 {
			want = append(append(append([]byte(nil), data[:half]...), fmt.Sprintf("\n... %d bytes omitted ...\n", over)...), data[size-half:]...)
		}
		if !bytes.Equal(once.bytes(), want) || once.total() != int64(size) {
			t.Errorf("%d bytes in one piece: %d bytes, total %d", size, len(once.bytes()), once.total())
		}
		var pieces headTail
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(3*half/2))
			if rand.IntN(2) == 0 {
				n = min(len(rest), 1+rand.IntN(8192))
			}
			pieces.add(rest[:n])
			rest = rest[n:]
		}
		if !bytes.Equal(pieces.bytes(), want) || pieces.total() != int64(size) {
			t.Errorf("%d bytes in pieces: %d bytes, total %d", size, len(pieces.bytes()), pieces.total())
		}
	}
}

// Scenario UE09.
func TestHeadTailOfRealOutput(t *testing.T) {
	r := newRig(t, nil)
	got := r.exec(ExecArgs{Cmd: "head -c 3000004 /dev/zero | tr '\\0' x", Login: ptr(false), MaxOutputTokens: ptr(50)})
	want := "Warning: truncated output (original token count: 750001)\n... 1951428 bytes omitted ...\n\n" +
		strings.Repeat("x", 100) + "…262102 tokens truncated…" + strings.Repeat("x", 100)
	if got.Output != want || got.OriginalTokens != 750001 {
		t.Errorf("output %q, tokens %d", got.Output, got.OriginalTokens)
	}
}

// seq is the output of seq n.
func seq(n int, suffix string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d%s\n", i+1, suffix)
	}
	return b.String()
}

func resultOf(text string, budget Budget, tokens *int) *Result {
	var b headTail
	b.add([]byte(text))
	return newResult(&b, budget.with(tokens), budget.limit())
}

// The expected texts are the reference's for the same output.
// Scenario UE10.
func TestTruncation(t *testing.T) {
	text := seq(20000, "")
	warn := func(tokens, lines int) string {
		return fmt.Sprintf("Warning: truncated output (original token count: %d)\nTotal output lines: %d\n\n", tokens, lines)
	}
	for _, row := range []struct {
		name, text string
		tokens     *int
		want       string
	}{
		{"50 tokens", text, ptr(50), warn(27224, 20000) + text[:100] + "…27174 tokens truncated…" + text[len(text)-100:]},
		{"nothing", seq(100, ""), ptr(0), warn(73, 100) + "…73 tokens truncated…"},
		{"more than the model takes", text, ptr(100000), warn(27224, 20000) + text[:5000] + fmt.Sprintf("…%d chars truncated…", len(text)-10000) + text[len(text)-5000:]},
		{"the default", text, nil, warn(27224, 20000) + text[:5000] + fmt.Sprintf("…%d chars truncated…", len(text)-10000) + text[len(text)-5000:]},
		{"short", "short\n", ptr(2), "short\n"},
		{"just short enough", "12345678", ptr(2), "12345678"},
		{"just too long", "123456789", ptr(2), warn(3, 1) + "1234…1 tokens truncated…6789"},
	} {
		if got := resultOf(row.text, Budget{}, row.tokens).Output; got != row.want {
			t.Errorf("%s: %.300q\nwant %.300q", row.name, got, row.want)
		}
	}
	for tokens := range 60 { // cuts at different places of a character
		got := resultOf(strings.Repeat("aé€😀", 100), Budget{}, &tokens).Output
		if !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") {
			t.Errorf("%d tokens: %q", tokens, got)
		}
	}
	if got := resultOf(strings.Repeat("x", 50000), Budget{Tokens: 10000}, nil).Output; !strings.Contains(got, "…2500 tokens truncated…") {
		t.Errorf("a budget of tokens: %.200q", got[len(got)-200:])
	}
}

// With MarkWith, one mark stands for all missing output, and there are no other marks.
func TestMarkWith(t *testing.T) {
	long := seq(300_000, "") // its middle is not kept
	kept := long[:half] + long[len(long)-half:]
	mark := func(missing int64) string { return fmt.Sprintf("[%d]", missing) }
	for _, row := range []struct {
		name, text string
		budget     Budget
		tokens     *int
		want       string
	}{
		{"short", "short\n", Budget{}, nil, "short\n"},
		{"within a line", "123456789", Budget{}, ptr(2), "1234\n[1]\n6789"},
		{"behind a line", "123\n56789", Budget{}, ptr(2), "123\n[1]\n6789"},
		{"nothing", seq(100, ""), Budget{}, ptr(0), "[73]\n"},
		{"tokens", seq(20000, ""), Budget{Tokens: 10000}, ptr(50), seq(20000, "")[:100] + "\n[27174]\n" + seq(20000, "")[len(seq(20000, ""))-100:]},
		{"not kept", long, Budget{Tokens: 10000}, ptr(50), kept[:100] + fmt.Sprintf("\n[%d]\n", tokens(int64(len(long)-200))) + kept[len(kept)-100:]},
		{"not kept, and the rest fits", long, Budget{Tokens: 1 << 20}, ptr(1 << 20), kept[:half] + fmt.Sprintf("\n[%d]\n", tokens(int64(len(long)-len(kept)))) + kept[half:]},
		{"characters", strings.Repeat("€", 100), Budget{}, ptr(2), "€\n[74]\n€"},
	} {
		r := resultOf(row.text, row.budget, row.tokens)
		r.MarkWith(mark)
		if r.Output != row.want {
			t.Errorf("%s: %.300q\nwant %.300q", row.name, r.Output, row.want)
		}
		if text := r.Text(); !strings.HasSuffix(text, row.want) && row.budget.Tokens < 1<<20 {
			t.Errorf("%s: %.300q\nwant %.300q", row.name, text, row.want)
		}
	}
	// Broken characters become longer in the text, so the place of the loss is not the middle.
	broken := resultOf(strings.Repeat("\xff", half)+strings.Repeat("x", half+100), Budget{Bytes: 1_500_000}, ptr(1<<20))
	broken.MarkWith(mark)
	if got := broken.Output; strings.Count(got, "[") != 1 || !strings.Contains(got, "\uFFFD\n[") || !strings.Contains(got, "]\nx") {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
}

// The whole text of a result fits into the budget plus a fifth.
func TestResultFitsTheBudget(t *testing.T) {
	for size := 100; size < 4000; size += 333 {
		r := resultOf(seq(20000, ""), Budget{Bytes: size}, nil)
		for range 3 {
			r.Notes = append(r.Notes, strings.Repeat("n", 40))
		}
		got := len(r.Text())
		if most := size + size/5; got > most && got > len(r.header())+130 {
			t.Errorf("a budget of %d bytes gives %d", size, got)
		}
	}
	if r := resultOf(seq(20000, ""), Budget{}, nil); !strings.HasSuffix(r.Text(), r.Output) {
		t.Error("the output was cut although it fits")
	}
}

func TestDeltas(t *testing.T) {
	text := strings.Repeat("aé€😀", 5000)
	for _, piece := range []int{1, 3, 8191, 8192, 8193, 100000} {
		var cutter deltaCutter
		var got strings.Builder
		show := func(s string) {
			if len(s) > maxDelta || strings.Contains(s, "\uFFFD") {
				t.Fatalf("a delta of %d bytes: %.20q", len(s), s)
			}
			got.WriteString(s)
		}
		for rest := []byte(text[:9000]); len(rest) > 0; rest = rest[min(piece, len(rest)):] {
			cutter.cut(rest[:min(piece, len(rest))], show)
		}
		cutter.flush(show)
		if got.String() != text[:9000] {
			t.Errorf("pieces of %d: %d bytes", piece, got.Len())
		}
	}
}
