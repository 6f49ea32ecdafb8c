//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// A client is a session with a server. It waits for one message at a time.
type client struct {
	*socket
	session string
	public  string // the id that others may know; of the reference, none
	lastID  int
}

// A message is a message of the server.
type message struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params struct {
		Seq      uint64 `json:"seq"`
		ExitCode int    `json:"exitCode"`
	} `json:"params"`
	Result struct {
		SessionID string `json:"sessionId"`
		Tether    struct {
			PublicID string `json:"publicId"`
		} `json:"tether"`
		Events []struct {
			Kind string `json:"kind"`
		} `json:"events"`
		Chunks []struct {
			Seq   uint64 `json:"seq"`
			Chunk []byte `json:"chunk"`
		} `json:"chunks"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`

	chunk []byte // of a notification, in base64; valid until the next message
}

// Notifications.
const (
	noteOutput = "process/output"
	noteExited = "process/exited"
	noteClosed = "process/closed"
)

func closed(m message) bool { return m.Method == noteClosed }

// connect begins a session, or resumes one.
func connect(url, resume string) (*client, error) { return connectWith(receiveBuffer, url, resume) }

// connectWith is connect with a receive buffer of the given size.
func connectWith(buffer int, url, resume string) (*client, error) {
	s, err := dial(url, buffer)
	if err != nil {
		return nil, err
	}
	c := &client{socket: s}
	params := object{"clientName": "bench"}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	id, err := c.send("initialize", params)
	if err == nil {
		var m message
		m, err = c.until(func(m message) bool { return m.ID == id })
		c.session, c.public = m.Result.SessionID, m.Result.Tether.PublicID
	}
	if err == nil {
		err = c.write(opText, []byte(`{"method":"initialized","params":{}}`))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close drops the connection without a close frame.
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

// start asks for a command; more adds to its parameters.
func (c *client) start(id string, more object, argv ...string) (int, error) {
	params := object{"processId": id, "argv": argv, "cwd": "file:///", "arg0": nil, "tty": false,
		"env": map[string]string{"PATH": "/usr/bin:/bin", "TERM": "xterm"}}
	for name, value := range more {
		params[name] = value
	}
	return c.send("process/start", params)
}

// next returns the next message; an error of the server is an error.
func (c *client) next() (message, error) {
	raw, err := c.read()
	if err != nil {
		return message{}, err
	}
	m, err := decode(raw)
	if err == nil && m.Error != nil {
		err = fmt.Errorf("the server answered %s", m.Error)
	}
	return m, err
}

// until drops messages up to the first for which wanted is true.
func (c *client) until(wanted func(message) bool) (message, error) {
	for {
		if m, err := c.next(); err != nil || wanted(m) {
			return m, err
		}
	}
}

// methodWithin is how many bytes of a notification are searched for its method.
const methodWithin = 64

// decode decodes a message. It cuts out the chunk of a notification and leaves it in base64, so that
// the client does not become the slowest part.
func decode(raw []byte) (m message, err error) {
	text := raw
	if bytes.Contains(raw[:min(len(raw), methodWithin)], []byte(noteOutput)) {
		before, after, _ := bytes.Cut(raw, []byte(`"chunk":"`))
		end := bytes.IndexByte(after, '"')
		if end < 0 {
			return m, fmt.Errorf("no chunk in %.200q", raw)
		}
		m.chunk = after[:end]
		text = slices.Concat(before, []byte(`"chunk":"`), after[end:])
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("message %.200q: %w", text, err)
	}
	return m, nil
}

// size is how many bytes the chunk has when it is decoded.
func (m message) size() int {
	padding := len(m.chunk) - len(bytes.TrimRight(m.chunk, "="))
	return len(m.chunk)/4*3 - padding
}
