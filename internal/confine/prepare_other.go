//go:build !linux

package confine

import (
	"context"
	"errors"
	"runtime"

	"github.com/tetherexec/tether/internal/sandbox"
)

var errNoBackend = errors.New("there is no sandbox for " + runtime.GOOS + " yet")

func (c *Confiner) probe(context.Context) Support {
	return Support{Problem: errNoBackend, Advice: "Send the command without `sandbox` to run it unconfined"}
}

func (c *Confiner) probeOne(ctx context.Context, _ Backend) Support { return c.probe(ctx) }

// prepare refuses every plan that has something to enforce.
func (c *Confiner) prepare(_ context.Context, r Request, support Support) (*Prepared, error) {
	policy, plan, err := c.Compile(r, support)
	if err != nil {
		return nil, err
	}
	if plan.Shape != sandbox.ShapeOpen {
		return nil, support.refusal()
	}
	return &Prepared{Spec: r.Spec, Policy: policy, Plan: plan, Unconfined: unconfined(r, plan)}, nil
}
