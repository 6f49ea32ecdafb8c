package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

func TestUploadSurvivesCuts(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	sum := tethertest.Upload(t, s.URL, target, 1, 16<<20+5, 256<<10, 10)
	got, err := os.ReadFile(target)
	if err != nil || sha256.Sum256(got) != sum {
		t.Errorf("%d bytes arrived, and are others: %v", len(got), err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// An upload that is not committed leaves the old file unchanged, and leaves nothing
// beside it when its session ends.
func TestUploadIsAllOrNothing(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := tethertest.Connect(t, s.URL)
	c.Must(wire.MethodUploadOpen, map[string]any{"uploadId": "u", "path": wire.PathToURI(target), "size": 10}, &wire.UploadOpenResult{})
	c.Must(wire.MethodUploadWrite, map[string]any{"uploadId": "u", "offset": 0, "chunk": encoded([]byte("01234"))}, &wire.UploadWriteResult{})
	sum := sha256.Sum256([]byte("0123456789"))
	if m := c.Call(wire.MethodUploadCommit, map[string]any{"uploadId": "u", "sha256": hex.EncodeToString(sum[:])}); m.Error == nil {
		t.Errorf("half an upload was committed: %s", m.Raw)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "old" {
		t.Errorf("the target is %q, %v", got, err)
	}
	c.Close()
	s.Stop()
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}
