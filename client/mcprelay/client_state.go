package mcprelay

import "encoding/json"

// maxInFlight is how many requests of a client may wait for an answer.
const maxInFlight = 10_000

// A clientState has the messages of a client that still matter when its server is gone.
type clientState struct {
	open        map[string]struct{} // ids of requests without an answer
	answered    *handshake          // of the first server; nil: not answered yet, or not used
	unanswered  *handshake          // while it waits for its answer
	initialized []byte              // notifications/initialized
}

// A handshake is an initialize request of the client.
type handshake struct {
	line    []byte
	id      string
	version string // of the protocol, as the server chose it
}

// hasRoom reports whether all requests among the messages may wait for an answer.
func (l *clientState) hasRoom(messages []message) bool {
	n := len(l.open)
	for i := range messages {
		if messages[i].isRequest() {
			n++
		}
	}
	return n == len(l.open) || n <= maxInFlight
}

// sent records a message of the client.
func (l *clientState) sent(m *message) {
	switch cancelled := m.cancels(); {
	case m.isRequest():
		if l.open == nil {
			l.open = map[string]struct{}{}
		}
		l.open[m.id] = struct{}{}
		if m.method == methodInitialize {
			*l = clientState{open: l.open, unanswered: &handshake{line: m.raw, id: m.id}}
		}
	case cancelled != "":
		delete(l.open, cancelled) // a cancelled request gets no answer
	case m.method == methodInitialized:
		l.initialized = m.raw
	}
}

// received records a message of the server.
func (l *clientState) received(m *message) {
	if !m.isAnswer() {
		return
	}
	delete(l.open, m.id)
	if l.unanswered != nil && l.unanswered.id == m.id && m.result != nil {
		l.answered = l.unanswered
		l.answered.version = chosenVersion(m)
		l.unanswered = nil
	}
}

// take removes all requests without an answer and returns their ids.
func (l *clientState) take() map[string]struct{} {
	open := l.open
	l.open, l.unanswered = nil, nil
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
