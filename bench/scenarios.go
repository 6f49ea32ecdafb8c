//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"
)

// A scenario measures one aspect of a server.
type scenario struct {
	name  string
	run   func(*trial) error
	limit func(*workshop, recorder) error // the same without a server; may be nil
}

var scenarios = []scenario{
	{name: "starts", run: starts, limit: plainStarts},
	{name: "output", run: output},
	{name: "echo", run: echo},
	{name: "resume", run: resume},
}

func scenarioNames() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}

// A trial is one scenario on one fresh server.
type trial struct {
	*workshop
	recorder
	*server
}

func (s scenario) measure(ctx context.Context, work *workshop, c candidate, t *table) error {
	srv, err := c.start()
	if err != nil {
		return err
	}
	defer srv.stop()
	unwatch := context.AfterFunc(ctx, func() { srv.cmd.Process.Kill() }) // connections end with it
	defer unwatch()
	return s.run(&trial{work, recorder{t, c.name}, srv})
}

// starts measures commands that end at once: one after the other, the same with
// a client that acknowledges at once, and many in flight.
func starts(t *trial) error {
	for _, client := range []struct {
		row   string
		quick bool
	}{{"start", false}, {"startq", true}} {
		c, err := connect(t.url, "")
		if err != nil {
			return err
		}
		defer c.close()
		c.quick = client.quick
		const warm = 5
		n := t.amount(100)
		var before time.Duration
		for i := range warm + n {
			if i == warm {
				if before, err = t.allCPU(); err != nil {
					return err
				}
			}
			took, err := runTrue(c, strconv.Itoa(i))
			if err != nil {
				return err
			}
			if i >= warm {
				t.took(client.row, took, time.Millisecond)
			}
		}
		after, err := t.allCPU()
		if err != nil {
			return err
		}
		t.took("startcpu", (after-before)/time.Duration(n), time.Millisecond)
	}
	return startsInFlight(t)
}

// runTrue returns how long it took to hear of the exit. It waits until nothing
// more can come.
func runTrue(c *client, id string) (took time.Duration, err error) {
	began := time.Now()
	request, err := c.send("process/start", command(id, []string{"/bin/true"}, nil))
	if err != nil {
		return 0, err
	}
	for answered, closed := false, false; !answered || !closed; {
		m, err := c.next()
		switch {
		case err != nil:
			return 0, err
		case m.Method == noteExited && m.Params.ExitCode != 0:
			return 0, fmt.Errorf("/bin/true: exit code %d", m.Params.ExitCode)
		case m.Method == noteExited:
			took = time.Since(began)
		case m.Method == noteClosed:
			closed = true
		case m.ID == request:
			answered = true
		}
	}
	return took, nil
}

// inFlight is how many starts wait for their end at a time.
const inFlight = 32

func startsInFlight(t *trial) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	n := t.amount(320)
	began := time.Now()
	for sent, done := 0, 0; done < n; {
		if sent < n && sent-done < inFlight {
			if _, err := c.send("process/start", command(strconv.Itoa(sent), []string{"/bin/true"}, nil)); err != nil {
				return err
			}
			sent++
			continue
		}
		if _, err := c.until(func(m message) bool { return m.Method == noteClosed }); err != nil {
			return err
		}
		done++
	}
	t.add("startrate", float64(n)/time.Since(began).Seconds())
	return nil
}

// output measures a command that prints as fast as it can.
var dbg int
func output(t *trial) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	want := t.amount(256) << 20
	before, _, err := t.cpu()
	if err != nil {
		return err
	}
	client, began, got := clientCPU(), time.Now(), 0
	if _, err := c.send("process/start", command("out", []string{"head", "-c", strconv.Itoa(want), "/dev/zero"}, nil)); err != nil {
		return err
	}
	if _, err := c.until(func(m message) bool { got += m.size(); dbg++; return m.Method == noteClosed }); err != nil {
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
	println("messages", dbg, int(float64(want)/1e6/took.Seconds())); dbg=0; gib := float64(want) / (1 << 30)
	t.add("output", float64(want)/1e6/took.Seconds())
	t.add("outputcpu", (after-before).Seconds()/gib)
	t.add("clientcpu", (clientCPU()-client).Seconds()/gib)
	return nil
}

// clientCPU is the CPU time of this process.
func clientCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// echo measures how long a line takes to a command and back.
func echo(t *trial) error {
	const raw = "stty raw -echo; echo ready; exec cat" // the terminal itself must not answer
	pipe := command("echo", []string{"sh", "-c", "echo ready; exec cat"}, object{"pipeStdin": true})
	tty := command("echo", []string{"sh", "-c", raw}, object{"tty": true})
	return errors.Join(
		echoes(t, "pipe", pipe, t.amount(60), false),
		echoes(t, "tty", tty, t.amount(60), false),
		echoes(t, "pipeq", pipe, t.amount(300), true),
		echoes(t, "ttyq", tty, t.amount(300), true),
	)
}

func echoes(t *trial, row string, start object, n int, quick bool) error {
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	c.quick = quick
	if _, err := c.send("process/start", start); err != nil {
		return err
	}
	await := func(size int) error {
		_, err := c.until(func(m message) bool { size -= m.size(); return size <= 0 })
		return err
	}
	if err := await(len("ready\n")); err != nil {
		return err
	}
	line := []byte("0123456789abcde\n")
	const warm = 5
	for i := range warm + n {
		began := time.Now()
		if _, err := c.send("process/write", object{"processId": "echo", "writeId": strconv.Itoa(i), "chunk": line}); err != nil {
			return err
		}
		if err := await(len(line)); err != nil {
			return err
		}
		if i >= warm {
			t.took(row, time.Since(began), time.Microsecond)
		}
	}
	if _, err := c.send("process/terminate", object{"processId": "echo"}); err != nil {
		return err
	}
	_, err = c.until(func(m message) bool { return m.Method == noteClosed })
	return err
}
