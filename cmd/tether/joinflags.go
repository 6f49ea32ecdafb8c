package main

import (
	"errors"

	"github.com/spf13/pflag"
)

// instanceVariable hands the instance of a host from the first process of a server to its workers, so that the fleet takes each of
// them for the same host. Commands must not get it.
const instanceVariable = "TETHER_FLEET_INSTANCE"

// joinFlags are the flags with which a server becomes a host of a fleet. They are in every build, for the help and to know that the
// server has to be tether-fleet.
type joinFlags struct {
	url, creds, ca, name string
	labels               []string
	capacity             count
}

func (f *joinFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.url, "join", "", "`URL` of the hub of a fleet, as for `tether gateway --nats`: clients\nof the fleet get sessions here as well")
	fs.StringVar(&f.creds, "creds", "", "`FILE` with the credentials of this host, made by `tether hub add-host`")
	fs.StringVar(&f.ca, "nats-ca", "", "`FILE` of certificates (PEM) to trust for the hub, instead of those of\nthis machine")
	fs.StringVar(&f.name, "name", "", "`NAME` of this host in the fleet; its credentials have it\n(default: that, or the name of this machine)")
	fs.StringArrayVar(&f.labels, "label", nil, "`KEY=VALUE` or KEY that clients can ask for; can be repeated")
	fs.Var(&f.capacity, "capacity", "how many commands may run before other hosts are preferred\n(default 4 for each processor)")
	group(fs, "Fleet", f.names()...)
}

func (*joinFlags) names() []string {
	return []string{"join", "creds", "nats-ca", "name", "label", "capacity"}
}

// check refuses flags that have no effect without --join. --name has a meaning of its own for `codex exec-server`.
func (f *joinFlags) check(fs *pflag.FlagSet) error {
	if f.url != "" {
		return nil
	}
	if fs.Changed("join") {
		return errors.New("`--join` needs the URL of a hub")
	}
	for _, name := range f.names() {
		if name != "name" && fs.Changed(name) {
			return errors.New("`--" + name + "` requires `--join`")
		}
	}
	return nil
}
