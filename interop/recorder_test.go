//go:build interop

package interop_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tetherexec/tether/internal/cable"
)

// A recorder keeps every output event that a cable has sent to the client, in notifications and in answers to process/read after a
// resume. An event that came more than once is kept once; its copies must be equal.
type recorder struct {
	mu        sync.Mutex
	processes map[string]*recording
	problems  []string
}

// recording has the output of one process.
type recording struct {
	chunks  map[int][]byte
	bytes   int
	highest int // highest number of a chunk
}

// A recordedChunk is output in a notification or in an answer to process/read.
type recordedChunk struct {
	ProcessID string `json:"processId"`
	Seq       int    `json:"seq"`
	Chunk     []byte `json:"chunk"`
}

func newRecorder() *recorder { return &recorder{processes: map[string]*recording{}} }

// sent is called with each message that the cable has sent.
func (r *recorder) sent(m cable.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.From != cable.FromServer {
		return
	}
	switch {
	case m.Method == "process/output":
		var c recordedChunk
		r.decode(m.Params, &c)
		r.chunk(c.ProcessID, c)
	case m.AnswerTo == "process/read" && m.Error == nil:
		var answer struct {
			Chunks []recordedChunk `json:"chunks"`
		}
		r.decode(m.Result, &answer)
		for _, c := range answer.Chunks {
			r.chunk(m.Process(), c)
		}
	}
}

func (r *recorder) decode(text json.RawMessage, v any) {
	if err := json.Unmarshal(text, v); err != nil {
		r.problems = append(r.problems, fmt.Sprintf("undecodable message of %d bytes: %v", len(text), err))
	}
}

func (r *recorder) process(id string) *recording {
	p := r.processes[id]
	if p == nil {
		p = &recording{chunks: map[int][]byte{}}
		r.processes[id] = p
	}
	return p
}

func (r *recorder) chunk(id string, c recordedChunk) {
	p := r.process(id)
	p.highest = max(p.highest, c.Seq)
	if old, known := p.chunks[c.Seq]; known {
		if !bytes.Equal(old, c.Chunk) {
			r.problems = append(r.problems, fmt.Sprintf("number %d came with two contents", c.Seq))
		}
		return
	}
	p.chunks[c.Seq] = c.Chunk
	p.bytes += len(c.Chunk)
}

// total is how many bytes of output went to the client so far.
func (r *recorder) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.processes {
		n += p.bytes
	}
	return n
}

// missing returns the numbers up to the highest for which no output has arrived. The number of the exit may be one of them.
func (r *recorder) missing() (numbers []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.processes {
		for seq := 1; seq <= p.highest; seq++ {
			if _, known := p.chunks[seq]; !known {
				numbers = append(numbers, seq)
			}
		}
	}
	return numbers
}

// sum returns length and SHA-256 of the only process's output, in order.
func (r *recorder) sum() (int, string, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	problems := r.problems
	if len(r.processes) != 1 {
		problems = append(problems, fmt.Sprintf("%d processes instead of 1", len(r.processes)))
	}
	h, n := sha256.New(), 0
	for _, p := range r.processes {
		for seq := 1; seq <= p.highest; seq++ {
			h.Write(p.chunks[seq]) // exit's number has no chunk
			n += len(p.chunks[seq])
		}
	}
	return n, fmt.Sprintf("%x", h.Sum(nil)), problems
}
