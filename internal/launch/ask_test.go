package launch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Only a valid answer of the client is a permission. Failures are logged, except for a
// missing client.
func TestAskerAllowsOnlyAClearAnswer(t *testing.T) {
	for _, row := range []struct {
		name, result  string
		err           error
		allowed, open bool
		reason        string
		logged        bool
	}{
		{name: "allow", result: `{"decision":{"type":"allow"}}`, allowed: true},
		{name: "ask", result: `{"decision":{"type":"ask","reason":"later"}}`, open: true, reason: "later"},
		{name: "deny", result: `{"decision":{"type":"deny","reason":""}}`, reason: "policy_denied"},
		{name: "unprintable", result: `{"decision":{"type":"deny","reason":"a\u0007b"}}`, reason: netpolicy.NotAllowed},
		{name: "long", result: `{"decision":{"type":"deny","reason":"` + strings.Repeat("x", maxReason+1) + `"}}`, reason: netpolicy.NotAllowed},
		{name: "malformed", result: `{"decision":"allow"}`, reason: netpolicy.NotAllowed, logged: true},
		{name: "error", err: errors.New("broken"), reason: netpolicy.NotAllowed, logged: true},
		{name: "no client", err: ErrNoClient, reason: netpolicy.NotAllowed},
	} {
		t.Run(row.name, func(t *testing.T) {
			var log bytes.Buffer
			owner := Owner{Ask: func(context.Context, string, any) (wire.RawValue, error) { return wire.RawValue(row.result), row.err }}
			a := newAsker("p", 1000, owner, slog.New(slog.NewTextHandler(&log, nil)))
			d, err := a.ask(t.Context(), netpolicy.Query{Protocol: netpolicy.HTTP, Host: "example.test", Port: 80})
			if err != nil || d.Allowed != row.allowed || d.Open != row.open || d.Reason != row.reason {
				t.Errorf("%+v, %v", d, err)
			}
			if logged := log.Len() > 0; logged != row.logged {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

// One process cannot use up all questions that a client accepts.
func TestAskerBoundsItsQuestions(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	owner := Owner{Ask: func(context.Context, string, any) (wire.RawValue, error) {
		asked <- struct{}{}
		<-answer
		return wire.RawValue(`{"decision":{"type":"allow"}}`), nil
	}}
	a := newAsker("p", 1000, owner, slog.New(slog.DiscardHandler))
	decisions := make(chan netpolicy.Decision)
	for range maxQuestions {
		go func() { // ends with its answer, which the test reads
			d, _ := a.ask(context.Background(), netpolicy.Query{})
			decisions <- d
		}()
		<-asked
	}
	if d, _ := a.ask(t.Context(), netpolicy.Query{}); d.Allowed {
		t.Error("one question more is allowed")
	}
	close(answer)
	for range maxQuestions {
		if d := <-decisions; !d.Allowed {
			t.Errorf("%+v", d)
		}
	}
}
