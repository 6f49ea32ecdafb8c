// Package soak says how long tests that search for faults by repetition, load or time should run. It imports nothing of
// tether, so that the tests of every package can use it.
package soak

import "os"

// variable is set to 1 by `make soak`.
const variable = "TETHER_SOAK"

// Full reports whether such tests run at full length, as in `make soak`. `make test` runs them short.
func Full() bool { return os.Getenv(variable) == "1" }

// Scaled returns full in make soak and short otherwise: a duration, a number of rounds.
func Scaled[T any](short, full T) T {
	if Full() {
		return full
	}
	return short
}
