package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// Limits of what the issuer may answer.
const (
	maxDocument = 256 << 10 // bytes of each of its two documents
	maxHeader   = 64 << 10
	maxKeys     = 64 // each may have to be tried for a token without a key id
)

// checkIssuer refuses a URL that cannot be that of an issuer.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return fmt.Errorf("%q is not the URL of an issuer, like https://issuer.example", issuer)
	case !guarded(u):
		return fmt.Errorf("%s: the URL of an issuer begins with https://, except on this machine", issuer)
	}
	return nil
}

// guarded reports whether no other machine can change what is fetched from a URL.
func guarded(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && a.Unmap().IsLoopback())
}

// newClient returns the client for all requests to the issuer.
func newClient(caFile string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		text, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates for the issuer: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the file %s for the certificates of the issuer holds no PEM certificate", caFile)
		}
	}
	return &http.Client{Transport: bounded{&http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, ForceAttemptHTTP2: true,
		DisableKeepAlives:      true, // the next request comes in minutes
		DisableCompression:     true, // the limit is that of what is decoded
		MaxResponseHeaderBytes: maxHeader,
	}}}, nil
}

// bounded limits what may be fetched, and from where. A redirection is not followed.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if !guarded(r.URL) {
		return nil, errors.New("the URL does not begin with https://")
	}
	answer, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("the answer is %.64q", answer.Status)
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxDocument)
	return answer, nil
}

// fetchKeys asks the issuer where its keys are, and fetches them.
func fetchKeys(ctx context.Context, web *http.Client, issuer string) ([]jose.JSONWebKey, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, web), issuer)
	if err != nil {
		return nil, fmt.Errorf("discover the issuer %s: %w", issuer, err)
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, fmt.Errorf("discover the issuer %s: %w", issuer, err)
	}
	set, err := fetchSet(ctx, web, document.Keys)
	if err != nil {
		return nil, fmt.Errorf("fetch the keys of the issuer %s: %w", issuer, err)
	}
	return set, nil
}

func fetchSet(ctx context.Context, web *http.Client, from string) ([]jose.JSONWebKey, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	answer, err := web.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	return parseSet(text)
}

// parseSet returns the keys of a set with which tokens can be signed. Others, also of kinds that are not known, are left out.
func parseSet(text []byte) ([]jose.JSONWebKey, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("the document with the keys cannot be read: %w", err)
	}
	if n := len(document.Keys); n > maxKeys {
		return nil, fmt.Errorf("limit reached: %d keys, the issuer has %d", maxKeys, n)
	}
	var set []jose.JSONWebKey
	for _, text := range document.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			set = append(set, key)
		}
	}
	if len(set) == 0 {
		return nil, errors.New("the issuer has no key for signatures of tokens")
	}
	return set, nil
}
