//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// A scenario measures one aspect of a server.
type scenario struct {
	name  string
	run   func(*trial) error
	limit func(*benchEnv, recorder) error // the same work without a server; may be nil
	times int                             // how often per repetition, each with a fresh server; 0 means once
}

var scenarios = []scenario{
	{name: "cold", run: cold, times: 20},
	{name: "idle", run: idle},
	{name: "starts", run: starts, limit: plainStarts},
	{name: "output", run: output},
	{name: "echo", run: echo},
	{name: "resume", run: resume},
	{name: "sandbox", run: sandboxed, limit: plainSandbox},
	{name: "client", run: library},
	{name: "watched", run: watched},
	{name: "killed", run: killed}, // this and the next two: only with a keeper
	{name: "replayed", run: replayed},
	{name: "upgraded", run: upgraded},
}

// A trial is one scenario on one fresh server.
type trial struct {
	*benchEnv
	recorder
	*server
}

func (s scenario) measure(ctx context.Context, work *benchEnv, c candidate, t *table) error {
	srv, err := c.start()
	if err != nil {
		return err
	}
	defer srv.stop()
	defer context.AfterFunc(ctx, func() { srv.cmd.Process.Kill() })() // connections end with it
	return s.run(&trial{work, recorder{t, c.name}, srv})
}

const (
	warmUp   = 5  // rounds that do not count
	inFlight = 32 // starts that wait for their end at a time
)

// starts measures commands that end at once.
func starts(t *trial) error {
	return errors.Join(startsInTurn(t, "start", false), startsInTurn(t, "startq", true), startsInFlight(t))
}

func startsInTurn(t *trial, row string, quick bool) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	c.quick = quick
	n := t.amount(100)
	own, children, err := t.cpu()
	if err != nil {
		return err
	}
	for i := range warmUp + n {
		took, err := runTrue(c, strconv.Itoa(i), nil)
		if err != nil {
			return err
		}
		if i >= warmUp {
			t.took(row, took, time.Millisecond)
		}
	}
	own2, children2, err := t.cpu()
	t.took("startcpu", (own2+children2-own-children)/time.Duration(warmUp+n), time.Millisecond)
	return err
}

// runTrue returns the time until the exit was reported. It waits for the last event of the process.
func runTrue(c *client, id string, more object) (took time.Duration, err error) {
	began := time.Now()
	request, err := c.start(id, more, "/bin/true")
	for answered, ended := false, false; err == nil && !(answered && ended); {
		var m message
		m, err = c.next()
		answered = answered || m.ID == request
		ended = ended || closed(m)
		if m.Method == noteExited {
			took = time.Since(began)
			if m.Params.ExitCode != 0 {
				return 0, fmt.Errorf("/bin/true: exit code %d", m.Params.ExitCode)
			}
		}
	}
	return took, err
}

func startsInFlight(t *trial) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	rate, err := startsPerSecond(c, t.amount(320), inFlight, nil)
	t.add("startrate", rate)
	return err
}

// startsPerSecond starts n commands that end at once, so many at a time.
func startsPerSecond(c *client, n, atOnce int, more object) (rate float64, err error) {
	began := time.Now()
	for sent, done := 0, 0; done < n; {
		if sent < n && sent-done < atOnce {
			_, err = c.start(strconv.Itoa(sent), more, "/bin/true")
			sent++
		} else {
			_, err = c.until(closed)
			done++
		}
		if err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// plainStarts is the limit of the machine for starts: /bin/true with both outputs on pipes that are
// read to the end, without a server and a socket.
func plainStarts(work *benchEnv, r recorder) error {
	plainTrue := func() error {
		cmd := exec.Command("/bin/true")
		cmd.Stdout, cmd.Stderr = new(bytes.Buffer), new(bytes.Buffer)
		return cmd.Run()
	}
	for range work.amount(100) {
		began := time.Now()
		if err := plainTrue(); err != nil {
			return err
		}
		r.took("start", time.Since(began), time.Millisecond)
	}
	each := max(1, work.amount(320)/inFlight)
	errs := make([]error, inFlight)
	var workers sync.WaitGroup
	began := time.Now()
	for i := range inFlight {
		workers.Go(func() {
			for range each {
				errs[i] = errors.Join(errs[i], plainTrue())
			}
		})
	}
	workers.Wait()
	r.add("startrate", float64(inFlight*each)/time.Since(began).Seconds())
	return errors.Join(errs...)
}

// output measures a command that prints as fast as it can.
func output(t *trial) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	before, _, err := t.cpu()
	if err != nil {
		return err
	}
	want, got, chunks := t.amount(256)<<20, 0, -2 // the answer and the exit are not output
	client, began := clientCPU(), time.Now()
	if _, err := c.start("out", nil, "head", "-c", strconv.Itoa(want), "/dev/zero"); err != nil {
		return err
	}
	if _, err := c.until(func(m message) bool { got += m.size(); chunks++; return closed(m) }); err != nil {
		return err
	}
	took := time.Since(began)
	after, _, err := t.cpu()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%d of %d bytes came", got, want)
	}
	gib := float64(want) / (1 << 30)
	t.add("output", float64(want)/1e6/took.Seconds())
	t.add("outputcpu", (after-before).Seconds()/gib)
	t.add("clientcpu", (clientCPU()-client).Seconds()/gib)
	t.add("chunk", float64(got)/float64(chunks)/1024)
	return nil
}

// echo measures the time that a line takes to a command and back.
func echo(t *trial) error {
	return errors.Join(
		echoes(t, "pipe", 60, false, object{"pipeStdin": true}, "echo ready; exec cat"),
		echoes(t, "pipeq", 300, true, object{"pipeStdin": true}, "echo ready; exec cat"),
		// The echo must come from the command, not from the terminal.
		echoes(t, "tty", 60, false, object{"tty": true}, "stty raw -echo; echo ready; exec cat"),
		echoes(t, "ttyq", 300, true, object{"tty": true}, "stty raw -echo; echo ready; exec cat"),
	)
}

func echoes(t *trial, row string, n int, quick bool, how object, script string) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	c.quick = quick
	await := func(size int) error {
		_, err := c.until(func(m message) bool { size -= m.size(); return size <= 0 })
		return err
	}
	if _, err := c.start("echo", how, "sh", "-c", script); err != nil {
		return err
	}
	if err := await(len("ready\n")); err != nil {
		return err
	}
	line := []byte("0123456789abcde\n")
	for i := range warmUp + t.amount(n) {
		began := time.Now()
		if _, err := c.send("process/write", object{"processId": "echo", "writeId": strconv.Itoa(i), "chunk": line}); err != nil {
			return err
		}
		if err := await(len(line)); err != nil {
			return err
		}
		if i >= warmUp {
			t.took(row, time.Since(began), time.Microsecond)
		}
	}
	if _, err := c.send("process/terminate", object{"processId": "echo"}); err != nil {
		return err
	}
	_, err = c.until(closed)
	return err
}
