//go:build interop

package interop_test

import (
	"flag"
	"testing"
)

var show = flag.Bool("show", false, "log every observation")

// A comparison says what of an exchange must be equal.
type comparison string

const (
	wholeReplies comparison = "replies with the texts of errors, output, exits, ends of connections"
	errorCodes   comparison = "as wholeReplies, but of errors only the code (of programs: the exit status)"
)

// An exchange is one conversation that is played with both servers.
type exchange struct {
	name     string
	compares comparison
	flags    []string // of both servers
	fresh    bool     // needs a server of its own
	play     func(p *player)
	differs  []difference // where tether is meant to differ
}

// A difference is an intended one: what tether does instead, and why.
type difference struct {
	label  string // of the observation, without its number
	reason string
	want   string // tether's observation
}

// TestDifferential plays all exchanges and compares tether with the reference.
func TestDifferential(t *testing.T) {
	for _, group := range [][]exchange{
		handshakeExchanges, envelopeExchanges, paramsExchanges, processExchanges, readExchanges, inputExchanges,
		environExchanges, sessionExchanges, httpExchanges, authExchanges, startupExchanges, stdioExchanges,
	} {
		for _, x := range group {
			t.Run(x.name, func(t *testing.T) { x.run(t) })
		}
	}
}

func (x exchange) run(t *testing.T) {
	if x.compares == "" {
		t.Fatal("the exchange does not say what is compared")
	}
	logs := map[product][]observation{}
	for _, who := range products {
		t.Run(string(who), func(t *testing.T) {
			program(t, who)
			p := &player{t: t, who: who, flags: x.flags}
			switch {
			case x.fresh:
				p.server = startServer(t, who, x.flags...)
				t.Cleanup(p.server.stop)
			default:
				p.server = sharedServer(t, who, x.flags...)
			}
			defer p.close()
			x.play(p)
			logs[who] = p.log
			if *show {
				for _, o := range p.log {
					t.Logf("%s\n\t%s", o.label, o.value)
				}
			}
		})
	}
	if logs[ref] == nil || logs[tether] == nil {
		return
	}
	x.compare(t, logs[ref], logs[tether])
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
	if x.compares == errorCodes {
		return withoutText(value)
	}
	return value
}
