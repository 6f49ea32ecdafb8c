package mcprelay

import "encoding/json"

// maxInFlight is how many requests of a client may wait for an answer.
const maxInFlight = 10_000

// A ledger has the messages of a client that still matter when its server is gone.
type ledger struct {
	open        map[string]struct{} // ids of requests without an answer
	hello       *greeting           // initialize; nil: not answered yet, or not used
	asked       *greeting           // initialize, while it is not answered
	initialized []byte              // notifications/initialized
}

// A greeting is an initialize request of the client.
type greeting struct {
	line    []byte
	id      string
	version string // of the protocol, as the server chose it
}

// hasRoom reports whether all requests among the messages may wait for an answer.
func (l *ledger) hasRoom(messages []message) bool {
	n := len(l.open)
	for i := range messages {
		if messages[i].isRequest() {
			n++
		}
	}
	return n == len(l.open) || n <= maxInFlight
}

// said records a message of the client.
func (l *ledger) said(m *message) {
	switch cancelled := m.cancels(); {
	case m.isRequest():
		if l.open == nil {
			l.open = map[string]struct{}{}
		}
		l.open[m.id] = struct{}{}
		if m.method == methodInitialize {
			*l = ledger{open: l.open, asked: &greeting{line: m.raw, id: m.id}}
		}
	case cancelled != "":
		delete(l.open, cancelled) // a cancelled request gets no answer
	case m.method == methodInitialized:
		l.initialized = m.raw
	}
}

// heard records a message of the server.
func (l *ledger) heard(m *message) {
	if !m.isAnswer() {
		return
	}
	delete(l.open, m.id)
	if l.asked != nil && l.asked.id == m.id && m.result != nil {
		l.hello = l.asked
		l.hello.version = chosenVersion(m)
		l.asked = nil
	}
}

// take removes all requests without an answer and returns their ids.
func (l *ledger) take() map[string]struct{} {
	open := l.open
	l.open, l.asked = nil, nil
	return open
}

// chosenVersion is the version of the protocol in an answer to initialize.
func chosenVersion(m *message) string {
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	json.Unmarshal(m.result, &result) // if it is malformed, the client reports that
	return result.ProtocolVersion
}
