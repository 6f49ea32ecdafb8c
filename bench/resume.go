//go:build linux

package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A command prints at a steady rate for three seconds. The client is disconnected during the
// second of them.
const (
	printRate = 20_000_000 // bytes per second
	printTime = 3 * time.Second
	printed   = printRate * int64(printTime/time.Second)
	awayAfter = time.Second
	awayTime  = time.Second
	seed      = 7

	// printSlack is how far the command may be behind its rate: it prints every 5 ms, and the
	// scheduler may delay it.
	printSlack = 10 * time.Millisecond
)

// resume measures how soon a client that was away has the output that it missed, and how much of
// it is lost.
func resume(t *trial) error {
	got := pieces{}
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	began := time.Now()
	if _, err := c.start("stream", nil, t.produce, "-seed", fmt.Sprint(seed),
		"-bytes", fmt.Sprint(printed), "-over", printTime.String()); err != nil {
		return err
	}
	if _, err := got.collect(c, func(message) bool { return time.Since(began) >= awayAfter }); err != nil {
		return err
	}
	c.close()
	time.Sleep(awayTime)

	back := time.Now()
	answered, err := got.recover(t.url, c.session)
	if err != nil {
		return err
	}
	lost, err := got.lost()
	if err != nil {
		return err
	}
	due := int64(printRate * (back.Sub(began) - printSlack).Seconds())
	t.took("answered", answered.Sub(back), time.Millisecond)
	t.took("catchup", got.reached(due, back).Sub(back), time.Millisecond)
	t.add("lost", float64(lost)/1024)
	return nil
}

// pieces is the received output, by sequence number.
type pieces map[uint64]piece

type piece struct {
	data []byte
	at   time.Time // when it was decoded
}

// collect keeps the output up to the first message for which done is true, and
// returns when that was decoded.
func (p pieces) collect(c *client, done func(message) bool) (at time.Time, err error) {
	for {
		m, err := c.next()
		if err != nil {
			return at, err
		}
		if m.Method == noteOutput {
			data, err := base64.StdEncoding.AppendDecode(nil, m.chunk)
			if err != nil {
				return at, fmt.Errorf("chunk %d: %w", m.Params.Seq, err)
			}
			p[m.Params.Seq] = piece{data, time.Now()}
		}
		at = time.Now()
		for _, chunk := range m.Result.Chunks {
			p[chunk.Seq] = piece{chunk.Chunk, at}
		}
		if done(m) {
			return at, nil
		}
	}
}

// recover does what the reference client does: it resumes the session, reads from the last number
// that it has, and then takes notifications.
func (p pieces) recover(url, session string) (answered time.Time, err error) {
	last := slices.Max(slices.Collect(maps.Keys(p)))
	c, err := connect(url, session)
	if err != nil {
		return answered, err
	}
	defer c.close()
	id, err := c.send("process/read", object{"processId": "stream", "afterSeq": last, "maxBytes": nil, "waitMs": 0})
	if err != nil {
		return answered, err
	}
	if answered, err = p.collect(c, func(m message) bool { return m.ID == id }); err == nil {
		_, err = p.collect(c, closed)
	}
	return answered, err
}

// lost returns how many bytes are missing. The received bytes must be the printed ones.
func (p pieces) lost() (int64, error) {
	var all []byte
	for _, seq := range slices.Sorted(maps.Keys(p)) {
		all = append(all, p[seq].data...)
	}
	if lost := printed - int64(len(all)); lost > 0 {
		return lost, nil
	}
	want, err := io.ReadAll(tethertest.Pattern(seed, printed))
	if err == nil && !bytes.Equal(all, want) {
		err = fmt.Errorf("the output is not what was printed (%d of %d bytes)", len(all), printed)
	}
	return 0, err
}

// reached returns when the output up to an offset had arrived, but not before a given time.
// Offsets are counted from the end, because a gap may be in the middle.
func (p pieces) reached(offset int64, notBefore time.Time) time.Time {
	at, end := notBefore, printed
	for _, seq := range slices.Backward(slices.Sorted(maps.Keys(p))) {
		start := end - int64(len(p[seq].data))
		if start < offset && p[seq].at.After(at) {
			at = p[seq].at
		}
		end = start
	}
	return at
}
