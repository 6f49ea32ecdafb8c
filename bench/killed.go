//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	workers := t.workers()
	if len(workers) != 1 {
		return fmt.Errorf("%d workers: is there a keeper?", len(workers))
	}
	began := time.Now()
	if err := syscall.Kill(workers[0], syscall.SIGKILL); err != nil {
		return err
	}
	next, err := connect(t.url, c.session)
	if err != nil {
		return err
	}
	defer next.close()
	id, err := next.send("process/read", object{"processId": "0", "afterSeq": nil, "maxBytes": nil, "waitMs": 0})
	if err == nil {
		_, err = next.until(func(m message) bool { return m.ID == id })
	}
	t.took(row, time.Since(began), time.Millisecond)
	return err
}

// workers are the children of the server that run its own program: the worker of a keeper.
func (s *server) workers() (pids []int) {
	pid := s.cmd.Process.Pid
	program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, field := range strings.Fields(string(children)) {
		if exe, _ := os.Readlink("/proc/" + field + "/exe"); exe == program {
			child, _ := strconv.Atoi(field)
			pids = append(pids, child)
		}
	}
	return pids
}
