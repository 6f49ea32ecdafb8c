package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// uploaded sends a file in blocks, over a connection that is cut now and then.
func uploaded(t *testing.T, s *tethertest.Server, target string, data []byte, cuts int) {
	t.Helper()
	cable := tethertest.NewCable(t, s.URL)
	c := tethertest.Dial(t, cable.URL())
	session := c.Handshake("").SessionID
	open := map[string]any{"uploadId": "u", "path": wire.PathToURI(target), "size": len(data)}
	const block = 256 << 10
	blocks := (len(data) + block - 1) / block
	cutAt := map[int]bool{}
	for len(cutAt) < cuts {
		cutAt[rand.IntN(blocks)] = true
	}
	var at wire.UploadOpenResult
	c.Must(wire.MethodUploadOpen, open, &at)
	for int(at.Offset) < len(data) {
		if i := int(at.Offset) / block; cutAt[i] {
			delete(cutAt, i)
			// What is on its way may arrive or not.
			c.Ask(wire.MethodUploadWrite, map[string]any{"uploadId": "u", "offset": at.Offset, "chunk": encoded(data[at.Offset:min(int(at.Offset)+block, len(data))])})
			cable.Cut()
			cable.Mend()
			c.Close()
			c = resumed(t, cable.URL(), session)
			c.Must(wire.MethodUploadOpen, open, &at)
			continue
		}
		var wrote wire.UploadWriteResult
		c.Must(wire.MethodUploadWrite, map[string]any{"uploadId": "u", "offset": at.Offset,
			"chunk": encoded(data[at.Offset:min(int(at.Offset)+block, len(data))])}, &wrote)
		at.Offset = wrote.Offset
	}
	sum := sha256.Sum256(data)
	c.Must(wire.MethodUploadCommit, map[string]any{"uploadId": "u", "sha256": hex.EncodeToString(sum[:])}, &wire.Empty{})
	c.Close()
}

// resumed comes back to a session, as soon as the server has noticed that the old
// connection is gone.
func resumed(t *testing.T, url, session string) (c *tethertest.Client) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		c = tethertest.Dial(t, url)
		m := c.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": session})
		if m.Error != nil {
			c.Close()
			return fmt.Errorf("answered %s", m.Raw)
		}
		return nil
	})
	c.Notify("initialized", struct{}{})
	return c
}

func TestUploadSurvivesCuts(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 16<<20+5)
	rand.NewChaCha8([32]byte{1}).Read(data)
	uploaded(t, s, target, data, 10)
	got, err := os.ReadFile(target)
	if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
		t.Errorf("%d bytes arrived of %d: %v", len(got), len(data), err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// An upload that is not committed leaves the old file, and nothing beside it when its
// session is over.
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
