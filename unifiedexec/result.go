package unifiedexec

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tetherexec/tether/wire"
)

// defaultOutputTokens is the limit of the output if the call has none.
const defaultOutputTokens = 10000

// unknownModelBytes is the limit for a model whose budget is not known.
const unknownModelBytes = 10000

// A Budget is how much output of a command one result may have, in tokens or in bytes. The zero
// value is for a model whose budget is not known: 10000 bytes.
type Budget struct {
	Tokens int
	Bytes  int
}

func (b Budget) limit() limit {
	switch {
	case b.Tokens > 0:
		return limit{b.Tokens * bytesPerToken, true}
	case b.Bytes > 0:
		return limit{b.Bytes, false}
	}
	return limit{unknownModelBytes, false}
}

// with returns the tighter of the budget's limit and the call's own, in tokens.
func (b Budget) with(asked *int) limit {
	own := defaultOutputTokens
	if asked != nil {
		own = *asked
	}
	l := b.limit()
	if own <= l.bytes/bytesPerToken { // also keeps the product small
		return limit{own * bytesPerToken, true}
	}
	return l
}

// A Result is the result of a call for the model.
type Result struct {
	ChunkID  string        // six hexadecimal digits, to tell results apart
	WallTime time.Duration // from the call to the result, questions to the user included

	ExitCode  *int // nil: the process is still running
	SessionID int  // for WriteStdin; 0: the process has ended

	// OriginalTokens estimates the length of the whole output, of which Output may
	// have less.
	OriginalTokens int64
	Output         string

	// Notes are for the model as well: a session that was closed to make room, a retry that was
	// declined, a process that was killed because of a limit.
	Notes []string

	// The following fields are for the program that runs the tools.
	ProcessID string           // on the executor
	Denied    bool             // the process has ended, and the sandbox has denied it something
	Denial    *wire.DenialFact // the details of that, as far as they are known; may be nil
	Usage     *wire.Usage      // what a process that has ended has used; nil: not known
	Network   bool             // the process was denied the network, or a host
	Hosts     []string         // hosts that were refused to the process, as HOST:PORT
	Declined  bool             // the user was asked to let the process run again with more rights, and declined

	text       string // all output that was kept
	omission   string // replaces output in text that was not kept; empty: all was kept
	omissionAt int    // where in text the line with the omission begins
	lost       int64  // bytes that were not kept
	asked      limit
	budget     limit
	mark       func(missing int64) string // nil: use the marks of the reference
}

// newResult makes a result from output.
func newResult(out *headTail, asked, budget limit) *Result {
	r := &Result{ChunkID: randomHex(3), OriginalTokens: tokens(out.total()), text: decode(out.bytes()), omission: out.omission(), lost: out.lost, asked: asked, budget: budget}
	if r.omission != "" {
		r.omissionAt = len(decode(out.head))
	}
	r.Output = r.shorten(asked)
	return r
}

// MarkWith replaces the part of the output that does not fit by one mark on a line of its own,
// instead of the warning and the marks of the reference. mark gets the number of missing tokens.
func (r *Result) MarkWith(mark func(missing int64) string) {
	r.mark = mark
	r.Output = r.shorten(r.asked)
}

// shorten makes the output fit a limit.
func (r *Result) shorten(l limit) string {
	if r.mark == nil {
		return truncate(r.text, l, r.OriginalTokens, r.omission)
	}
	head, tail := r.text, ""
	if r.omission != "" {
		head, tail = r.text[:r.omissionAt], r.text[r.omissionAt+len("\n"+r.omission+"\n"):]
	}
	return markMiddle(head, tail, r.lost, l, r.mark)
}

// Text is the text of the result for models.
func (r *Result) Text() string {
	head := r.header()
	text := r.Output
	most := r.budget.bytes + r.budget.bytes/5
	for l := r.asked; l.bytes > 0 && len(head)+len(text) > most; { // a long header leaves less room
		l.bytes = max(0, min(l.bytes, len(r.text))-max(1, len(head)+len(text)-most))
		text = r.shorten(l)
	}
	return head + text
}

func (r *Result) header() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Chunk ID: %s\n", r.ChunkID)
	fmt.Fprintf(&b, "Wall time: %.4f seconds\n", r.WallTime.Seconds())
	if r.ExitCode != nil {
		fmt.Fprintf(&b, "Process exited with code %d\n", *r.ExitCode)
	}
	if r.SessionID != 0 {
		fmt.Fprintf(&b, "Process running with session ID %d\n", r.SessionID)
	}
	fmt.Fprintf(&b, "Original token count: %d\n", r.OriginalTokens)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "Note: %s\n", note)
	}
	b.WriteString("Output:\n")
	return b.String()
}

// MarshalJSON returns the form for programs.
func (r *Result) MarshalJSON() ([]byte, error) {
	var session *int
	if r.SessionID != 0 {
		session = &r.SessionID
	}
	return json.Marshal(struct {
		ChunkID  string   `json:"chunk_id,omitempty"`
		WallTime float64  `json:"wall_time_seconds"`
		ExitCode *int     `json:"exit_code,omitempty"`
		Session  *int     `json:"session_id,omitempty"`
		Tokens   int64    `json:"original_token_count"`
		Output   string   `json:"output"`
		Notes    []string `json:"notes,omitempty"`
	}{r.ChunkID, r.WallTime.Seconds(), r.ExitCode, session, r.OriginalTokens, r.Output, r.Notes})
}
