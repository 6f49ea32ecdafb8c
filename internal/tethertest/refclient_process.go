package tethertest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/url"
	"strconv"
	"sync"
)

// Limits of the reference client: the events of a process that it keeps while a number is missing, and the size of one event.
const (
	reorderEvents = 256
	reorderBytes  = 1 << 20
	eventBytes    = 1 << 20
)

// RefStart describes a command.
type RefStart struct {
	ID        string // unique in the session
	Argv      []string
	Cwd       string            // absolute native path; "/" if empty
	Env       map[string]string // overlay over the server's environment
	TTY       bool
	PipeStdin bool
	Arg0      string

	// OnOutput, if set, gets each chunk once, in order, from one goroutine at a
	// time. It must not keep data and must not call the process or its client.
	OnOutput func(seq uint64, stream string, data []byte)
}

func (s RefStart) params() map[string]any {
	cwd := s.Cwd
	if cwd == "" {
		cwd = "/"
	}
	env := s.Env
	if env == nil {
		env = map[string]string{}
	}
	var arg0 any
	if s.Arg0 != "" {
		arg0 = s.Arg0
	}
	return map[string]any{
		"processId": s.ID, "argv": s.Argv, "cwd": (&url.URL{Scheme: "file", Path: cwd}).String(), "env": env,
		"envPolicy": map[string]any{"inherit": "all", "ignoreDefaultExcludes": true,
			"exclude": []string{}, "set": map[string]string{}, "includeOnly": []string{}},
		"tty": s.TTY, "pipeStdin": s.PipeStdin, "arg0": arg0, "sandbox": nil,
		"enforceManagedNetwork": false, "managedNetwork": nil,
	}
}

// A RefProcess is one command with the events that have arrived.
type RefProcess struct {
	id          string
	client      *RefClient
	onOutput    func(seq uint64, stream string, data []byte)
	recoverable bool          // its start was answered; guarded by client.mu
	done        chan struct{} // closed once closed or failed

	mu           sync.Mutex
	last         uint64 // last number published
	waiting      map[uint64]event
	waitingBytes int
	exit         *event // published or waiting
	closed       bool
	err          error
	writes       int
	sums         map[string]*streamSum
}

type eventKind int

const (
	eventOutput eventKind = iota
	eventExited
	eventClosed
)

type event struct {
	seq      uint64
	kind     eventKind
	stream   string
	data     []byte
	exitCode int
	denied   bool
}

// notification is the union of the three process notifications' params.
type notification struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	Stream        string `json:"stream"`
	Chunk         string `json:"chunk"`
	ExitCode      *int   `json:"exitCode"`
	SandboxDenied *bool  `json:"sandboxDenied"`
}

// readAnswer is the result of process/read.
type readAnswer struct {
	Chunks []struct {
		Seq    uint64 `json:"seq"`
		Stream string `json:"stream"`
		Chunk  string `json:"chunk"`
	} `json:"chunks"`
	NextSeq       uint64  `json:"nextSeq"`
	Exited        bool    `json:"exited"`
	ExitCode      *int    `json:"exitCode"`
	Closed        bool    `json:"closed"`
	Failure       *string `json:"failure"`
	SandboxDenied bool    `json:"sandboxDenied"`
}

type streamSum struct {
	bytes int64
	hash  hash.Hash
}

// StreamSum describes the output on one stream.
type StreamSum struct {
	Bytes  int64
	SHA256 string // lower-case hex
}

// RefResult is the outcome of a process.
type RefResult struct {
	ExitCode      int
	SandboxDenied bool
	LastSeq       uint64               // the number of closed
	Streams       map[string]StreamSum // by stream name; streams without output are absent
}

func newRefProcess(c *RefClient, start RefStart) *RefProcess {
	return &RefProcess{id: start.ID, client: c, onOutput: start.OnOutput, done: make(chan struct{}),
		waiting: map[uint64]event{}, sums: map[string]*streamSum{}}
}

// LastSeq is the last number that came without a gap before it.
func (p *RefProcess) LastSeq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Received tells how many bytes of output were published so far.
func (p *RefProcess) Received() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var n int64
	for _, s := range p.sums {
		n += s.bytes
	}
	return n
}

// Wait returns when the process is closed and all its output is published, or with the error for which the reference client would
// have failed it.
func (p *RefProcess) Wait(ctx context.Context) (RefResult, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		return RefResult{}, fmt.Errorf("process %s after event %d (%d waiting for a gap): %w",
			p.id, p.last, len(p.waiting), context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := RefResult{LastSeq: p.last, Streams: map[string]StreamSum{}}
	for name, s := range p.sums {
		r.Streams[name] = StreamSum{s.bytes, hex.EncodeToString(s.hash.Sum(nil))}
	}
	if p.exit != nil {
		r.ExitCode, r.SandboxDenied = p.exit.exitCode, p.exit.denied
	}
	return r, p.err
}

// Write sends bytes to stdin and returns the server's status. A write whose
// answer was lost is repeated with the same id after the recovery.
func (p *RefProcess) Write(ctx context.Context, data []byte) (status string, err error) {
	p.mu.Lock()
	p.writes++
	id := strconv.Itoa(p.writes) // as the reference client numbers them
	p.mu.Unlock()
	params := map[string]any{"processId": p.id, "chunk": base64.StdEncoding.EncodeToString(data), "writeId": id}
	for {
		g, err := p.client.connected(ctx)
		if err != nil {
			return "", err
		}
		var answer struct {
			Status string `json:"status"`
		}
		err = g.call(ctx, "process/write", params, &answer)
		if !errors.Is(err, ErrDisconnected) {
			return answer.Status, err
		}
		select {
		case <-g.Ended():
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Terminate asks the server to end the process, once, and returns whether it ran.
func (p *RefProcess) Terminate(ctx context.Context) (running bool, err error) {
	var answer struct {
		Running bool `json:"running"`
	}
	err = p.client.Call(ctx, "process/terminate", map[string]any{"processId": p.id}, &answer)
	return answer.Running, err
}

// fail gives the process up.
func (p *RefProcess) fail(err error) {
	p.mu.Lock()
	p.failLocked(err)
	p.mu.Unlock()
}

func (p *RefProcess) failLocked(err error) {
	if p.closed || p.err != nil {
		return
	}
	p.err = err
	p.endLocked()
}

func (p *RefProcess) endLocked() {
	close(p.done)
	p.waiting, p.waitingBytes = nil, 0
	p.client.forget(p)
}

// arrived takes one notification.
func (p *RefProcess) arrived(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.err != nil || e.seq <= p.last {
		return
	}
	if len(e.data) > eventBytes {
		p.failLocked(fmt.Errorf("process event exceeds %d bytes", eventBytes))
		return
	}
	p.insertLocked(e)
	p.publishLocked()
	if p.closed || p.err != nil {
		return
	}
	switch {
	case len(p.waiting) > reorderEvents:
		p.failLocked(fmt.Errorf("process event reorder buffer exceeds %d entries", reorderEvents))
	case p.waitingBytes > reorderBytes:
		p.failLocked(fmt.Errorf("process event reorder buffer exceeds %d bytes", reorderBytes))
	}
}

// insertLocked adds an event that is not published yet; a number twice is dropped.
func (p *RefProcess) insertLocked(e event) {
	if _, known := p.waiting[e.seq]; known || e.seq <= p.last {
		return
	}
	p.waiting[e.seq] = e
	p.waitingBytes += len(e.data)
	if e.kind == eventExited && p.exit == nil {
		p.exit = &e
	}
}

// publishLocked publishes the events that follow the last number without a gap.
func (p *RefProcess) publishLocked() {
	for {
		e, ok := p.waiting[p.last+1]
		if !ok {
			return
		}
		delete(p.waiting, e.seq)
		p.waitingBytes -= len(e.data)
		p.last = e.seq
		switch e.kind {
		case eventOutput:
			p.outputLocked(e)
		case eventClosed:
			p.closed = true
			if p.exit == nil {
				p.err = errors.New("process closed without an exit")
			}
			p.endLocked()
			return
		}
	}
}

func (p *RefProcess) outputLocked(e event) {
	s := p.sums[e.stream]
	if s == nil {
		s = &streamSum{hash: sha256.New()}
		p.sums[e.stream] = s
	}
	s.bytes += int64(len(e.data))
	s.hash.Write(e.data)
	if p.onOutput != nil {
		p.onOutput(e.seq, e.stream, e.data)
	}
}

// recovered merges the answer of the one read after a resume. The target is
// nextSeq-1; an exit is deduced from a hole, a close from the target itself, and
// any other number missing up to the target is fatal.
func (p *RefProcess) recovered(a readAnswer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Failure != nil {
		return errors.New(*a.Failure)
	}
	target := a.NextSeq - 1
	if p.closed || p.err != nil || a.NextSeq == 0 || target <= p.last {
		return nil
	}
	if a.Exited && a.ExitCode == nil {
		return &protocolError{"recovering exited process did not include its exit code"}
	}
	if p.exit != nil {
		p.exit.denied = p.exit.denied || a.SandboxDenied
	}
	if e, known := p.waiting[target]; a.Closed && known && e.kind != eventClosed {
		return &protocolError{fmt.Sprintf("process close sequence %d conflicts with recovered output", target)}
	}
	for _, chunk := range a.Chunks {
		if err := p.recoverChunkLocked(a, target, chunk.Seq, chunk.Stream, chunk.Chunk); err != nil {
			return err
		}
	}
	if a.Closed && target > p.last {
		p.insertLocked(event{seq: target, kind: eventClosed})
	}
	if err := p.fillHolesLocked(a, target); err != nil {
		return err
	}
	p.publishLocked()
	return nil
}

func (p *RefProcess) recoverChunkLocked(a readAnswer, target, seq uint64, stream, chunk string) error {
	switch {
	case seq > target:
		return &protocolError{fmt.Sprintf("recovered process output sequence %d exceeds target sequence %d", seq, target)}
	case seq == target && a.Closed:
		return &protocolError{fmt.Sprintf("process close sequence %d conflicts with recovered output", target)}
	}
	data, err := base64.StdEncoding.DecodeString(chunk)
	if err != nil {
		return &protocolError{err.Error()}
	}
	if len(data) > eventBytes {
		return &protocolError{fmt.Sprintf("process event exceeds %d bytes", eventBytes)}
	}
	if seq > p.last+1 && a.Exited && p.exit == nil {
		p.insertLocked(event{seq: p.last + 1, kind: eventExited, exitCode: *a.ExitCode, denied: a.SandboxDenied})
		p.publishLocked()
	}
	p.insertLocked(event{seq: seq, kind: eventOutput, stream: stream, data: data})
	p.publishLocked()
	return nil
}

// fillHolesLocked takes the one missing number that is allowed for the exit.
func (p *RefProcess) fillHolesLocked(a readAnswer, target uint64) error {
	var holes []uint64
	for seq := p.last + 1; seq <= target && len(holes) < 2; seq++ {
		if _, ok := p.waiting[seq]; !ok {
			holes = append(holes, seq)
		}
	}
	allowed := 0
	if a.Exited && p.exit == nil {
		allowed = 1
	}
	if len(holes) != allowed {
		return &protocolError{fmt.Sprintf(
			"process events are no longer retained while recovering through sequence %d", target)}
	}
	for _, seq := range holes {
		p.insertLocked(event{seq: seq, kind: eventExited, exitCode: *a.ExitCode, denied: a.SandboxDenied})
	}
	return nil
}
