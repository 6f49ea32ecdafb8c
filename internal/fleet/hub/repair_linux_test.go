package hub

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
)

// If the disk is full, the hub says so. When it has room again, the directory can be written without help, and has what it had.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("a small disk needs root: ", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	h := openHub(t, func(c *Config) { c.Dir, c.Listen = dir, freePorts(t, 1)[0] })
	conn := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	js := buckets(t, conn)
	key := fleet.KeySubject(fleet.SessionsBucket, "k")
	if _, err := js.Publish(t.Context(), key, []byte("v")); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	put := func(ctx context.Context) error {
		_, err := js.Publish(ctx, fleet.KeySubject(fleet.SessionsBucket, fleet.NewID()), bytes.Repeat([]byte("x"), 64<<10))
		return err
	}
	for h.Health() == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := put(ctx); err != nil {
			t.Log(err)
		}
		cancel()
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the directory can be written again", put)
	s, err := js.Stream(t.Context(), fleet.Stream(fleet.SessionsBucket))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetLastMsgForSubject(t.Context(), key); err != nil || string(m.Data) != "v" {
		t.Error(m, err)
	}
	if err := h.Health(); err != nil {
		t.Error(err)
	}
}
