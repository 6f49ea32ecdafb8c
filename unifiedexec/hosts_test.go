package unifiedexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// site starts a web server on a loopback address and returns its host and port.
func site(t *testing.T) (host string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// fetch prints the status of requests to hosts, through the proxy of the network.
func fetch(hosts ...string) string {
	var b strings.Builder
	for _, host := range hosts {
		fmt.Fprintf(&b, "curl -s -o /dev/null -w '%%{http_code}\\n' --noproxy '' http://%s/;", host)
	}
	return b.String()
}

// withHosts is an environment in which commands reach no host without a question.
func withHosts(c *Config) {
	sandboxed(WorkspaceWrite(), granular)(c)
	c.Environments[0].Network = &client.Network{AllowLocal: true}
}

// A command waits while the user is asked about a host, and goes on with the answer.
func TestHostIsAskedAbout(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	first, second := site(t), site(t)
	r := newRig(t, withHosts)
	r.answer = func(q Question) Decision {
		if q.Host == first {
			return Approved
		}
		return Declined
	}
	got := r.exec(ExecArgs{Cmd: fetch(first, first, second, second) + "exit 3", CallID: "c1", Login: ptr(false), YieldTimeMs: ptr[int64](atEnd)})
	if got.Output != "200\n200\n403\n403\n" || got.Denied || *got.ExitCode != 3 {
		t.Errorf("%s", got.Text())
	}
	if want := []string{"the user did not let the command reach " + second}; !slices.Equal(got.Notes, want) {
		t.Errorf("notes %q, want %q", got.Notes, want)
	}
	asked := r.questions()
	if len(asked) != 2 || asked[0].Host != first || asked[1].Host != second || asked[0].CallID != "c1" || asked[0].Cwd != r.workspace || asked[0].Retry || asked[0].Keep {
		t.Fatalf("asked %+v", asked)
	}

	// An approval counts for one command.
	if got := r.sh(fetch(first)); got.Output != "200\n" || len(r.questions()) != 3 {
		t.Errorf("%d questions\n%s", len(r.questions()), got.Text())
	}
	if n := len(r.executor.starts()); n != 2 {
		t.Errorf("%d starts", n)
	}
}

// An approval for the session counts for commands that have asked already, too: the user is asked once.
func TestHostIsAllowedForTheSession(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	host := site(t)
	r := newRig(t, withHosts)
	both := make(chan struct{})
	r.answer = func(Question) Decision { <-both; return ApprovedForSession }
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			if got := r.sh(fetch(host)); got.Output != "200\n" {
				t.Errorf("%s", got.Text())
			}
		})
	}
	close(both)
	calls.Wait()
	if got := r.sh(fetch(host)); got.Output != "200\n" || len(r.questions()) != 1 {
		t.Errorf("%d questions\n%s", len(r.questions()), got.Text())
	}
}

// The user is not asked if the policy has no such questions, and not about hosts in Deny.
func TestHostIsNotAskedAbout(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	host := site(t)
	for name, change := range map[string]func(*Config){
		"on request": func(c *Config) { c.Policy = Policy{Mode: OnRequest} },
		"denied":     func(c *Config) { c.Environments[0].Network.Deny = []string{host} },
	} {
		r := newRig(t, func(c *Config) { withHosts(c); change(c) })
		r.answer = always(Approved)
		if got := r.sh(fetch(host)); got.Output != "403\n" || len(r.questions()) != 0 {
			t.Errorf("%s: %d questions\n%s", name, len(r.questions()), got.Text())
		}
	}
}

// asking is an executor whose processes call a function that can ask about hosts.
func asking(do func(decide func(host string) client.NetworkDecision)) *fake {
	return &fake{sandboxType: "linuxSeccomp", script: func(_ int, p *fakeProcess) {
		do(func(host string) client.NetworkDecision {
			return p.cmd.Network.Decide(context.Background(), wire.NetworkQuestion{Protocol: "http", Host: host, Port: 443})
		})
		p.exits(client.Exit{})
		p.closes()
	}}
}

// A command can ask about so many hosts only.
func TestTooManyHosts(t *testing.T) {
	var last client.NetworkDecision
	r := newRigOn(t, asking(func(decide func(string) client.NetworkDecision) {
		for i := range maxHostQuestions + 1 {
			last = decide(fmt.Sprintf("%d.example", i))
		}
		if again := decide("0.example"); again.Type != "allow" {
			t.Errorf("the answer about the first host became %+v", again)
		}
	}), withHosts)
	r.answer = always(Approved)
	r.sh("x")
	if len(r.questions()) != maxHostQuestions || last != (client.NetworkDecision{Type: "deny", Reason: reasonHostMany}) {
		t.Errorf("%d questions, then %+v", len(r.questions()), last)
	}
}

// A host that is allowed for good is kept. If that fails, it is allowed for the session, and the result says so.
func TestHostIsAllowedForGood(t *testing.T) {
	var kept []string
	var failure error
	r := newRigOn(t, asking(func(decide func(string) client.NetworkDecision) {
		for _, host := range []string{"a.example", "::1"} {
			if d := decide(host); d.Type != "allow" {
				t.Errorf("%s: %+v", host, d)
			}
		}
	}), func(c *Config) {
		withHosts(c)
		c.Environments[0].KeepHost = func(host string) error { kept = append(kept, host); return failure }
	})
	r.answer = func(q Question) Decision {
		if !q.Keep {
			t.Errorf("asked %+v", q)
		}
		return ApprovedForGood
	}
	r.sh("x")
	if want := []string{"a.example:443", "[::1]:443"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	if r.sh("x"); len(r.questions()) != 2 {
		t.Errorf("%d questions", len(r.questions()))
	}
	r.Manager.approvals.hosts, failure = nil, errors.New("the disk is full")
	if got := r.sh("x"); len(got.Notes) != 2 || got.Notes[0] != "a.example:443 is allowed for this session only: the disk is full" {
		t.Errorf("notes %q", got.Notes)
	}
}

// A question is withdrawn when its command ends.
func TestQuestionAboutAHostEndsWithItsCommand(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	t.Parallel()
	host := site(t)
	asked, withdrawn := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(c *Config) {
		withHosts(c)
		c.Approver = ApproverFunc(func(ctx context.Context, _ Question) (Decision, error) {
			close(asked)
			<-ctx.Done()
			close(withdrawn)
			return Approved, nil
		})
	})
	gate := filepath.Join(r.workspace, "gate")
	var calls sync.WaitGroup
	calls.Go(func() {
		r.sh("(" + fetch(host) + ") >/dev/null 2>&1 & until [ -e " + gate + " ]; do sleep 0.01; done")
	})
	<-asked
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Error(err)
	}
	<-withdrawn
	calls.Wait()
}
