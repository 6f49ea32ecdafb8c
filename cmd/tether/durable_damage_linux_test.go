package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A piece is a part of a sparse file.
type piece struct {
	at   int64
	data []byte
}

// readSparse returns the parts of a file that have content, and its size.
func readSparse(t *testing.T, name string) (pieces []piece, size int64) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	for at := int64(0); ; {
		from, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return pieces, size
		}
		to, holeErr := f.Seek(from, unix.SEEK_HOLE)
		data := make([]byte, max(0, to-from))
		_, readErr := f.ReadAt(data, from)
		if err := errors.Join(err, holeErr, readErr); err != nil {
			t.Fatal(err)
		}
		pieces, at = append(pieces, piece{from, data}), to
	}
}

func writeSparse(t *testing.T, name string, pieces []piece, size int64) {
	t.Helper()
	os.Remove(name) // a server of another test may look at it: it must not shrink
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces {
		if _, err := f.WriteAt(p.data[:max(0, min(int64(len(p.data)), size-p.at))], p.at); err != nil {
			t.Fatal(err)
		}
	}
}

// damage changes pieces in one of several ways, and returns the size of the damaged file.
func damage(r *rand.Rand, pieces []piece, size int64) (what string, _ int64) {
	p := pieces[r.IntN(len(pieces))]
	at := r.IntN(len(p.data))
	switch r.IntN(5) {
	case 0:
		return "truncated", r.Int64N(size)
	case 1:
		from := at &^ 4095
		clear(p.data[from:min(len(p.data), from+4096)])
		return fmt.Sprintf("a page of zeros at %d", p.at+int64(from)), size
	case 2:
		for range 20 {
			p := pieces[r.IntN(len(pieces))]
			p.data[r.IntN(len(p.data))] ^= byte(1 + r.IntN(255))
		}
		return "bytes here and there", size
	}
	for word := at &^ 7; word < len(p.data); word += 8 { // a word that means something
		if w := p.data[word : word+8]; !bytes.Equal(w, make([]byte, 8)) {
			w[r.IntN(8)] ^= byte(1 << r.IntN(8))
			return fmt.Sprintf("a bit of the word at %d", p.at+int64(word)), size
		}
	}
	p.data[at] = 0xff
	return fmt.Sprintf("the byte at %d", p.at+int64(at)), size
}

// However the memory that a killed server has left is damaged, the next one serves: it does not crash, and does not hang.
func TestDurableDamage(t *testing.T) {
	t.Parallel()
	h := newDurableHome(t)
	s := h.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), tethertest.Scaled(time.Minute, 20*time.Minute))
	defer cancel()
	for range 2 {
		c := dialKept(t, s.url)
		for i, argv := range [][]string{{"sh", "-c", "echo out; exit 3"}, counting, {"cat"}} {
			p, err := c.Start(ctx, client.Command{ID: fmt.Sprint(i), Argv: argv, Stdin: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Write(ctx, []byte("in\n")); err != nil && i == 2 {
				t.Fatal(err)
			}
		}
		tethertest.Eventually(t, func() error { return havePrinted(ctx, c, "0", "1", "2") })
	}
	s.crash(t, "keeper worker")
	name := h.memory()
	pieces, size := readSparse(t, name)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range tethertest.Scaled(8, 300) {
		copied := make([]piece, len(pieces))
		for i, p := range pieces {
			copied[i] = piece{p.at, bytes.Clone(p.data)}
		}
		what, cut := damage(r, copied, size)
		if err := os.MkdirAll(filepath.Join(h.dir, "durable"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.dir, "durable", "memory"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		writeSparse(t, name, copied, cut)
		s := h.start(t)
		c := dialKept(t, s.url)
		if _, err := c.ListProcesses(ctx, ""); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		p, err := c.Start(ctx, client.Command{ID: "new", Argv: []string{"echo", "out"}})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if exit, err := p.Wait(ctx); err != nil || exit.Code != 0 {
			t.Errorf("%s: %+v, %v", what, exit, err)
		}
		s.stop(t)
		h.checkEmpty(t)
		if bytes.Contains(s.stderr.Bytes(), []byte("panic")) || bytes.Contains(s.stderr.Bytes(), []byte("worker has ended")) {
			t.Errorf("%s: %s", what, tail(s.stderr.Bytes()))
		}
		if t.Failed() {
			t.Fatal("seed", seed)
		}
	}
}
