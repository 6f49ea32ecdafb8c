//go:build fleet

package files_test

import (
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/tethertest"
)

// With the tag fleet, the tests of clients run through a gateway.
func init() { tethertest.Front = fleettest.Front }
