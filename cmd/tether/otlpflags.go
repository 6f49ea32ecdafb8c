package main

import (
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/server"
)

const flagOTLP = "otlp-endpoint"

// otlpFlags say where a server exports spans to. They are in every build, for the help and to know that the server has to be a companion.
type otlpFlags struct{ endpoint string }

func (f *otlpFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.endpoint, flagOTLP, "", "`URL` of an OpenTelemetry collector (OTLP over HTTP) that gets spans of\nrequests and commands, such as http://localhost:4318")
	group(fs, "Logging", flagOTLP)
}

// use adds the exporter to the settings of a server. close exports the last spans.
func (f *otlpFlags) use(cfg *server.Config) (close func(), err error) {
	if f.endpoint == "" {
		return func() {}, nil
	}
	return f.export(cfg)
}
