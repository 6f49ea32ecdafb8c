package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A browser that the gateway has let in chooses its host as a client does. Hosts learn that it may only watch.
func TestGatewayConsole(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{Console: &console.Config{ReadOnly: true}}, "")
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "one"}})
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "two"}})
	awaitHosts(t, gate.URL, "one", "two")
	if dial(t, gate.URL, client.Options{}).Has(client.FeatureConsole) {
		t.Error("a host lets browsers of the gateway in")
	}
	code, err := client.ConsoleCode(t.Context(), gate.URL, client.Options{})
	if err != nil || !code.ReadOnly || code.ExpiresMs != 60_000 {
		t.Fatalf("%+v, %v", code, err)
	}
	origin := "http" + strings.TrimPrefix(gate.URL, "ws")
	b := tethertest.Browse(t, origin, code.Code)
	for _, name := range []string{"two", "one"} {
		ws, err := b.Dial(t.Context(), "&host="+name)
		if err != nil {
			t.Fatal(err)
		}
		conn := tethertest.NewConn(ws, nil)
		var got wire.InitializeResult
		err = conn.Call(t.Context(), "initialize", map[string]any{"clientName": "test"}, &got)
		if err != nil || got.Tether.Host != name || !got.Tether.ReadOnly {
			t.Errorf("host %s: %+v, %v", name, got.Tether, err)
		}
		conn.Close()
	}
	stranger := *b
	stranger.Key = ""
	if _, err := stranger.Dial(t.Context(), "&host=one"); err == nil {
		t.Error("a browser without a key gets in")
	}
}

// No page can ask for a code, and no client that may not connect.
func TestCodesAreForClients(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	issuer := tethertest.NewIssuer(t)
	on := issuer.Listen()
	on.Console = &console.Config{}
	guarded, open := f.Gateway(on, ""), f.Gateway(listen.Config{Console: &console.Config{}}, "")
	_, err := client.ConsoleCode(t.Context(), guarded.URL, client.Options{})
	if refused, ok := errors.AsType[*client.UpgradeError](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("without a token: %v", err)
	}
	if _, err := client.ConsoleCode(t.Context(), guarded.URL, client.Options{Token: issuer.Token("alice")}); err != nil {
		t.Error(err)
	}
	if _, err := client.ConsoleCode(t.Context(), f.Gateway(listen.Config{}, "").URL, client.Options{}); !errors.Is(err, client.ErrNoConsole) {
		t.Errorf("of a gateway without a console: %v", err)
	}
	origin := "http" + strings.TrimPrefix(open.URL, "ws")
	for what, edit := range map[string]func(*http.Request){
		"the console's own page": func(r *http.Request) { r.Header.Set("Origin", origin) },
		"another page":           func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"a page without Origin":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") },
		"DNS rebinding":          func(r *http.Request) { r.Host = "evil.example" },
	} {
		r, err := http.NewRequest(http.MethodPost, origin+console.PathCode, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		edit(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %v", what, answer.Status)
		}
	}
}
