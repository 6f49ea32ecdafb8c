package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nkeys"
)

// Config says where to connect, and as whom.
type Config struct {
	URL         string       // nats://, tls://, ws:// or wss://; several, separated by commas, are the nodes of a cluster
	Credentials string       // path of a NATS .creds file; "": none
	CAFile      string       // PEM certificates to trust; "": those of the machine
	Name        string       // shown in the hub's list of connections
	Inbox       string       // begins the subjects of answers: fleet.HostInbox(name) or fleet.GatewayInbox; "": the default of NATS
	Log         *slog.Logger // nil: nothing is logged
}

// ErrPlaintext means that a URL would send everything unencrypted to another machine.
var ErrPlaintext = errors.New("without encryption: use tls:// or wss://. Only a loopback address may be plain")

// Check checks what can be checked without I/O.
func (c Config) Check() error {
	_, err := c.urls()
	if err == nil && (strings.ContainsAny(c.Inbox, "*> \t\r\n") || strings.HasSuffix(c.Inbox, ".")) {
		err = fmt.Errorf("%q cannot begin a subject", c.Inbox)
	}
	return err
}

// urls returns the URLs.
func (c Config) urls() ([]*url.URL, error) {
	var list []*url.URL
	for text := range strings.SplitSeq(c.URL, ",") {
		u, err := parseURL(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		if len(list) > 0 && (isWebSocket(u) != isWebSocket(list[0]) || isEncrypted(u) != isEncrypted(list[0]) || u.Path != list[0].Path) {
			return nil, fmt.Errorf("the addresses of a cluster must all have the same scheme and path: %s", c.URL)
		}
		list = append(list, u)
	}
	return list, nil
}

// parseURL checks one URL. Its errors do not repeat a URL with a password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the address of the hub is not a URL: use tls://HOST:PORT")
	}
	if u.User != nil {
		return nil, errors.New("the address of the hub has a user or password: name a file with credentials instead")
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return nil, fmt.Errorf("`%s` is not an address of a hub: use nats://, tls://, ws:// or wss://", text)
	}
	port := u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return nil, fmt.Errorf("`%s` has a wrong port", text)
	}
	switch {
	case u.Hostname() == "":
		return nil, fmt.Errorf("`%s` has no host", text)
	case u.RawQuery != "" || u.Fragment != "" || !isWebSocket(u) && strings.Trim(u.Path, "/") != "":
		return nil, fmt.Errorf("`%s` has more than a host and a port", text)
	case !isEncrypted(u) && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("refusing to connect to `%s` %w", text, ErrPlaintext)
	}
	return u, nil
}

func isWebSocket(u *url.URL) bool { return u.Scheme == "ws" || u.Scheme == "wss" }
func isEncrypted(u *url.URL) bool { return u.Scheme == "tls" || u.Scheme == "wss" }

// isLoopback reports whether a host is certainly this machine.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// checkCredentials reads the file of credentials, so that one that cannot be used is an error at once.
func (c Config) checkCredentials() error {
	if c.Credentials == "" {
		return nil
	}
	if _, err := c.userJWT(); err != nil {
		return err
	}
	_, err := c.sign(nil)
	return err
}

// userJWT and sign are called for each connection, so that credentials that were replaced in the file count.
func (c Config) userJWT() (token string, err error) {
	err = c.readCredentials(func(text []byte) error {
		token, err = nkeys.ParseDecoratedJWT(text)
		return err
	})
	return token, err
}

func (c Config) sign(nonce []byte) (signature []byte, err error) {
	err = c.readCredentials(func(text []byte) error {
		key, err := nkeys.ParseDecoratedUserNKey(text)
		if err != nil {
			return err
		}
		defer key.Wipe()
		signature, err = key.Sign(nonce)
		return err
	})
	return signature, err
}

func (c Config) readCredentials(parse func([]byte) error) error {
	text, err := os.ReadFile(c.Credentials)
	if err != nil {
		return fmt.Errorf("read the credentials: %w", err)
	}
	defer clear(text)
	if parse(text) != nil {
		return fmt.Errorf("the file %s holds no credentials of NATS", c.Credentials)
	}
	return nil
}

// tls returns how encrypted connections are made. The library verifies the server for the host name of the URL.
func (c Config) tls() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile == "" {
		return conf, nil
	}
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificates to trust: %w", err)
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the file %s holds no PEM certificate", c.CAFile)
	}
	return conf, nil
}
