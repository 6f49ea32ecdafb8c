package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// A new key of the issuer is fetched when the first token needs it, and a key that the issuer has withdrawn is forgotten.
func TestRotation(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	old, next := newKey(t, "old"), newKey(t, "next")
	i.publish(old)
	v, at := i.verifier(Config{})
	name := "oidc:" + i.issuerURL() + "#alice"
	for _, step := range []struct {
		wait    time.Duration
		publish []testKey
		old     string
		next    string
		fetches int // all until then
	}{
		{0, []testKey{old}, name, unknownKey, 1},
		{fetchPause - 1, []testKey{old, next}, name, unknownKey, 1},
		{1, nil, name, name, 2},
		{freshTime - 1, []testKey{next}, name, name, 2},
		{1, nil, unknownKey, name, 3},
		{freshTime, []testKey{old}, name, unknownKey, 4}, // as if the issuer had gone back
	} {
		if at.advance(step.wait); step.publish != nil {
			i.publish(step.publish...)
		}
		if got := check(t, v, i.token(old, nil)); got != step.old {
			t.Errorf("%+v: the old key: %s", step, got)
		}
		if got := check(t, v, i.token(next, nil)); got != step.next {
			t.Errorf("%+v: the next key: %s", step, got)
		}
		if n := i.fetches(); n != step.fetches {
			t.Errorf("%+v: %d fetches", step, n)
		}
	}
}

// A server starts without its issuer, and refuses all tokens until it has keys. Later it goes on for a day with the keys that it has.
func TestIssuerDown(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k, other := newKey(t, "k"), newKey(t, "other")
	i.publish(k)
	i.down()
	v, at := i.verifier(Config{})
	var log bytes.Buffer
	checked := func(k testKey) string {
		t.Helper()
		c, err := v.Verify(t.Context(), i.token(k, nil), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			return err.Error()
		}
		return c.Principal
	}
	name := "oidc:" + i.issuerURL() + "#alice"
	for _, step := range []struct {
		what    string
		wait    time.Duration
		up      bool
		got     string
		other   string // of a token with a key that is not known
		fetches int
		logged  string
	}{
		{"at the start", 0, false, noKeys, noKeys, 1, "level=ERROR msg=\"the keys of the issuer cannot be fetched: no client can log in\""},
		{"no attempt yet", fetchPause - 1, false, noKeys, noKeys, 1, ""},
		{"the next attempt", 1, false, noKeys, noKeys, 2, "level=ERROR"},
		{"not noticed yet", fetchPause - 1, true, noKeys, noKeys, 2, ""},
		{"noticed", 1, true, name, unknownKey, 3, "level=INFO msg=\"the keys of the issuer could be fetched\" keys=1"},
		{"down again", freshTime - 1, false, name, noKeys, 4, "level=WARN msg=\"the keys of the issuer cannot be fetched again: those of before are used\""},
		{"for hours", keptTime - freshTime, false, name, noKeys, 5, "level=WARN"},
		{"for a day", fetchPause, false, noKeys, noKeys, 6, "level=ERROR"},
		{"back", fetchPause, true, name, unknownKey, 7, "level=INFO"},
	} {
		if at.advance(step.wait); step.up {
			i.answer(nil)
		} else {
			i.down()
		}
		log.Reset()
		if got := checked(k); got != step.got {
			t.Errorf("%s: %s", step.what, got)
		}
		if got := checked(other); got != step.other {
			t.Errorf("%s: a token with an unknown key: %s", step.what, got)
		}
		if n := i.fetches(); n != step.fetches {
			t.Errorf("%s: %d fetches, want %d", step.what, n, step.fetches)
		}
		if lines := strings.Count(log.String(), "\n"); lines > 1 || !strings.Contains(log.String(), step.logged) || (lines > 0) != (step.logged != "") {
			t.Errorf("%s: logged %s", step.what, log.String())
		}
	}
}

// together calls f so often at the same time, and returns how often it has returned each text.
func together(n int, f func(i int) string) map[string]int {
	var mu sync.Mutex
	var calls sync.WaitGroup
	texts := map[string]int{}
	for i := range n {
		calls.Go(func() {
			text := f(i)
			mu.Lock()
			defer mu.Unlock()
			texts[text]++
		})
	}
	calls.Wait()
	return texts
}

// However many clients wait, the issuer is asked once, also if the client leaves for which it is asked. A client whose key is known does not wait for it.
func TestSlowIssuer(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k := newKey(t, "k")
	i.publish(k)
	asked, goOn := make(chan struct{}, 10), make(chan struct{})
	i.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == pathKeys {
			asked <- struct{}{}
			<-goOn
		}
		return false
	})
	v, at := i.verifier(Config{})
	v.keys.patience = time.Hour // only a hang would be that long
	token, name := i.token(k, nil), "oidc:"+i.issuerURL()+"#alice"
	slow := make(chan map[string]int)
	ask := func(n int) { slow <- together(n, func(int) string { return check(t, v, token) }) }
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { // ends with the answer
		v.Verify(ctx, token, slog.New(slog.DiscardHandler))
		close(left)
	}()
	<-asked
	leave()
	go ask(20) // ends with the answers
	goOn <- struct{}{}
	if got := <-slow; got[name] != 20 || i.fetches() != 1 {
		t.Errorf("%v, %d fetches", got, i.fetches())
	}
	<-left

	at.advance(freshTime)
	go ask(1) // ends with the answer
	<-asked
	at.advance(fetchPause) // the attempt takes longer than the pause
	for range 10 {
		if got := check(t, v, token); got != name {
			t.Errorf("while the keys are fetched again: %s", got)
		}
	}
	goOn <- struct{}{}
	if got := <-slow; got[name] != 1 || i.fetches() != 2 {
		t.Errorf("%v, %d fetches", got, i.fetches())
	}

	i.answer(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	at.advance(freshTime)
	v.keys.patience = 1
	if got := check(t, v, token); got != name {
		t.Errorf("an issuer that does not answer: %s", got)
	}
	fresh, _ := i.verifier(Config{})
	fresh.keys.patience = 1
	if got := check(t, fresh, token); got != noKeys {
		t.Errorf("an issuer that has never answered: %s", got)
	}
}

// Clients with forged key ids do not make the server ask the issuer more than once per pause, and do not keep others out.
func TestStormOfUnknownKeys(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k, forged := newKey(t, "k"), newKey(t, "forged")
	i.publish(k)
	v, at := i.verifier(Config{})
	name := "oidc:" + i.issuerURL() + "#alice"
	good := i.token(k, nil)
	tokens := make([]string, 100)
	for n := range tokens {
		forged.id = fmt.Sprint("forged-", n)
		tokens[n] = i.token(forged, nil)
	}
	for round := range 3 {
		got := together(2*len(tokens), func(n int) string {
			if n%2 == 0 {
				return check(t, v, good)
			}
			return check(t, v, tokens[n/2])
		})
		if got[name] != len(tokens) || got[unknownKey] != len(tokens) {
			t.Errorf("%v", got)
		}
		if n := i.fetches(); n != round+1 {
			t.Errorf("%d fetches in round %d", n, round)
		}
		at.advance(fetchPause)
	}
}

// What the issuer answers is bounded, and checked before it is used.
func TestAnswersOfTheIssuer(t *testing.T) {
	t.Parallel()
	i := startIssuer(t, httptest.NewServer)
	k := newKey(t, "k")
	i.publish(k)
	token, name := i.token(k, nil), "oidc:"+i.issuerURL()+"#alice"
	usable, err := json.Marshal(jose.JSONWebKey{Key: k.signer.Public(), KeyID: "k"})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := json.Marshal(jose.JSONWebKey{Key: k.signer, KeyID: "k"})
	if err != nil {
		t.Fatal(err)
	}
	encrypting, err := json.Marshal(jose.JSONWebKey{Key: k.signer.Public(), KeyID: "k", Use: "enc"})
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int) string {
		return `{"keys":[` + strings.Repeat(string(usable)+",", n-1) + string(usable) + `]}`
	}
	discovery := func(issuer, keys string) string { return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, keys) }
	for what, tt := range map[string]struct {
		discovery, keys string // "": the usual one
		logged          string // a part of the error; "": it is accepted
	}{
		"the usual":                       {"", "", ""},
		"keys of other kinds beside":      {"", `{"keys":[{"kty":"oct","kid":"k","k":"c2VjcmV0"},{"kty":"new"},5,` + string(encrypting) + "," + string(usable) + `]}`, ""},
		"as many keys as possible":        {"", many(maxKeys), ""},
		"too many keys":                   {"", many(maxKeys + 1), "limit reached: 64 keys, the issuer has 65"},
		"no keys":                         {"", `{"keys":[]}`, "the issuer has no key for signatures of tokens"},
		"only shared secrets":             {"", `{"keys":[{"kty":"oct","kid":"k","k":"c2VjcmV0"}]}`, "the issuer has no key for signatures of tokens"},
		"only a key for encryption":       {"", `{"keys":[` + string(encrypting) + `]}`, "the issuer has no key for signatures of tokens"},
		"a private key":                   {"", `{"keys":[` + string(secret) + `]}`, "the issuer has no key for signatures of tokens"},
		"keys that are no JSON":           {"", "<html>", "the document with the keys cannot be read"},
		"a large document with keys":      {"", `{"keys":[` + string(usable) + `],"x":"` + strings.Repeat("x", maxDocument) + `"}`, "too large"},
		"a large discovery document":      {`{"x":"` + strings.Repeat("x", maxDocument) + `"}`, "", "too large"},
		"the document of another issuer":  {discovery(i.URL, i.URL+pathKeys), "", "did not match"},
		"no URL of keys":                  {discovery(i.issuerURL(), ""), "", "fetch the keys of the issuer"},
		"a URL of keys without TLS":       {discovery(i.issuerURL(), "http://192.0.2.1/keys"), "", "does not begin with https://"},
		"a URL of keys on the disk":       {discovery(i.issuerURL(), "file:///etc/passwd"), "", "does not begin with https://"},
		"a discovery that is no JSON":     {"<html>", "", "failed to decode"},
		"a URL that redirects elsewhere":  {discovery(i.issuerURL(), i.URL+"/elsewhere"), "", "302 Found"},
		"a URL where there is nothing":    {discovery(i.issuerURL(), i.URL+"/nothing"), "", "404 Not Found"},
		"a URL with an error in the text": {discovery(i.issuerURL(), "http://127.0.0.1:bad/"), "", "invalid port"},
	} {
		i.answer(func(w http.ResponseWriter, r *http.Request) bool {
			text := ""
			switch r.URL.Path {
			case pathDiscovery:
				text = tt.discovery
			case pathKeys:
				text = tt.keys
			case "/elsewhere":
				http.Redirect(w, r, i.URL+pathKeys, http.StatusFound)
				return true
			}
			if text != "" {
				w.Write([]byte(text))
			}
			return text != ""
		})
		v, _ := i.verifier(Config{})
		var log bytes.Buffer
		c, err := v.Verify(t.Context(), token, slog.New(slog.NewTextHandler(&log, nil)))
		if tt.logged == "" && (err != nil || c.Principal != name) || tt.logged != "" && (err == nil || err.Error() != noKeys || !strings.Contains(log.String(), tt.logged)) {
			t.Errorf("%s: %+v, %v, logged %s", what, c, err, log.String())
		}
	}
}
