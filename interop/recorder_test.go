//go:build interop

package interop_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A recorder reads along on a cable and keeps every output event that went to the
// client: from notifications, and from the answers to process/read after a resume.
// Numbers that came more than once are kept once, and must be equal.
type recorder struct {
	mu        sync.Mutex
	streams   map[tapKey]*frameReader
	reads     map[readKey]string // process of each process/read in flight
	processes map[string]*recording
	problems  []string
}

type tapKey struct {
	link       int
	fromTarget bool
}

type readKey struct {
	link int
	id   string
}

// recording is what was seen of one process.
type recording struct {
	chunks   map[int][]byte
	repeated int
	bytes    int
	exits    int // exited notifications
	highest  int // highest number of any notification or chunk
}

func newRecorder() *recorder {
	return &recorder{streams: map[tapKey]*frameReader{}, reads: map[readKey]string{}, processes: map[string]*recording{}}
}

// tap is the cable's tap.
func (r *recorder) tap(link int, fromTarget bool, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := tapKey{link, fromTarget}
	s := r.streams[key]
	if s == nil {
		s = &frameReader{}
		r.streams[key] = s
	}
	for _, message := range s.feed(data) {
		r.message(key, message)
	}
}

func (r *recorder) message(key tapKey, text []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			ProcessID string `json:"processId"`
			Seq       int    `json:"seq"`
			Chunk     []byte `json:"chunk"`
		} `json:"params"`
		Result struct {
			Chunks []struct {
				Seq   int    `json:"seq"`
				Chunk []byte `json:"chunk"`
			} `json:"chunks"`
		} `json:"result"`
	}
	if json.Unmarshal(text, &m) != nil {
		// Params of other methods may have other types; only output matters here.
		if key.fromTarget && bytes.Contains(text, []byte(`"process/output"`)) {
			r.problems = append(r.problems, fmt.Sprintf("undecodable message of %d bytes", len(text)))
		}
		return
	}
	switch {
	case !key.fromTarget && m.Method == "process/read":
		r.reads[readKey{key.link, string(m.ID)}] = m.Params.ProcessID
	case key.fromTarget && m.Method == "process/output":
		r.chunk(m.Params.ProcessID, m.Params.Seq, m.Params.Chunk)
	case key.fromTarget && m.Method == "process/exited":
		r.process(m.Params.ProcessID).exits++
	case key.fromTarget && m.Method == "":
		if id, ok := r.reads[readKey{key.link, string(m.ID)}]; ok {
			for _, c := range m.Result.Chunks {
				r.chunk(id, c.Seq, c.Chunk)
			}
		}
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

func (r *recorder) chunk(id string, seq int, data []byte) {
	p := r.process(id)
	p.highest = max(p.highest, seq)
	if old, known := p.chunks[seq]; known {
		p.repeated++
		if !bytes.Equal(old, data) {
			r.problems = append(r.problems, fmt.Sprintf("number %d came with two contents", seq))
		}
		return
	}
	p.chunks[seq] = data
	p.bytes += len(data)
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

// missing returns the numbers up to the highest that came with no output. An
// exit's number may be one of them.
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

// A frameReader takes the bytes of one direction of a WebSocket connection and
// gives its text messages.
type frameReader struct {
	buf      []byte
	upgraded bool
	message  []byte
}

func (f *frameReader) feed(data []byte) (messages [][]byte) {
	f.buf = append(f.buf, data...)
	if !f.upgraded {
		end := bytes.Index(f.buf, []byte("\r\n\r\n"))
		if end < 0 {
			return nil
		}
		f.buf, f.upgraded = f.buf[end+4:], true
	}
	for {
		first, payload, rest, ok := cutFrame(f.buf)
		if !ok {
			f.buf = append([]byte(nil), f.buf...) // let go of what was read
			return messages
		}
		f.buf = rest
		if first&0x0f >= tethertest.OpClose {
			continue
		}
		f.message = append(f.message, payload...)
		if first&0x80 != 0 {
			messages = append(messages, f.message)
			f.message = nil
		}
	}
}

// cutFrame takes the first frame off buf, unmasked.
func cutFrame(buf []byte) (first byte, payload, rest []byte, ok bool) {
	if len(buf) < 2 {
		return 0, nil, buf, false
	}
	size, head := int(buf[1]&0x7f), 2
	switch {
	case size == 126 && len(buf) >= 4:
		size, head = int(binary.BigEndian.Uint16(buf[2:])), 4
	case size == 127 && len(buf) >= 10:
		size, head = int(binary.BigEndian.Uint64(buf[2:])), 10
	case size >= 126:
		return 0, nil, buf, false
	}
	var key []byte
	if buf[1]&0x80 != 0 {
		if len(buf) < head+4 {
			return 0, nil, buf, false
		}
		key, head = buf[head:head+4], head+4
	}
	if len(buf) < head+size {
		return 0, nil, buf, false
	}
	payload = append([]byte(nil), buf[head:head+size]...)
	for i := range payload {
		if key != nil {
			payload[i] ^= key[i&3]
		}
	}
	return buf[0], payload, buf[head+size:], true
}
