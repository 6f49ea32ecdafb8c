//go:build mcp || fleet || !split

package main

import (
	"cmp"
	"errors"
	"os"

	"github.com/spf13/pflag"
)

// Variables that stand for flags.
const (
	natsVariable  = "TETHER_NATS"
	credsVariable = "TETHER_CREDS"
)

// busFlags say how a gateway or an operator reaches the hub of a fleet.
type busFlags struct{ url, creds, ca string }

func (f *busFlags) define(fs *pflag.FlagSet, role string) {
	fs.StringVar(&f.url, "nats", "", "`URL` of the hub, or of other NATS servers: tls://HOST:PORT,\nnats://HOST:PORT (only on this machine) or wss://HOST:PORT, several\nwith commas between them (default $"+natsVariable+")")
	fs.StringVar(&f.creds, "creds", "", "`FILE` with credentials, made by `tether hub "+role+"`\n(default $"+credsVariable+")")
	fs.StringVar(&f.ca, "nats-ca", "", "`FILE` of certificates (PEM) to trust for the hub, instead of those of\nthis machine")
	group(fs, "Hub", "nats", "creds", "nats-ca")
}

// complete adds what the environment says, and refuses what is incomplete.
func (f *busFlags) complete() error {
	f.url, f.creds = cmp.Or(f.url, os.Getenv(natsVariable)), cmp.Or(f.creds, os.Getenv(credsVariable))
	switch {
	case f.url == "":
		return usageError{errors.New("--nats is missing: the URL that `tether hub` has printed")}
	case f.creds == "":
		return usageError{errors.New("--creds is missing: a file that `tether hub` has made")}
	}
	return nil
}
