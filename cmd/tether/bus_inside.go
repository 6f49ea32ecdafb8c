//go:build fleet

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
	"github.com/tetherexec/tether/internal/reexec"
)

// The roles of credentials.
const (
	roleHost     = "host"
	roleGateway  = "gateway"
	roleOperator = "operator"
)

// readCreds refuses a file of credentials that cannot be read, or that `tether hub` has made for another role, and warns about one that
// other users can read. It returns the name for which it was made; "": that is not known, because another program has made the file.
func readCreds(file, role string, stderr io.Writer) (name string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--creds %s: %w", file, cause(err))
	}
	if _, worker := reexec.WorkerArguments(os.Args); !worker {
		warnReadable(stderr, file)
	}
	certificate, err := jwt.ParseDecoratedJWT(text)
	_, keyless := jwt.ParseDecoratedNKey(text)
	clear(text)
	if err != nil || keyless != nil {
		return "", fmt.Errorf("--creds %s: the file has no credentials", file)
	}
	claims, err := jwt.DecodeUserClaims(certificate)
	if err != nil {
		return "", nil // the hub decides
	}
	madeFor, name, ours := strings.Cut(claims.Name, ".")
	switch {
	case !ours || madeFor != roleHost && madeFor != roleGateway && madeFor != roleOperator:
		return "", nil
	case madeFor != role:
		return "", fmt.Errorf("--creds %s: these are the credentials of the %s %s; `tether hub add-%s` makes others", file, madeFor, name, role)
	}
	return name, nil
}

// connect connects to the hub. Its errors say which credentials were refused.
func connect(ctx context.Context, c bus.Config) (*nats.Conn, error) {
	conn, err := bus.Connect(ctx, c)
	for _, refusal := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, refusal) {
			err = fmt.Errorf("the hub refuses the credentials in %s: another hub has made them, or they were revoked (%w)", c.Credentials, refusal)
		}
	}
	return conn, err
}

// config are the settings of a connection to the hub for a gateway or an operator.
func (f *busFlags) config(name string, log *slog.Logger) bus.Config {
	return bus.Config{URL: f.url, Credentials: f.creds, CAFile: f.ca, Name: name, Inbox: fleet.GatewayInbox, Log: log}
}
