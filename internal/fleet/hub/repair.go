package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// repairInterval is how often a hub looks whether its disk has failed.
	repairInterval = 5 * time.Second

	// roomNeeded is how many bytes must be free on the disk before a hub tries again.
	roomNeeded = 1 << 20

	roomFile = "room.tmp"
)

// storeError returns why the server writes nothing more to the directory of the fleet; nil: it does. After an error of the disk the
// server never tries again: requests to write are not answered.
func storeError(s *server.Server) error {
	if !s.JetStreamEnabled() {
		return errors.New("the directory was switched off")
	}
	for _, e := range s.Healthz(&server.HealthzOptions{Details: true}).Errors {
		if strings.Contains(e.Error, "write error") {
			return errors.New(e.Error)
		}
	}
	return nil
}

// repair starts the server again when the disk had no room and now has some, until ctx ends. Clients reconnect.
func (h *Hub) repair(ctx context.Context) {
	tick := time.NewTicker(repairInterval)
	defer tick.Stop()
	broken := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		why := storeError(h.current())
		if why == nil {
			broken = false
			continue
		}
		room := h.findRoom()
		if !broken {
			h.log.Error("the directory of the fleet cannot be written: the hub waits for room on the disk", "err", why, "room", room)
		}
		broken = true
		if room != nil {
			continue
		}
		h.log.Warn("the disk has room: the hub starts again")
		old := h.current()
		old.Shutdown()
		old.WaitForShutdown()
		if err := h.start(ctx); err != nil && ctx.Err() == nil {
			h.log.Error("the hub does not start again yet", "err", err)
		}
	}
}

// findRoom returns nil if the disk has room.
func (h *Hub) findRoom() error {
	name := filepath.Join(h.config.Dir, roomFile)
	err := os.WriteFile(name, make([]byte, roomNeeded), 0o600)
	if err != nil {
		err = fmt.Errorf("no room on the disk: %w", err)
	}
	return errors.Join(err, os.Remove(name))
}
