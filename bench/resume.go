//go:build linux

package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// The resume scenario: a command prints at a steady rate, the client listens,
// leaves, comes back and stays until the end, a second each.
const (
	producerRate = 20_000_000 // bytes per second
	listening    = time.Second
	away         = time.Second
	producing    = 3 * time.Second
	patternSeed  = 7

	retryAttached = 2 * time.Millisecond
)

// resume measures how soon a client that was away has all it missed, and how
// much of it is gone.
func resume(t *trial) error {
	const total = producerRate * int64(producing/time.Second)
	got := pieces{}
	c, err := connect(t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	argv := []string{t.produce, "-seed", fmt.Sprint(patternSeed), "-bytes", fmt.Sprint(total), "-over", producing.String()}
	if _, err := c.send("process/start", command("stream", argv, nil)); err != nil {
		return err
	}
	for began := time.Now(); time.Since(began) < listening; {
		m, err := c.next()
		if err == nil {
			err = got.note(m)
		}
		if err != nil {
			return err
		}
	}
	c.close()
	time.Sleep(away)
	took, err := got.recover(t.url, c.session)
	if err != nil {
		return err
	}
	lost, err := got.lost(total)
	if err != nil {
		return err
	}
	t.took("catchup", took, time.Millisecond)
	t.add("lost", float64(lost)/1024)
	return nil
}

// pieces is the output that was received, by number.
type pieces map[uint64][]byte

// note keeps what a message brings.
func (p pieces) note(m message) error {
	if m.Method == noteOutput {
		data, err := base64.StdEncoding.AppendDecode(nil, m.chunk)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", m.Params.Seq, err)
		}
		p[m.Params.Seq] = data
	}
	for _, chunk := range m.Result.Chunks {
		p[chunk.Seq] = chunk.Chunk
	}
	return nil
}

// recover does what the reference client does: it resumes the session, reads
// what follows the last number it has, and listens. It returns the time from the
// first attempt to the decoded answer, when the command has closed.
func (p pieces) recover(url, session string) (took time.Duration, err error) {
	var last uint64
	for seq := range p {
		last = max(last, seq)
	}
	began := time.Now()
	c, err := connect(url, session)
	for errors.Is(err, errAttached) && time.Since(began) < scenarioTimeout {
		time.Sleep(retryAttached)
		c, err = connect(url, session)
	}
	if err != nil {
		return 0, err
	}
	defer c.close()
	id, err := c.send("process/read", object{"processId": "stream", "afterSeq": last, "maxBytes": nil, "waitMs": 0})
	if err != nil {
		return 0, err
	}
	for closed := false; !closed || took == 0; {
		m, err := c.next()
		if m.ID == id {
			took = time.Since(began)
		}
		if err == nil {
			err = p.note(m)
		}
		if err != nil {
			return 0, err
		}
		closed = closed || m.Method == noteClosed
	}
	return took, nil
}

// lost is how much is missing of total. What is complete must be the pattern.
func (p pieces) lost(total int64) (int64, error) {
	var all []byte
	for _, seq := range slices.Sorted(maps.Keys(p)) {
		all = append(all, p[seq]...)
	}
	lost := total - int64(len(all))
	if lost > 0 {
		return lost, nil
	}
	want, err := io.ReadAll(tethertest.Pattern(patternSeed, total))
	if err == nil && !bytes.Equal(all, want) {
		err = fmt.Errorf("the output is not what was printed (%d of %d bytes)", len(all), total)
	}
	return 0, err
}
