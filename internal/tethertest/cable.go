package tethertest

import (
	"context"
	"testing"

	"github.com/tetherexec/tether/internal/cable"
)

// LayCable makes a cable to a server. It ends with the test.
func LayCable(t testing.TB, target string) *cable.Cable {
	t.Helper()
	return LayCableWith(t, cable.Config{Target: target})
}

// LayCableWith is LayCable with more settings.
func LayCableWith(t testing.TB, cfg cable.Config) *cable.Cable {
	t.Helper()
	c, err := cable.Lay(context.Background(), cfg)
	if err != nil {
		t.Fatalf("cable: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Plain makes the server behind a cable look like the reference: it removes tether's additions.
func Plain(c *cable.Cable) {
	c.On(cable.FromServer, cable.Answer("initialize").Always(), cable.Amend(func(members map[string]any) {
		if result, ok := members["result"].(map[string]any); ok {
			delete(result, "tether")
		}
	}))
}
