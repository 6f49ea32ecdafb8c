package launch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/netproxy"
	"github.com/tetherexec/tether/wire"
)

const (
	maxReason     = 1024            // bytes of the client's reason
	answerGrace   = 5 * time.Second // for the transmission of an answer, in addition to the client's time
	maxAnswerTime = 24 * time.Hour  // limit for the client's time to answer

	// maxQuestions is how many questions about one process may be unanswered. A client
	// has a limit for all questions, and one process must not use it up.
	maxQuestions = 64
)

// An asker asks the client which hosts one process may reach.
type asker struct {
	process string
	owner   Owner
	timeout time.Duration // how long the asker waits for an answer
	log     *slog.Logger
	waiting atomic.Int64 // questions without an answer
}

// newAsker returns an asker for a client that has asked for timeoutMs per answer.
func newAsker(process string, timeoutMs uint64, owner Owner, log *slog.Logger) *asker {
	a := &asker{process: process, owner: owner, timeout: maxAnswerTime, log: netproxy.LimitLog(log)}
	if timeoutMs < uint64(maxAnswerTime/time.Millisecond) {
		a.timeout = time.Duration(timeoutMs)*time.Millisecond + answerGrace
	}
	return a
}

// ask asks the client about a host. Anything but a valid answer is a refusal.
func (a *asker) ask(ctx context.Context, q netpolicy.Query) (netpolicy.Decision, error) {
	denied := netpolicy.Decision{Source: netpolicy.Decider, Reason: netpolicy.NotAllowed}
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > maxQuestions {
		a.log.Warn("too many questions about hosts", "host", q.Host, "port", q.Port)
		return denied, nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	result, err := a.owner.Ask(ctx, wire.MethodNetworkPolicyRequest, wire.NetworkPolicyParams{
		ProcessID: a.process, Request: wire.NetworkQuestion{Protocol: string(q.Protocol), Host: q.Host, Port: q.Port},
	})
	if errors.Is(err, ErrNoClient) {
		return denied, nil
	}
	var answer wire.NetworkPolicyResult
	if err == nil {
		err = wire.Decode(result, &answer)
	}
	if err != nil {
		a.log.Warn("no answer about a host", "host", q.Host, "port", q.Port, "err", err)
		return denied, nil
	}
	if answer.Decision.Type == wire.NetworkAllow {
		return netpolicy.Decision{Allowed: true, Source: netpolicy.Decider}, nil
	}
	reason := answer.Decision.Reason
	if reason == nil || len(*reason) > maxReason || !printable(*reason) {
		return denied, nil
	}
	denied.Open, denied.Reason = answer.Decision.Type == wire.NetworkAsk, *reason
	if denied.Reason == "" {
		denied.Reason = "policy_denied"
	}
	return denied, nil
}

// printable reports whether a text has no control characters.
func printable(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }
