package netproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// A process that asks for unknown hosts as fast as it can causes a limited number of log
// lines, and each decision is still reported.
func TestUnknownHostsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that waiting does not allow more lines
		rules, err := netpolicy.Compile(netpolicy.Settings{Domains: map[string]netpolicy.Access{"*": netpolicy.Allow}})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		decided := 0
		p := New(Config{
			Rules: rules, Log: slog.New(slog.NewTextHandler(&log, nil)), Decided: func(Event) { decided++ },
			Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") },
		})
		defer p.Close()
		const asked = 10 * logBurst
		ask := func(n int) {
			for i := range n {
				q := netpolicy.Query{Protocol: netpolicy.SocksTCP, Host: fmt.Sprintf("h%d.example", i), Port: 80}
				if _, err := p.dial(t.Context(), q, &net.TCPAddr{}); err == nil {
					t.Fatal("an unknown host was dialled")
				}
			}
		}
		ask(asked)
		if lines := strings.Count(log.String(), "\n"); lines != logBurst || decided != asked {
			t.Errorf("%d lines and %d decisions, want %d and %d", lines, decided, logBurst, asked)
		}
		log.Reset()
		time.Sleep(time.Second)
		ask(logsPerSecond)
		lines := strings.SplitAfter(strings.TrimSpace(log.String()), "\n")
		if len(lines) != logsPerSecond || !strings.Contains(lines[0], fmt.Sprintf(" linesLeftOut=%d\n", 2*asked-logBurst)) ||
			strings.Contains(lines[1], "linesLeftOut") {
			t.Errorf("a second later: %q", lines)
		}
	})
}

func TestLimitedLogKeepsAttributes(t *testing.T) {
	var log bytes.Buffer
	limited := LimitLog(slog.New(slog.NewTextHandler(&log, nil)).With("a", 1)).With("b", 2).WithGroup("g")
	for range logBurst + 1 {
		limited.Info("text", "c", 3)
	}
	if got := strings.Count(log.String(), ` msg=text a=1 b=2 g.c=3`+"\n"); got != logBurst {
		t.Errorf("%d lines, want %d: %.200s", got, logBurst, log.String())
	}
}
