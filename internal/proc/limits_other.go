//go:build !linux

package proc

import (
	"errors"
	"runtime"
)

func (c *child) releaseTree(view tableView) bool { return c.tree.release(view) }

// decideLimits says how each limit is enforced, or which one cannot be.
func decideLimits(limits Limits, bestEffort bool) (e Enforced, err error) {
	e.Limits = limits
	for i, value := range limits {
		switch {
		case value == 0:
		case Limit(i) == LimitTime:
			e.By[i] = ByTimer
		case !bestEffort:
			err = errors.Join(err, unsupportedLimit(Limit(i)))
		}
	}
	return e, err
}

func unsupportedLimit(l Limit) error {
	return &LimitError{l, "this is not implemented on " + runtime.GOOS, "Leave the limit out."}
}

// MachineLimits are the largest limits that mean something on this machine; 0: unknown.
func MachineLimits() (most Limits) { return most }

func (*host) limitSupport() (s LimitSupport) {
	for i := range LimitCount {
		if Limit(i) != LimitTime {
			s.Missing[i] = unsupportedLimit(Limit(i))
		}
	}
	s.By[LimitTime] = ByTimer
	return s
}

func (*host) checkLimits(limits Limits) error {
	_, err := decideLimits(limits, false)
	return err
}

// totalErr is never asked without limits, which cannot be enforced here.
func (*host) totalErr() error {
	return errors.New("limits of all commands together are not implemented on " + runtime.GOOS)
}
