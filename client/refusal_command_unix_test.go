//go:build unix

package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A transport command that ends with its code of refusal is not started again.
func TestRefusalOfATransportCommand(t *testing.T) {
	t.Parallel()
	starts := filepath.Join(t.TempDir(), "starts")
	cmd := client.TransportCommand{Argv: []string{"sh", "-c", "echo >>" + starts + "; exit 86"}, Refusal: 86}
	_, err := client.DialCommand(tethertest.Within(t), cmd, client.Options{Wait: time.Hour})
	if _, refused := errors.AsType[*client.CommandError](err); !refused {
		t.Error(err)
	}
	if text, err := os.ReadFile(starts); err != nil || len(text) != 1 {
		t.Errorf("started %d times, %v", len(text), err)
	}
}
