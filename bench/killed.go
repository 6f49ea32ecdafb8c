//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// killed measures how soon a client gets an answer from the next worker when the worker of a keeper was killed,
// while its session has few or many commands.
func killed(t *trial) error {
	return errors.Join(killedWith(t, "killed10", 10), killedWith(t, "killed1000", 1000))
}

func killedWith(t *trial, row string, commands int) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	for i := range t.amount(commands) {
		id, err := c.start(strconv.Itoa(i), nil, "/bin/sleep", "1000")
		if err == nil {
			_, err = c.until(func(m message) bool { return m.ID == id })
		}
		if err != nil {
			return err
		}
	}
	return killedBefore(t, row, c.session)
}

// killedBefore kills the worker, and measures how soon the next one answers a client that resumes a session.
func killedBefore(t *trial, row, session string) error {
	workers := t.workers()
	if len(workers) != 1 {
		return fmt.Errorf("%d workers: is there a keeper?", len(workers))
	}
	began := time.Now()
	if err := syscall.Kill(workers[0], syscall.SIGKILL); err != nil {
		return err
	}
	next, err := connect(t.url, session)
	if err != nil {
		return err
	}
	defer next.close()
	err = next.ask()
	t.took(row, time.Since(began), time.Millisecond)
	return err
}

const (
	replaySessions = 1000
	replayCommands = 10 // of each session
	replayClients  = 16 // that open the sessions
)

// replayed measures the same with many sessions, whose commands have ended and can still be read.
func replayed(t *trial) error {
	n := t.amount(replaySessions)
	sessions := make([]*client, n)
	var all errgroup.Group
	all.SetLimit(replayClients)
	for i := range n {
		all.Go(func() (err error) {
			if sessions[i], err = connect(t.url, ""); err != nil {
				return err
			}
			for k := range replayCommands {
				if _, err := runTrue(sessions[i], strconv.Itoa(k), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := all.Wait()
	if err == nil {
		err = killedBefore(t, "replayed", sessions[n-1].session)
	}
	for _, c := range sessions {
		if c != nil {
			c.close()
		}
	}
	return err
}

// workers are the processes that serve below a keeper: one, or two during an upgrade.
func (s *server) workers() (pids []int) {
	pid := s.cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(children)) {
		command, _ := os.ReadFile("/proc/" + field + "/cmdline")
		if child, err := strconv.Atoi(field); err == nil && bytes.Contains(command, []byte("\x00be-child\x00worker\x00")) {
			pids = append(pids, child)
		}
	}
	return pids
}
