package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// eachAccount runs a test as every user: on native sandboxes, and in the second tier of tests on both backends.
func eachAccount(t *testing.T, test func(*testing.T, *account)) {
	t.Helper()
	for _, a := range slices.Concat(suite.accounts, tethertest.Scaled(nil, suite.others)) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

// eachBackend runs a test as every user, on every backend.
func eachBackend(t *testing.T, test func(*testing.T, *account)) {
	t.Helper()
	for _, a := range slices.Concat(suite.accounts, suite.others) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

// mustStart starts the command of a row.
func (s *instance) mustStart(t *testing.T, fx *fixture, r row) *process {
	t.Helper()
	p, err := s.start(r.start(fx))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sameAsUnconfined checks that a probe prints the same without a sandbox.
func sameAsUnconfined(probe string) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, o outcome) {
		t.Helper()
		s := fx.account.acquire(t)
		free := s.mustStart(t, fx, row{policy: unconfined(), probe: probe}).finish(t)
		if o.all != free.all {
			t.Errorf("%s says %q, and %q without a sandbox", probe, o.all, free.all)
		}
	}
}

// exactly checks that the lines of standard output are these, in any order.
func exactly(lines ...string) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, o outcome) {
		t.Helper()
		want := strings.Split(fx.path(strings.Join(lines, "\n")), "\n")
		got := strings.Split(strings.TrimSuffix(o.stdout, "\n"), "\n")
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
