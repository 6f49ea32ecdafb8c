package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tetherexec/tether/wire"
)

// ErrNoGateway means that a server is not the gateway of a fleet.
var ErrNoGateway = errors.New("it is not the gateway of a fleet")

// maxHostsPage limits what is read of a page, such as a gateway's list of hosts.
const maxHostsPage = 64 << 20

// Hosts asks a gateway for the hosts of its fleet. The address is as for [Dial]; of the options, Token, TLS, Connect and ConnectTimeout
// count. The name of a host in the address, as in ws://HOST/?host=NAME, leads [Dial] to that host.
func Hosts(ctx context.Context, address string, o Options) ([]wire.FleetHost, error) {
	dialer, err := dialerOf(address, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.withDefaults().ConnectTimeout)
	defer cancel()
	hosts, err := dialer.(*webSocket).hosts(ctx)
	if err != nil {
		return nil, &AttemptError{address, err}
	}
	return hosts, nil
}

func (d *webSocket) hosts(ctx context.Context) ([]wire.FleetHost, error) {
	status, text, err := d.ask(ctx, http.MethodGet, wire.HostsPath)
	if err != nil {
		return nil, err
	}
	var page wire.FleetHosts
	switch {
	case status != http.StatusOK:
		return nil, fmt.Errorf("%w (HTTP status %d)", ErrNoGateway, status)
	case json.Unmarshal(text, &page) != nil || page.Hosts == nil:
		return nil, ErrNoGateway
	}
	return page.Hosts, nil
}

// ask makes an HTTP request below the path of the URL, and returns its status and the body. A refusal of the client is an error.
func (d *webSocket) ask(ctx context.Context, method, path string) (status int, body []byte, err error) {
	conn, err := d.connect(ctx)
	if err != nil {
		return 0, nil, &DialError{d.address, err}
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	u := *d.url
	u.Path, u.RawPath, u.RawQuery = strings.TrimSuffix(u.Path, "/")+path, "", ""
	request := &http.Request{Method: method, URL: &u, Host: u.Host, Header: http.Header{"User-Agent": {""}, "Accept": {"application/json"}}, Close: true}
	if d.opts.Token != "" {
		request.Header.Set("Authorization", "Bearer "+d.opts.Token)
	}
	if err := request.Write(conn); err != nil {
		return 0, nil, &DialError{d.address, cancelled(ctx, err)}
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return 0, nil, &DialError{d.address, cancelled(ctx, err)}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxHostsPage))
	switch {
	case err != nil:
		return 0, nil, &DialError{d.address, cancelled(ctx, err)}
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return 0, nil, &UpgradeError{d.address, answer.StatusCode, strings.TrimSpace(string(text))}
	}
	return answer.StatusCode, text, nil
}

// cancelled returns why a context has ended, or if it has not, the error.
func cancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
