//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A messageTap keeps every message between client and executor.
type messageTap struct {
	mu       sync.Mutex
	messages []cable.Message
}

func (m *messageTap) tap(message cable.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.messages = append(m.messages, message)
}

// of returns the messages of a method, in order.
func (m *messageTap) of(method string) []cable.Message {
	return m.where(func(message cable.Message) bool { return message.Method == method })
}

// answers returns the answers of the client to requests of the server.
func (m *messageTap) answers() []cable.Message {
	return m.where(func(message cable.Message) bool {
		return message.From == cable.FromClient && message.AnswerTo != ""
	})
}

func (m *messageTap) where(match func(cable.Message) bool) (found []cable.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.messages {
		if match(message) {
			found = append(found, message)
		}
	}
	return found
}

// A networkRun is one turn of the real client with its network proxy on.
type networkRun struct {
	wire           messageTap
	model          *model
	stdout, stderr string
}

// proxyConfig turns the client's network proxy on.
const proxyConfig = `
[sandbox_workspace_write]
network_access = true
exclude_slash_tmp = true
exclude_tmpdir_env_var = true
[features.network_proxy]
enabled = true
allow_local_binding = true
[features.network_proxy.domains]
"127.0.0.1" = "allow"
"localhost" = "allow"
"denied.example" = "deny"
`

// runNetworkCodex has the client run commands, with this configuration of approvals and more tables. A client that has refused a
// host itself does not wait for the executor's report, so the model ends the turn when all decisions were reported.
func runNetworkCodex(t *testing.T, who product, approvals, tables string, decisions int, each ...string) *networkRun {
	t.Helper()
	client := program(t, ref)
	server := startServer(t, who)
	t.Cleanup(server.stop)
	r := &networkRun{}
	line := tethertest.LayCableWith(t, cable.Config{Target: server.url, Tap: r.wire.tap})
	toldDecision := line.On(cable.FromServer, cable.Method("network/policyDecision").Always())
	script := commands(each...)
	r.model = newModel(t, func(turn int, outputs []string) modelItem {
		if turn > len(each) {
			ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
			defer cancel()
			_ = toldDecision.Await(ctx, decisions) // wantDecisions counts them
		}
		return script(turn, outputs)
	})
	service := withReviewer(t, r.model)
	home := codexHome(t, service.URL)
	path := filepath.Join(home, "codex", "config.toml")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(config), `sandbox_mode = "danger-full-access"`, `sandbox_mode = "workspace-write"`, 1)
	text = strings.Replace(text, `approval_policy = "never"`, approvals, 1)
	if err := os.WriteFile(path, []byte(text+tables), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), codexTimeout)
	defer cancel()
	cmd := codexExec(ctx, client, home, line.URL())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(cmd.Env, "RUST_LOG=error,codex_otel.log_only=info") // where decisions are logged
	err = cmd.Run()
	line.Close() // after this nothing more is recorded
	r.stdout, r.stderr = out.String(), errs.String()
	if err != nil {
		t.Errorf("codex exec: %v\n%s\n%s", err, shorten(r.stdout), r.stderr)
	}
	return r
}

// reviewerAllows is the host that the reviewer lets commands reach.
const reviewerAllows = "pub.example"

// withReviewer serves a model, and a second model that the client uses to review questions about hosts. The client expects an answer
// of a given form.
func withReviewer(t *testing.T, m *model) *httptest.Server {
	verdict := func(outcome string) *model {
		return newModel(t, func(int, []string) modelItem {
			return say(canonical(map[string]string{"risk_level": "low", "user_authorization": "high", "outcome": outcome, "rationale": "as the test says"}))
		})
	}
	allow, deny := verdict("allow"), verdict("deny")
	hostMember := []byte(`\"host\": \"`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case !bytes.Contains(body, []byte(`"json_schema"`)):
			m.ServeHTTP(w, r)
		case bytes.HasPrefix(body[bytes.LastIndex(body, hostMember)+len(hostMember):], []byte(reviewerAllows)): // those before it are older
			allow.ServeHTTP(w, r)
		default:
			deny.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// starts decodes the starts of the client.
func (r *networkRun) starts(t *testing.T) (starts []networkStart) {
	t.Helper()
	for _, m := range r.wire.of("process/start") {
		var s networkStart
		if err := json.Unmarshal(m.Params, &s); err != nil {
			t.Fatal(err)
		}
		starts = append(starts, s)
	}
	return starts
}

// A networkStart has the network parameters of a start.
type networkStart struct {
	ProcessID             string
	EnforceManagedNetwork bool
	NetworkProxy          *struct {
		PolicyDecisionTimeoutMs int
		Proxy                   struct {
			Enabled bool
			Domains map[string]string
		}
	}
}

// A clientDecision is the report to the client about an attempt.
type clientDecision struct {
	ProcessID, Decision, Source, Reason, Protocol, Host string
	PolicyOverride                                      bool
}

// wantDecisions checks the reports of the server and that the client has logged each. If the client has refused a host itself, it may
// have forgotten the process by then and log nothing.
func (r *networkRun) wantDecisions(t *testing.T, want ...clientDecision) {
	t.Helper()
	var got []clientDecision
	for _, m := range r.wire.of("network/policyDecision") {
		var d clientDecision
		if err := json.Unmarshal(m.Params, &d); err != nil {
			t.Fatal(err)
		}
		got = append(got, d)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the client was told\n%+v, want\n%+v", got, want)
	}
	var logged []string
	for line := range strings.Lines(r.stderr) {
		if strings.Contains(line, `event.name="codex.network_proxy.policy_decision"`) {
			logged = append(logged, line)
		}
	}
	for _, d := range want {
		if len(logged) == 0 || !strings.Contains(logged[0], fmt.Sprintf("server.address=%q", d.Host)) {
			if d.Decision != "deny" || d.Source != "decider" {
				t.Errorf("the client has not logged %+v:\n%s", d, r.stderr)
			}
			continue
		}
		for _, part := range []string{fmt.Sprintf("network.policy.decision=%q", d.Decision), fmt.Sprintf("network.policy.reason=%q", d.Reason)} {
			if !strings.Contains(logged[0], part) {
				t.Errorf("no %s in the log of the client: %s", part, logged[0])
			}
		}
		logged = logged[1:]
	}
	if len(logged) > 0 {
		t.Errorf("the client has logged more: %s", logged)
	}
}

// wantShown checks the nth tool output that the model was shown.
func (r *networkRun) wantShown(t *testing.T, n int, parts ...string) {
	t.Helper()
	r.model.mu.Lock()
	defer r.model.mu.Unlock()
	if len(r.model.outputs) < n {
		t.Fatalf("the model was shown %d outputs, want %d", len(r.model.outputs), n)
	}
	for _, part := range parts {
		if !strings.Contains(r.model.outputs[n-1], part) {
			t.Errorf("no %q in what the model was shown:\n%s", part, r.model.outputs[n-1])
		}
	}
}

// TestNetworkCodex has the real client run a command that may reach one host but not two others. The client asks the executor for a
// proxy with its rules and gets a report about each decision.
func TestNetworkCodex(t *testing.T) {
	t.Parallel()
	inNamespace(t, func(t *testing.T) {
		onProducts(t, func(t *testing.T, who product) {
			site := httptest.NewServer(http.HandlerFunc(greet))
			defer site.Close()
			r := runNetworkCodex(t, who, `approval_policy = "never"`, proxyConfig, 3,
				curl("--noproxy ''", site.URL, "http://denied.example/", "http://other.example/")+curl("--noproxy '*'", site.URL))

			starts := r.starts(t)
			if len(starts) != 1 {
				t.Fatalf("%d starts, want 1", len(starts))
			}
			s := starts[0]
			if p := s.NetworkProxy; !s.EnforceManagedNetwork || p == nil || !p.Proxy.Enabled || p.PolicyDecisionTimeoutMs != 0 ||
				!maps.Equal(p.Proxy.Domains, map[string]string{"127.0.0.1": "allow", "localhost": "allow", "denied.example": "deny"}) {
				t.Errorf("the client asked for %+v", s)
			}
			r.wantDecisions(t,
				clientDecision{s.ProcessID, "allow", "baseline_policy", "allow", "http", "127.0.0.1", false},
				clientDecision{s.ProcessID, "deny", "baseline_policy", "denied", "http", "denied.example", false},
				clientDecision{s.ProcessID, "deny", "baseline_policy", "not_allowed", "http", "other.example", false})
			if asked := r.wire.of("network/policyRequest"); len(asked) != 0 {
				t.Errorf("the client was asked %+v", asked)
			}
			r.wantShown(t, 1, "Process exited with code 7", "hello GET /", "200 0\n", `"host":"denied.example","reason":"denied"`, "403 0\n",
				`"host":"other.example","reason":"not_allowed"`, "000 7\n") // the last one is the direct way
		})
	})
}

// reviewedNetwork is the system configuration that makes the client review hosts.
const reviewedNetwork = `[experimental_network]
enabled = true
[experimental_network.domains]
"allowed.example" = "allow"
`

// TestNetworkCodexAsks has the real client decide about hosts that no rule names: the
// executor asks it, and it asks its reviewer.
func TestNetworkCodexAsks(t *testing.T) {
	t.Parallel()
	inNamespace(t, func(t *testing.T) {
		openWorld(t)
		if err := os.MkdirAll("/etc/codex", 0o755); err != nil {
			t.Fatal(err)
		}
		requirements := "/etc/codex/requirements.toml" // of the namespace alone
		if err := os.WriteFile(requirements, []byte(reviewedNetwork), 0o644); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(requirements)
		onProducts(t, func(t *testing.T, who product) {
			r := runNetworkCodex(t, who, "approval_policy = \"on-request\"\napprovals_reviewer = \"auto_review\"", proxyConfig, 2,
				curl("", "http://"+reviewerAllows+"/"), curl("", "http://other.example/"))

			starts := r.starts(t)
			if len(starts) != 2 {
				t.Fatalf("%d starts, want 2", len(starts))
			}
			for _, s := range starts {
				if s.NetworkProxy == nil || s.NetworkProxy.PolicyDecisionTimeoutMs == 0 {
					t.Errorf("the client does not want to be asked: %+v", s)
				}
			}
			asked, answers := r.wire.of("network/policyRequest"), r.wire.answers()
			if len(asked) != 2 || len(answers) != 2 {
				t.Fatalf("%d questions and %d answers, want 2 each: %+v %+v", len(asked), len(answers), asked, answers)
			}
			for i, want := range []string{`"allow"`, `"deny"`} {
				if !strings.Contains(string(answers[i].Result), want) || answers[i].ID != asked[i].ID {
					t.Errorf("question %d %s was answered %s %s, want %s", i, asked[i].ID, answers[i].ID, answers[i].Result, want)
				}
			}
			r.wantDecisions(t,
				clientDecision{starts[0].ProcessID, "allow", "decider", "not_allowed", "http", reviewerAllows, true},
				clientDecision{starts[1].ProcessID, "deny", "decider", "not_allowed", "http", "other.example", false})
			r.wantShown(t, 1, "Process exited with code 0", "hello GET / host="+reviewerAllows, "200 0\n")
			r.wantShown(t, 2, "as the test says")
		})
	})
}
