package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

func wantFile(t *testing.T, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes (%v), not the %d that were sent", name, len(got), err, len(want))
	}
}

func TestUploadThroughCuts(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, cable.URL(), client.Options{})
	data, name := tethertest.PatternBytes(t, tethertest.Scaled[int64](5<<20, 10<<20)+5), filepath.Join(t.TempDir(), "file")
	cuts := cutter{cable, 8}
	var last int64
	err := files.Of(c).Upload(tethertest.Within(t), name, bytes.NewReader(data), int64(len(data)), files.UploadOptions{
		Mode: 0o640,
		Progress: func(done, total int64) {
			if done > 0 && done < total {
				cuts.cut()
			}
			last = done
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, name, data)
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o640 || last != int64(len(data)) {
		t.Errorf("mode %v, %v; progress %d", info.Mode(), err, last)
	}
	if n := c.Status().Connection; n < 3 {
		t.Errorf("%d connections", n)
	}
}

// If the answer to the commit is lost, the upload still succeeds, and is committed once.
func TestUploadWithLostCommit(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, line.URL(), client.Options{})
	lost := line.On(cable.FromServer, cable.Answer("tether/upload/commit"), cable.SeverBefore)
	name := filepath.Join(t.TempDir(), "file")
	if err := files.Of(c).Upload(tethertest.Within(t), name, strings.NewReader("hello"), 5, files.UploadOptions{}); err != nil {
		t.Error(err)
	}
	wantFile(t, name, []byte("hello"))
	if lost.Count() != 1 {
		t.Errorf("%d commits", lost.Count())
	}
}

type readerAtFunc func(b []byte, offset int64) (int, error)

func (f readerAtFunc) ReadAt(b []byte, offset int64) (int, error) { return f(b, offset) }

// An upload whose client was stopped in the middle is continued by another client.
func TestUploadGoesOnInAnotherClient(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	data, other := tethertest.PatternBytes(t, 5<<20+5), tethertest.PatternBytes(t, 5<<20+5)
	other[0]++
	for _, test := range []struct {
		name    string
		data    []byte
		resumes bool
	}{{"same", data, true}, {"other bytes", other, false}, {"other size", data[:3<<20], false}} {
		t.Run(test.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "file")
			first := dial(t, s.URL, client.Options{})
			ctx, stop := context.WithCancel(tethertest.Within(t))
			arrived := int64(0)
			source := readerAtFunc(func(b []byte, offset int64) (int, error) {
				if offset > 0 && arrived > 0 {
					stop()
					return 0, context.Canceled
				}
				return bytes.NewReader(data).ReadAt(b, offset)
			})
			progress := func(done, _ int64) { arrived = done }
			err := files.Of(first).Upload(ctx, name, source, int64(len(data)), files.UploadOptions{ID: "u", Progress: progress})
			if !errors.Is(err, context.Canceled) || arrived == 0 {
				t.Fatalf("%v after %d bytes", err, arrived)
			}
			first.Close()
			var second *client.Client
			tethertest.Eventually(t, func() (err error) { // the server may not have noticed that the first is gone
				second, err = client.Dial(tethertest.Within(t), s.URL, client.Options{Resume: first.SessionID()})
				return err
			})
			t.Cleanup(func() { second.Close() })
			begin, last := int64(-1), int64(0)
			err = files.Of(second).Upload(tethertest.Within(t), name, bytes.NewReader(test.data), int64(len(test.data)), files.UploadOptions{ID: "u", Progress: func(done, _ int64) {
				if begin < 0 {
					begin = done
				}
				if done == 0 {
					last = 0
				}
				last = max(last, done)
			}})
			if err != nil || last != int64(len(test.data)) || test.resumes && begin < arrived {
				t.Errorf("%v; from %d to %d", err, begin, last)
			}
			wantFile(t, name, test.data)
			// The same bytes are not sent again; other bytes are.
			for _, data := range [][]byte{test.data, append([]byte("x"), test.data[1:]...)} {
				if err := files.Of(second).Upload(tethertest.Within(t), name, bytes.NewReader(data), int64(len(data)), files.UploadOptions{ID: "u"}); err != nil {
					t.Error(err)
				}
				wantFile(t, name, data)
			}
			tethertest.Eventually(t, func() error { // Upload does not wait for the answer to the abort
				if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
					return fmt.Errorf("there are %v, %v", left, err)
				}
				return nil
			})
		})
	}
}

// If the source is too short, or changes, the target is not changed.
func TestFailedUploadKeepsTarget(t *testing.T) {
	t.Parallel()
	remote, ctx := filesOf(t), tethertest.Within(t)
	name := writeLocal(t, []byte("old"))
	if err := remote.Upload(ctx, name, strings.NewReader("short"), 10<<20, files.UploadOptions{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short source: %v", err)
	}
	wantFile(t, name, []byte("old"))
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

func TestUploadEmpty(t *testing.T) {
	t.Parallel()
	remote := filesOf(t)
	name := writeLocal(t, []byte("old"))
	if err := remote.Upload(tethertest.Within(t), name, strings.NewReader(""), 0, files.UploadOptions{}); err != nil {
		t.Error(err)
	}
	wantFile(t, name, nil)
}

// On a server without uploads the file is filled, and after a cut it is filled from the start.
func TestUploadToPlainServer(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	tethertest.Plain(line)
	c := dial(t, line.URL(), client.Options{})
	if c.Has(client.FeatureUpload) {
		t.Fatal("the server has uploads")
	}
	cut := line.On(cable.FromServer, cable.Answer("fs/writeBlock").Nth(3), cable.SeverBefore)
	data, name := tethertest.PatternBytes(t, 9<<20+1), filepath.Join(t.TempDir(), "file")
	if err := files.Of(c).WriteFile(tethertest.Within(t), name, data); err != nil {
		t.Fatal(err)
	}
	wantFile(t, name, data)
	if cut.Count() != 1 || c.Status().Connection != 2 {
		t.Errorf("%d cuts, %d connections", cut.Count(), c.Status().Connection)
	}
	if err := files.Of(c).Upload(tethertest.Within(t), name, strings.NewReader("small"), 5, files.UploadOptions{}); err != nil {
		t.Error(err)
	}
	wantFile(t, name, []byte("small"))
	if got, err := files.Of(c).ReadFile(tethertest.Within(t), writeLocal(t, data)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("ReadFile: %d bytes, %v", len(got), err)
	}
}

// A change whose answer was lost is not repeated, and the error is ErrAmbiguous.
func TestAmbiguousChange(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, line.URL(), client.Options{})
	remote, ctx, name := files.Of(c), tethertest.Within(t), filepath.Join(t.TempDir(), "file")
	line.On(cable.FromServer, cable.Answer("fs/writeFile"), cable.SeverBefore)
	if err := remote.WriteFile(ctx, name, []byte("x")); !errors.Is(err, client.ErrAmbiguous) {
		t.Errorf("WriteFile: %v", err)
	}
	reads := line.On(cable.FromServer, cable.Answer("fs/readFile"), cable.SeverBefore)
	if got, err := remote.ReadFile(ctx, name); string(got) != "x" || err != nil {
		t.Errorf("ReadFile: %q, %v", got, err)
	}
	if reads.Count() != 1 {
		t.Errorf("the connection was cut %d times", reads.Count())
	}
}
