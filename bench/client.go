//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// A client is a session with a server. It waits for one thing at a time.
type client struct {
	*socket
	session string
	lastID  int
	rest    []byte // a message without its chunk
}

// A message is what the server has sent. Of an output notification the chunk is
// not decoded: that would make the client the slowest part.
type message struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params struct {
		ProcessID string `json:"processId"`
		Seq       uint64 `json:"seq"`
		ExitCode  int    `json:"exitCode"`
	} `json:"params"`
	Result struct {
		SessionID string `json:"sessionId"`
		Chunks    []struct {
			Seq   uint64 `json:"seq"`
			Chunk []byte `json:"chunk"`
		} `json:"chunks"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`

	chunk []byte // base64; valid until the next message
}

// Methods that a measurement waits for.
const (
	noteOutput = "process/output"
	noteExited = "process/exited"
	noteClosed = "process/closed"
)

// errAttached is the answer to a resume that comes before the server has
// noticed that the old connection is gone.
var errAttached = errors.New("session is still attached")

const codeAttached = -32010

// connect begins a session, or resumes one.
func connect(url, resume string) (*client, error) {
	s, err := dialSocket(url)
	if err != nil {
		return nil, err
	}
	c := &client{socket: s}
	params := object{"clientName": "bench"}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	m, err := c.call("initialize", params)
	if err == nil {
		c.session = m.Result.SessionID
		err = c.write(opText, []byte(`{"method":"initialized","params":{}}`))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close drops the connection without a goodbye.
func (c *client) close() { c.conn.Close() }

type object = map[string]any

// send sends a request and returns its id.
func (c *client) send(method string, params object) (int, error) {
	c.lastID++
	text, err := json.Marshal(object{"id": c.lastID, "method": method, "params": params})
	if err != nil {
		return 0, err
	}
	return c.lastID, c.write(opText, text)
}

// next returns the next message; an error of the server is an error.
func (c *client) next() (message, error) {
	raw, err := c.read()
	if err != nil {
		return message{}, err
	}
	var m message
	m, c.rest, err = decode(raw, c.rest)
	switch {
	case err != nil:
		return m, err
	case m.Error == nil:
		return m, nil
	case m.Error.Code == codeAttached:
		return m, errAttached
	}
	return m, fmt.Errorf("the server answered %d: %s", m.Error.Code, m.Error.Message)
}

// until drops messages up to the first that is wanted.
func (c *client) until(wanted func(message) bool) (message, error) {
	for {
		if m, err := c.next(); err != nil || wanted(m) {
			return m, err
		}
	}
}

// call sends a request and returns its answer.
func (c *client) call(method string, params object) (message, error) {
	id, err := c.send(method, params)
	if err != nil {
		return message{}, err
	}
	return c.until(func(m message) bool { return m.ID == id })
}

// command is the parameters of process/start; more adds to them.
func command(id string, argv []string, more object) object {
	params := object{"processId": id, "argv": argv, "cwd": "file:///", "arg0": nil, "tty": false,
		"env": map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "xterm"}}
	for name, value := range more {
		params[name] = value
	}
	return params
}

var (
	outputMark = []byte(`"` + noteOutput + `"`)
	chunkMark  = []byte(`"chunk":"`)
)

// methodWithin is how far into a notification its method is looked for.
const methodWithin = 64

// decode decodes a message, but for the chunk of an output notification, which
// is cut out. Memory for the rest is taken from and given back to the caller.
func decode(raw, rest []byte) (message, []byte, error) {
	var m message
	text := raw
	if bytes.Contains(raw[:min(len(raw), methodWithin)], outputMark) {
		before, after, found := bytes.Cut(raw, chunkMark)
		end := bytes.IndexByte(after, '"')
		if !found || end < 0 {
			return m, rest, fmt.Errorf("no chunk in %.200q", raw)
		}
		m.chunk = after[:end]
		rest = append(append(append(rest[:0], before...), chunkMark...), after[end:]...)
		text = rest
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, rest, fmt.Errorf("message %.200q: %w", text, err)
	}
	return m, rest, nil
}

// size is how many bytes the chunk stands for.
func (m message) size() int {
	padding := len(m.chunk) - len(bytes.TrimRight(m.chunk, "="))
	return len(m.chunk)/4*3 - padding
}
