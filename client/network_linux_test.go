package client_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// curl prints the status of one request, or the code with which curl fails.
func curl(url string) string {
	return fmt.Sprintf("curl -s -o /dev/null -w '%%{http_code}\\n' %s || echo curl $?\n", url)
}

// site starts a web server on a loopback address and returns its host and port.
func site(t *testing.T) (host string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A command reaches only allowed hosts, and each decision is reported.
func TestNetworkOfACommand(t *testing.T) {
	t.Parallel()
	allowed, other := site(t), site(t)
	var mu sync.Mutex
	var reported []string
	var asked []string
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{
		NetworkPolicy: func(_ context.Context, _ string, q client.NetworkQuestion) client.NetworkDecision {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, fmt.Sprintf("%s:%d", q.Host, q.Port))
			return client.NetworkDecision{Type: "deny", Reason: "not today"}
		},
		OnNetworkDecision: func(d wire.NetworkDecision) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, fmt.Sprintf("%s %s:%d %s", d.Decision, d.Host, d.Port, d.Reason))
		},
	})
	p := start(t, c, client.Command{
		Argv: []string{"/bin/sh", "-c", curl("http://"+allowed+"/") + curl("http://"+other+"/") + curl("http://ask.example/") + curl("--noproxy '*' http://"+allowed+"/")},
		Network: &client.Network{
			Allow: []string{allowed}, Ask: longWait,
		},
	})
	out, err := io.ReadAll(p.Output())
	if err != nil {
		t.Fatal(err)
	}
	if want := "200\n403\n403\n000\ncurl 7\n"; string(out) != want {
		t.Errorf("the command printed %q, want %q", out, want)
	}
	if got, want := p.RefusedHosts(), []string{other, "ask.example:80"}; !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if want := []string{"ask.example:80"}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	if len(reported) != 3 || !strings.HasPrefix(reported[0], "allow "+allowed) || reported[1] != "deny "+other+" not_allowed_local" || reported[2] != "deny ask.example:80 not today" {
		t.Errorf("reported %q", reported)
	}
}

// A command's own function decides about its hosts, and the one of the client about those of others.
func TestNetworkDecidesPerCommand(t *testing.T) {
	t.Parallel()
	host := site(t)
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{
		NetworkPolicy: func(context.Context, string, client.NetworkQuestion) client.NetworkDecision {
			return client.NetworkDecision{Type: "deny", Reason: "not today"}
		},
	})
	allow := func(_ context.Context, q client.NetworkQuestion) client.NetworkDecision {
		if got := net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port))); got != host {
			t.Errorf("asked about %s", got)
		}
		return client.NetworkDecision{Type: "allow"}
	}
	for _, row := range []struct {
		decide func(context.Context, client.NetworkQuestion) client.NetworkDecision
		want   string
	}{{allow, "200\n"}, {nil, "403\n"}} {
		p := start(t, c, client.Command{
			Argv:    []string{"/bin/sh", "-c", curl("--noproxy '' http://" + host + "/")},
			Network: &client.Network{AllowLocal: true, Ask: longWait, Decide: row.decide},
		})
		if out, err := io.ReadAll(p.Output()); string(out) != row.want || err != nil {
			t.Errorf("with its own function %v: the command printed %q, %v; want %q", row.decide != nil, out, err, row.want)
		}
	}
}

// If a start, or its answer, is lost, one command runs, with the network of the start.
func TestNetworkSurvivesALostStart(t *testing.T) {
	t.Parallel()
	allowed, other := site(t), site(t)
	lost := map[string]func(*cable.Cable) *cable.Rule{
		"request": func(c *cable.Cable) *cable.Rule {
			return c.On(cable.FromClient, cable.Method("process/start"), cable.SeverBefore)
		},
		"answer": func(c *cable.Cable) *cable.Rule {
			return c.On(cable.FromServer, cable.Answer("process/start"), cable.SeverBefore)
		},
	}
	url := tethertest.StartServer(t, server.Config{}).URL
	for name, fault := range lost {
		t.Run(name, func(t *testing.T) {
			line := tethertest.LayCable(t, url)
			c := dial(t, line.URL(), client.Options{})
			rule := fault(line)
			p := start(t, c, client.Command{
				Argv:    []string{"/bin/sh", "-c", curl("http://"+allowed+"/") + curl("http://"+other+"/")},
				Network: &client.Network{Allow: []string{allowed}},
			})
			if err := rule.Await(tethertest.Within(t), 1); err != nil {
				t.Fatal(err)
			}
			out, err := io.ReadAll(p.Output())
			if want := "200\n403\n"; string(out) != want || err != nil {
				t.Errorf("the command says %q, %v; want %q", out, err, want)
			}
		})
	}
}

// A network does not weaken the sandbox of the command.
func TestNetworkKeepsTheSandbox(t *testing.T) {
	t.Parallel()
	allowed := site(t)
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	root := wire.SandboxEntry{Access: wire.AccessRead, Path: wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: wire.SpecialRoot}}}
	p := start(t, c, client.Command{
		Argv: []string{"/bin/sh", "-c", curl("http://"+allowed+"/") + "touch here 2>/dev/null || echo no"},
		Sandbox: &wire.Sandbox{WindowsSandboxLevel: wire.WindowsDisabled, WorkspaceRoots: []wire.PathURI{}, Permissions: wire.Permissions{
			Type: wire.PermissionsManaged, Network: wire.NetworkRestricted,
			FileSystem: wire.FileSystemPolicy{Type: wire.FileSystemRestricted, Entries: []wire.SandboxEntry{root}},
		}},
		Network: &client.Network{Allow: []string{allowed}},
	})
	out, err := io.ReadAll(p.Output())
	if want := "200\nno\n"; string(out) != want || err != nil {
		t.Errorf("the command says %q, %v; want %q", out, err, want)
	}
}

// The server refuses bad patterns before it starts anything.
func TestNetworkRefusesBadPatterns(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	_, err := c.Start(tethertest.Within(t), client.Command{Argv: []string{"true"}, Dir: "/", Network: &client.Network{Allow: []string{"https://example.com/"}}})
	if err == nil || !strings.Contains(err.Error(), "invalid network proxy config") {
		t.Errorf("Start: %v", err)
	}
}
