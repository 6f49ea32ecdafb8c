package cable

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/tetherexec/tether/wire"
)

// A Direction is the direction of a message.
type Direction int

// The directions. Either is only for rules.
const (
	FromClient Direction = iota
	FromServer
	Either
)

func (d Direction) String() string {
	switch d {
	case FromClient:
		return "client"
	case FromServer:
		return "server"
	}
	return "either"
}

// A Kind is the kind of a WebSocket frame.
type Kind int

// The kinds of a Message.
const (
	Text Kind = iota + 1
	Binary
	PingFrame
	PongFrame
	CloseFrame

	other Kind = 0  // bytes that are not a message
	end   Kind = -1 // the sender has ended
)

func (k Kind) String() string {
	switch k {
	case Text:
		return "text"
	case Binary:
		return "binary"
	case PingFrame:
		return "ping"
	case PongFrame:
		return "pong"
	case CloseFrame:
		return "close"
	}
	return "bytes"
}

func (k Kind) isData() bool { return k == Text || k == Binary }

// maxPending limits the requests per connection whose answers are recognised.
// Answers to later requests match no Answer.
const maxPending = 1 << 16

// A Message is one message, or one control frame. Its bytes must not be changed;
// they stay valid.
type Message struct {
	Time time.Time // when the cable had received all of it
	Link int       // the connection, from 1
	From Direction
	Kind Kind
	Raw  []byte // without framing

	// The content of Raw, if it is a message of the protocol.
	ID     string // as JSON: 7 or "x"; empty in notifications
	Method string // of requests and notifications
	Params json.RawMessage
	Result json.RawMessage
	Error  *wire.Error

	// AnswerTo is the method of the request that the message answers.
	AnswerTo string

	// Fate is what happened to it, for a Tap: "forwarded", or the actions of the
	// rules.
	Fate string

	process string // of the request that the message answers
}

// Process is the id of the process that the message is about, or "". An answer is
// about the process of its request.
func (m *Message) Process() string {
	if m.process == "" && bytes.Contains(m.Params, []byte(`"processId"`)) {
		var params struct {
			ProcessID string `json:"processId"`
		}
		if json.Unmarshal(m.Params, &params) == nil {
			m.process = params.ProcessID
		}
	}
	return m.process
}

// parse reads the content of the message.
func (m *Message) parse() {
	if !m.Kind.isData() {
		return
	}
	parsed, err := wire.Parse(m.Raw)
	if err != nil {
		return // not a message of the protocol: it is forwarded unchanged
	}
	if parsed.Kind != wire.KindNotification {
		m.ID = string(parsed.ID.AppendJSON(nil))
	}
	m.Method, m.Params, m.Result, m.Error = parsed.Method, parsed.Params, parsed.Result, parsed.Err
}

// pending has the requests of one connection that were not answered yet, in both
// directions.
type pending struct {
	mu    sync.Mutex
	asked [2]map[string]request // by direction, then id
}

type request struct{ method, process string }

// note remembers a request. It must be called before the request is forwarded.
func (p *pending) note(m *Message) {
	if m.ID == "" || m.Method == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[m.From] == nil {
		p.asked[m.From] = make(map[string]request)
	}
	if len(p.asked[m.From]) < maxPending {
		p.asked[m.From][m.ID] = request{m.Method, m.Process()}
	}
}

// resolve finds the request of an answer.
func (p *pending) resolve(m *Message) {
	if m.ID == "" || m.Method != "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked[1-m.From]
	m.AnswerTo, m.process = asked[m.ID].method, asked[m.ID].process
	delete(asked, m.ID)
}
