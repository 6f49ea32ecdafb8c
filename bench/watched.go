//go:build linux

package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// A watcher follows a process of another session until it ends.
type watcher func(c *client, target object) error

const (
	watchedRate = 50e6 // bytes per second
	lookEvery   = 60 * time.Millisecond
	lookBytes   = 96 << 10
)

// watched measures how much slower a command prints while another client watches it.
func watched(t *trial) error {
	if t.column == referenceColumn {
		return nil // has no observers
	}
	paced := t.amount(3 * watchedRate)
	unlimited := t.amount(512) << 20
	atRate := []string{t.produce, "-bytes", strconv.Itoa(paced), "-over", (time.Duration(paced) * time.Second / watchedRate).String()}
	asFast := []string{"head", "-c", strconv.Itoa(unlimited), "/dev/zero"}
	for _, row := range []struct {
		id    string
		argv  []string
		size  int
		watch watcher
	}{
		{"watched", atRate, paced, observeAll},
		{"skimmed", asFast, unlimited, skim},
		{"observed", asFast, unlimited, observeAll},
	} {
		var alone, beside time.Duration
		for _, run := range []struct {
			took  *time.Duration
			watch watcher
		}{{&alone, nil}, {&beside, row.watch}, {&beside, row.watch}, {&alone, nil}} { // in this order, so that other load affects both alike
			took, err := outputTime(t, row.argv, row.size, run.watch)
			if err != nil {
				return fmt.Errorf("%s: %w", row.id, err)
			}
			*run.took += took
		}
		t.add(row.id, alone.Seconds()/beside.Seconds())
	}
	return nil
}

// outputTime is how long a client takes to get all output of a command, which another one may watch.
func outputTime(t *trial, argv []string, size int, watch watcher) (took time.Duration, err error) {
	c, err := connect(t.url, "")
	if err != nil {
		return 0, err
	}
	defer c.close()
	began := time.Now()
	request, err := c.start("out", nil, argv...)
	if err != nil {
		return 0, err
	}
	if _, err := c.until(func(m message) bool { return m.ID == request }); err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	if watch == nil {
		done <- nil
	} else {
		other, err := connect(t.url, "")
		if err != nil {
			return 0, err
		}
		defer other.close()                                                                     // a watcher that still waits ends with it
		go func() { done <- watch(other, object{"sessionId": c.public, "processId": "out"}) }() // outputTime waits for it
	}
	got := 0
	_, err = c.until(func(m message) bool { got += m.size(); return closed(m) })
	took = time.Since(began)
	if err == nil && got != size {
		err = fmt.Errorf("%d of %d bytes came", got, size)
	}
	if err != nil {
		return 0, err
	}
	return took, <-done
}

// observeAll gets all output as it is printed.
func observeAll(c *client, target object) error {
	if _, err := c.send("tether/process/observe", target); err != nil {
		return err
	}
	_, err := c.until(func(m message) bool { return m.Method == "tether/process/closed" })
	return err
}

// skim looks at the newest output some times a second, as the page of the console does with a command that prints faster than a
// person can read.
func skim(c *client, target object) error {
	for {
		began := time.Now()
		request, err := c.send("tether/process/read", object{"sessionId": target["sessionId"], "processId": target["processId"],
			"beforeSeq": uint64(math.MaxInt64), "maxBytes": lookBytes})
		if err != nil {
			return err
		}
		m, err := c.until(func(m message) bool { return m.ID == request })
		if err != nil || ended(m) {
			return err
		}
		time.Sleep(lookEvery - time.Since(began))
	}
}

// ended reports whether a page of a log has the end of it.
func ended(m message) bool {
	events := m.Result.Events
	return len(events) > 0 && events[len(events)-1].Kind == "closed"
}
