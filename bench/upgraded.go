//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// upgradeLimit bounds an upgrade.
	upgradeLimit = 20 * time.Second
	// quietTime is how long requests go on after the next worker has answered.
	quietTime = 100 * time.Millisecond
)

// upgraded measures the longest time that a client waits for an answer while the server is upgraded, with 10 commands. The client sends one
// request after the other, and resumes its session whenever the connection ends. The new program is a copy of the old one.
func upgraded(t *trial) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer func() { c.close() }() // the last one
	for i := range 10 {
		id, err := c.start(strconv.Itoa(i), nil, "/bin/sleep", "1000")
		if err == nil {
			_, err = c.until(func(m message) bool { return m.ID == id })
		}
		if err != nil {
			return err
		}
	}
	before := t.workers()
	if len(before) != 1 {
		return fmt.Errorf("%d workers: is there a keeper?", len(before))
	}
	if err := t.replaceProgram(); err != nil {
		return err
	}
	var longest time.Duration
	var next time.Time // when the next worker was seen
	for end := time.Now().Add(upgradeLimit); next.IsZero() || time.Since(next) < quietTime; {
		began := time.Now()
		if began.After(end) {
			return errors.New("the server was not upgraded")
		}
		for c.ask() != nil && time.Now().Before(end) { // the connection has ended
			c.close()
			if next, err := connect(t.url, c.session); err == nil { // otherwise it ended while it was opened
				c = next
			}
		}
		longest = max(longest, time.Since(began))
		if now := t.workers(); next.IsZero() && len(now) == 1 && now[0] != before[0] {
			next = time.Now()
		}
	}
	t.took("upgraded", longest, time.Millisecond)
	return nil
}

// ask sends a request that is answered at once, and waits for the answer.
func (c *client) ask() error {
	id, err := c.send("process/read", object{"processId": "0", "afterSeq": nil, "maxBytes": nil, "waitMs": 0})
	var m message
	if err == nil {
		m, err = c.until(func(m message) bool { return m.ID == id })
	}
	if err == nil && m.Error != nil {
		err = fmt.Errorf("process/read: %s", m.Error)
	}
	return err
}

// replaceProgram puts a copy in the place of the server's program, and asks the server to go on with it.
func (s *server) replaceProgram() error {
	name := s.cmd.Path
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return err
	}
	return s.cmd.Process.Signal(syscall.SIGHUP)
}
