package console

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config describes a console. The zero value has no page and no further origins.
type Config struct {
	// Files returns the files of the page, by name; NAME.gz stands for NAME, compressed. It is called when the page is asked for, until it has succeeded once. nil: there is no page.
	Files func() (map[string][]byte, error)

	ReadOnly bool     // browsers may only watch
	Origins  []string // of the page, besides addresses and localhost: SCHEME://HOST[:PORT]. See CheckOrigin
}

// Validate checks the settings.
func (c Config) Validate() error {
	for _, origin := range c.Origins {
		if err := CheckOrigin(origin); err != nil {
			return err
		}
	}
	return nil
}

// CheckOrigin refuses a text that is not the origin of a page as browsers write it.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || origin != u.Scheme+"://"+strings.ToLower(u.Host) {
		return fmt.Errorf("%q is not the origin of a page, like https://tether.example:8443", origin)
	}
	if u.Port() == defaultPort(u.Scheme) {
		return fmt.Errorf("%q: browsers leave out the port %s of %s", origin, u.Port(), u.Scheme)
	}
	return nil
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// A Grant says as which client a browser is served.
type Grant struct {
	Principal string // see listen.Client
	ReadOnly  bool
	Admin     bool      // see listen.Client
	Expires   time.Time // the browser may open no connection after this time; zero: no such time
	Epoch     uint64    // when the client has authenticated, see [Console.Epoch]; 0: it need not
}

// A Console lets browsers use one listener.
type Console struct {
	config Config
	hosts  []string // of config.Origins, as in the header Host
	page   page

	mu     sync.Mutex
	epoch  uint64 // how often Forget was called
	codes  codes
	logins logins
}

// New returns a console.
func New(c Config) (*Console, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Origins = slices.Clone(c.Origins)
	console := &Console{config: c, page: page{files: c.Files}}
	for _, origin := range c.Origins {
		_, host, _ := strings.Cut(origin, "://")
		console.hosts = append(console.hosts, host)
	}
	return console, nil
}

// Errors of Code.
var (
	// ErrCodes means that too many codes wait to be used.
	ErrCodes = fmt.Errorf("limit reached: %d codes for the console that were not used; try again in a minute", maxCodes)
	// ErrWatcher means that the client may only watch, and that the console would let its browser do the same.
	ErrWatcher = errors.New("this connection is read-only: it cannot let a browser in")
	// ErrForgotten means that the client has authenticated before Forget.
	ErrForgotten = errors.New("tokens or certificates have changed since this connection was opened: it cannot let a browser in")
)

// Epoch is different after each call of Forget. It is never 0.
func (c *Console) Epoch() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch + 1
}

// Forget ends all logins, forgets all codes, and gives no code to clients of an earlier epoch. Connections of browsers live on.
func (c *Console) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	clear(c.codes)
	clear(c.logins)
}

// A Code lets one browser in.
type Code struct {
	Text     string
	Expires  time.Duration // from now
	ReadOnly bool          // the browser may only watch
}

// Code returns a code for the browser of a client.
func (c *Console) Code(asker Grant) (Code, error) {
	if asker.ReadOnly && !c.config.ReadOnly {
		return Code{}, ErrWatcher
	}
	asker.ReadOnly = asker.ReadOnly || c.config.ReadOnly
	c.mu.Lock()
	defer c.mu.Unlock()
	if asker.Epoch != 0 && asker.Epoch != c.epoch+1 {
		return Code{}, ErrForgotten
	}
	text, err := c.codes.add(asker)
	return Code{text, codeTime, asker.ReadOnly}, err
}

// Origin is the first of Config.Origins; "": there is none.
func (c *Console) Origin() string {
	if len(c.config.Origins) == 0 {
		return ""
	}
	return c.config.Origins[0]
}

// URL returns the URL of the page at an origin, for a person with a code. The query is that of the URL of a client, and may be empty.
func URL(origin, query, code string) string {
	if query != "" {
		query = "?" + query
	}
	return origin + Path + query + "#code=" + url.QueryEscape(code) // changes no code of ours, but what another server may send
}
