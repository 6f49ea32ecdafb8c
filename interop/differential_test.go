//go:build interop

package interop_test

import (
	"flag"
	"testing"
)

var show = flag.Bool("show", false, "log every observation")

// A comparison describes which parts of an exchange must be equal.
type comparison string

const (
	wholeReplies comparison = "replies with the texts of errors, output, exits, ends of connections"
	errorCodes   comparison = "as wholeReplies, but of errors only the code (of programs: the exit status)"
)

// An exchange is one conversation that is played with both servers, or with tether and
// compared with a recording of the reference.
type exchange struct {
	name     string
	compares comparison
	flags    []string                                // of both servers
	fresh    bool                                    // needs a server of its own
	start    func(t testing.TB, who product) *server // starts that server, if it is not an ordinary one
	play     func(p *player)
	differs  []difference // where tether is meant to differ
	varies   []string     // labels of observations of the reference that depend on chance or place
	liveOnly string       // why the reference's observations cannot be recorded; empty: they can
	asRoot   bool         // an ordinary user observes something else: compare with the recording only as root
}

// A difference is an intended difference: what tether does instead, and why.
type difference struct {
	label  string // of the observation, without its number
	reason string
	want   string // tether's observation
}

// TestDifferential plays all exchanges and compares tether with the reference.
func TestDifferential(t *testing.T) {
	t.Parallel()
	for _, group := range [][]exchange{
		handshakeExchanges, envelopeExchanges, paramsExchanges, processExchanges, readExchanges, inputExchanges,
		environExchanges, sessionExchanges, httpExchanges, authExchanges, startupExchanges, stdioExchanges,
	} {
		for _, x := range group {
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				x.run(t)
			})
		}
	}
}

func (x exchange) run(t *testing.T) {
	if x.compares == "" {
		t.Fatal("the exchange does not say what is compared")
	}
	x.compareWith(t, func(t *testing.T, who product) []observation {
		p := &player{t: t, who: who, flags: x.flags}
		switch {
		case x.start != nil:
			p.server = x.start(t, who)
		case x.fresh:
			p.server = startServer(t, who, x.flags...)
			t.Cleanup(p.server.stop)
		default:
			p.server = sharedServer(t, who, x.flags...)
		}
		defer p.close()
		x.play(p)
		return p.log
	})
}

func (x exchange) compare(t *testing.T, reference, ours []observation) {
	for i, want := range reference {
		if i >= len(ours) {
			t.Errorf("%s: tether's exchange ended before it", want.label)
			return
		}
		got := ours[i]
		if got.label != want.label {
			t.Fatalf("exchanges diverge at %q (tether: %q)", want.label, got.label)
		}
		if d, ok := x.intended(want.label); ok {
			if x.trim(got.value) != x.trim(d.want) {
				t.Errorf("%s: intended difference (%s)\nwant   %s\ntether %s\nref    %s",
					want.label, d.reason, d.want, got.value, want.value)
			}
			continue
		}
		if x.trim(got.value) != x.trim(want.value) {
			t.Errorf("%s\nref    %s\ntether %s", want.label, want.value, got.value)
		}
	}
	if len(ours) > len(reference) {
		t.Errorf("%s: only tether's exchange has it", ours[len(reference)].label)
	}
}

func (x exchange) intended(label string) (difference, bool) {
	for _, d := range x.differs {
		if label[len("000 "):] == d.label {
			return d, true
		}
	}
	return difference{}, false
}

func (x exchange) trim(value string) string {
	switch x.compares {
	case errorCodes:
		return withoutText(value)
	case headersInAnyOrder:
		return sortHeaders(value)
	}
	return value
}
