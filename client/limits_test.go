package client_test

import (
	"errors"
	"math"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// The limits of a command are sent, and the answer says what is in force.
func TestLimits(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	if !c.Has(client.FeatureLimits) {
		t.Fatal("the server has no limits")
	}
	files, ms := uint64(50), uint64(200)
	cmd := sh("exec sleep 1000")
	cmd.Limits = &wire.Limits{OpenFiles: &files, TimeMs: &ms}
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if in := p.Limits(); in == nil || in.OpenFiles == nil || *in.OpenFiles != (wire.LimitInForce{Limit: 50, By: wire.ByRlimit}) || in.TimeMs.By != wire.ByTimer || in.MemoryBytes != nil {
		t.Errorf("in force: %+v", in)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Limit != wire.LimitTimeMs {
		t.Errorf("%+v, %v", exit, err)
	}
}

// Limits that cannot be sent are refused.
func TestLimitsThatAreNone(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	zero, nan := uint64(0), wire.Amount(math.NaN())
	for _, limits := range []*wire.Limits{{MemoryBytes: &zero}, {CPUs: &nan}} {
		cmd := sh("true")
		cmd.Limits = limits
		if _, err := c.Start(t.Context(), cmd); err == nil {
			t.Errorf("%+v is accepted", limits)
		}
	}
}

// A server that does not announce limits would ignore them. So it is not asked, unless the limits are a best effort.
func TestLimitsOfAnotherServer(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	tethertest.Plain(line)
	c := dial(t, line.URL(), client.Options{})
	files, yes := uint64(50), true
	cmd := sh("exit 3")
	cmd.Limits = &wire.Limits{OpenFiles: &files}
	if _, err := c.Start(t.Context(), cmd); !errors.Is(err, client.ErrUnsupported) {
		t.Errorf("started with %v", err)
	}
	cmd.Limits.BestEffort = &yes
	if exit, err := start(t, c, cmd).Wait(tethertest.Within(t)); err != nil || exit.Code != 3 {
		t.Errorf("%+v, %v", exit, err)
	}
}
