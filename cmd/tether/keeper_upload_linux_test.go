package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// wantOnly checks that a directory has one file, with this content.
func wantOnly(t *testing.T, path string, data []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%s has %d bytes, not the %d that were sent; %v", path, len(got), len(data), err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("in the directory: %v, %v", list, err)
	}
}

// An upload goes on after its worker has died, with the blocks that were received. A commit that is repeated after
// another death is recognised, and an upload that was aborted stays aborted.
func TestUploadsSurviveWorkers(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	c := tethertest.Dial(t, s.url)
	session := c.Handshake("").SessionID
	next := func() { // another connection, to another worker
		t.Helper()
		s.killWorker(t)
		c = tethertest.Dial(t, s.url)
		c.Handshake(session)
	}
	data := tethertest.PatternBytes(t, 3<<20)
	path := filepath.Join(t.TempDir(), "file")
	open := map[string]any{"uploadId": "u", "path": "file://" + path, "size": len(data), "mode": 0o640}
	write := func(id string, from, to int) {
		t.Helper()
		c.Must(wire.MethodUploadWrite, map[string]any{"uploadId": id, "offset": from, "chunk": data[from:to]}, nil)
	}
	c.Must(wire.MethodUploadOpen, open, nil)
	write("u", 0, 1<<20)
	write("u", 2<<20, 3<<20)
	other := map[string]any{"uploadId": "aborted", "path": "file://" + path, "size": 5}
	c.Must(wire.MethodUploadOpen, other, nil)
	c.Must(wire.MethodUploadAbort, map[string]any{"uploadId": "aborted"}, nil)
	for range 2 {
		next()
		var status wire.UploadStatusResult
		c.Must(wire.MethodUploadStatus, map[string]any{"uploadId": "u"}, &status)
		if status.Offset != 1<<20 || status.Received != 2<<20 || status.Committed {
			t.Fatalf("after the death of its worker: %+v", status)
		}
		if m := c.Call(wire.MethodUploadStatus, map[string]any{"uploadId": "aborted"}); m.Error == nil {
			t.Error("an upload that was aborted is there again")
		}
	}
	var opened wire.UploadOpenResult
	c.Must(wire.MethodUploadOpen, open, &opened)
	if opened.Offset != 1<<20 {
		t.Errorf("opened again: %+v", opened)
	}
	write("u", 1<<20, 2<<20)
	next()
	sum := sha256.Sum256(data)
	commit := map[string]any{"uploadId": "u", "sha256": hex.EncodeToString(sum[:])}
	c.Must(wire.MethodUploadCommit, commit, nil)
	wantOnly(t, path, data)
	next()
	if err := os.WriteFile(path, []byte("changed since"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Must(wire.MethodUploadCommit, commit, nil)
	wantOnly(t, path, []byte("changed since"))
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	c.Must(wire.MethodUploadOpen, map[string]any{"uploadId": "unfinished", "path": "file://" + path, "size": 5}, nil)
	next()
	s.stop(t)
	wantOnly(t, path, []byte("changed since"))
}

// A worker that dies behind any lasting effect of an upload costs nothing, and leaves no file.
func TestUploadKillPoints(t *testing.T) {
	t.Parallel()
	points := tethertest.Scaled([]string{"upload.file:1", "upload.block:2", "upload.moved:1"},
		[]string{"upload.file:1", "upload.block:1", "upload.block:2", "upload.block:3", "upload.moved:1", "keep.hold:1", "keep.drop:1", "keep.drop:2",
			"arena.journal.commit:2", "arena.journal.commit:3", "arena.journal.commit:4", "arena.journal.commit:5", "arena.journal.commit:6", "arena.journal.commit:7"})
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := startKept(t, crash.Variable+"="+point, crash.WorkerVariable+"=1")
			first := s.awaitWorker(t, 0)
			c := dialKept(t, s.url)
			data := tethertest.PatternBytes(t, 3<<20)
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := files.Of(c).Upload(t.Context(), path, bytes.NewReader(data), int64(len(data)), files.UploadOptions{}); err != nil {
				t.Fatal(err)
			}
			s.awaitWorker(t, first)
			wantOnly(t, path, data)
			s.stop(t)
		})
	}
}
