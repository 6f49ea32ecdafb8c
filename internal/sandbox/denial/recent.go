package denial

import (
	"bytes"
	"strings"

	"github.com/tetherexec/tether/internal/outlog"
)

// RecentBytes is how much of the newest output Explain looks at: a reason is
// printed shortly before the end. It is enough for one entry of any size.
const RecentBytes = outlog.MaxEntry

const (
	maxLines = 500     // of the newest lines that are looked at
	maxLine  = 4 << 10 // bytes; the rest of a longer line is not a message of the system
)

// Recent keeps the newest lines of output for Explain, within the limits above.
// The zero Recent has seen no output.
type Recent struct {
	lines []outputLine // oldest first, in the order in which they ended
	size  int
	open  [2][]byte // the unfinished line of each stream: stdout or terminal, stderr
}

// An outputLine is not empty and has no line break.
type outputLine struct {
	stderr bool
	text   string
}

// Add adds the next output.
func (r *Recent) Add(stream outlog.Stream, data []byte) {
	stderr := stream == outlog.Stderr
	open := r.unfinished(stderr)
	for {
		end := bytes.IndexAny(data, "\r\n")
		if end < 0 {
			*open = append(*open, data[:min(len(data), maxLine-len(*open))]...)
			return
		}
		*open = append(*open, data[:min(end, maxLine-len(*open))]...)
		if len(*open) > 0 {
			r.push(outputLine{stderr, string(*open)})
		}
		*open, data = (*open)[:0], data[end+1:]
	}
}

func (r *Recent) unfinished(stderr bool) *[]byte {
	if stderr {
		return &r.open[1]
	}
	return &r.open[0]
}

func (r *Recent) push(l outputLine) {
	r.lines = append(r.lines, l)
	r.size += len(l.text)
	for len(r.lines) > maxLines || r.size > RecentBytes {
		r.size -= len(r.lines[0].text)
		r.lines[0] = outputLine{}
		r.lines = r.lines[1:]
	}
}

// all returns the lines; the unfinished ones come last.
func (r *Recent) all() []outputLine {
	lines := r.lines[:len(r.lines):len(r.lines)]
	for _, stderr := range []bool{false, true} {
		if open := *r.unfinished(stderr); len(open) > 0 {
			lines = append(lines, outputLine{stderr, string(open)})
		}
	}
	return lines
}

// plain returns a line as it would look on a terminal, without the sequences that
// only set colours.
func plain(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	var b strings.Builder
	for text != "" {
		before, sequence, found := strings.Cut(text, "\x1b[")
		b.WriteString(before)
		if !found {
			break
		}
		end := strings.IndexFunc(sequence, func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			break
		}
		text = sequence[end+1:]
	}
	return b.String()
}
