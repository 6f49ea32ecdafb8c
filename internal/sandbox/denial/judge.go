package denial

import (
	"slices"
	"sync"

	"github.com/tetherexec/tether/internal/outlog"
)

// The window is part of the rule: a phrase in older output does not count, even
// if that output is still kept. The caller that feeds a Judge keeps to both
// bounds.
const (
	WindowBytes   = 1 << 20
	WindowEntries = 50_000
)

// phrases are the texts that programs print after a refused system call.
var phrases = []string{
	"operation not permitted",
	"permission denied",
	"read-only file system",
	"seccomp",
	"sandbox",
	"landlock",
	"failed to write file",
}

// The exit codes with a meaning.
const (
	exitUsage         = 2   // the program was called wrongly
	exitNotExecutable = 126 // of a shell
	exitNotFound      = 127 // of a shell
	exitSIGSYS        = 159 // 128 + the signal of a forbidden system call
)

// A Judge decides whether the sandbox is probably the reason for the failure
// of a confined process. Clients rely on the exact rule: a phrase decides for
// every exit code except 0, and without a phrase only 159 counts.
//
// The caller adds the output in the order of its arrival. A phrase counts
// within stdout and terminal, within stderr and in both together, so also if
// entries or streams divide it, and in upper or lower case. A Judge keeps no
// text. The zero Judge has seen no output.
type Judge struct {
	out, err, both matchState // the state at the end of each view
}

// Add adds the next output.
func (j *Judge) Add(stream outlog.Stream, data []byte) {
	if j.both == hit {
		return
	}
	next := transitions()
	own := &j.out
	if stream == outlog.Stderr {
		own = &j.err
	}
	// A state depends on no more bytes than the longest phrase has: after a few
	// bytes the views agree, and one walk does for both.
	for len(data) > 0 && *own != j.both {
		*own, j.both = next[*own][data[0]], next[j.both][data[0]]
		data = data[1:]
	}
	if *own == j.both {
		*own = next.walk(*own, data)
		j.both = *own
	}
	if *own == hit {
		j.both = hit
	}
}

// Denied returns the decision about a sandboxed process that exited with
// code. It must not be used for a process without a sandbox.
func (j *Judge) Denied(code int) bool {
	switch {
	case code == 0:
		return false
	case j.both == hit:
		return true
	case code == exitUsage || code == exitNotExecutable || code == exitNotFound:
		return false
	}
	return code == exitSIGSYS
}

// A matchState says with which beginnings of phrases the text so far ends. The zero
// state is no beginning; hit means that a phrase was found, and stays.
type matchState uint8

const hit matchState = 255

// A matchTable gives the state that follows a state and a byte. It looks for all
// phrases at once, in one step per byte.
type matchTable [256][256]matchState

func (t *matchTable) walk(s matchState, data []byte) matchState {
	for _, b := range data {
		s = t[s][b]
	}
	return s
}

// transitions returns the table of the phrases. It is made on first use,
// because many processes of this program never need it.
var transitions = sync.OnceValue(func() *matchTable { return newTable(spellings()) })

// spellings returns the phrases as they occur in UTF-8 text that has not been
// lower-cased; the table lower-cases ASCII. Of all other characters only two
// have ASCII letters in their lower-case form. The kelvin sign becomes k. The
// capital I with a dot becomes i and a combining dot, which no phrase contains.
// Replacing invalid UTF-8 changes no byte that matters here: it neither removes
// a character nor makes one of these.
func spellings() []string {
	list := slices.Clone(phrases)
	for _, p := range phrases {
		for i := range p {
			if p[i] == 'k' { // once, at most, in a phrase
				list = append(list, p[:i]+"\u212a"+p[i+1:])
			}
		}
	}
	return list
}

// newTable makes a state for each beginning of a word. The state that follows is
// the longest beginning with which the text then ends. No word may contain
// another.
func newTable(words []string) *matchTable {
	t, last := new(matchTable), matchState(0)
	for _, w := range words {
		s, end := matchState(0), len(w)-1
		for i := range end {
			if t[s][w[i]] == 0 {
				last++
				t[s][w[i]] = last
			}
			s = t[s][w[i]]
		}
		t[s][w[end]] = hit
	}
	t.complete()
	for s := range t {
		for b := 'A'; b <= 'Z'; b++ {
			t[s][b] = t[s][b-'A'+'a']
		}
	}
	return t
}

// complete fills in the transitions for bytes with which no word continues: they
// are the transitions of the longest shorter beginning.
func (t *matchTable) complete() {
	type pair struct{ s, shorter matchState }
	var queue []pair // shorter states come first, because they are complete
	for _, s := range t[0] {
		if s != 0 && s != hit {
			queue = append(queue, pair{s, 0})
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		for b, s := range t[p.s] {
			switch s {
			case 0:
				t[p.s][b] = t[p.shorter][b]
			case hit:
			default:
				queue = append(queue, pair{s, t[p.shorter][b]})
			}
		}
	}
	for b := range t[hit] {
		t[hit][b] = hit
	}
}
