package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// referenceFlags are the flags of `codex exec-server` that tether does not need. It knows
// them so that a script written for the reference either works or gets a clear error.
type referenceFlags struct {
	fs *pflag.FlagSet
}

// ignored has the flags that are accepted with a warning and have no effect, with the reason.
var ignored = map[string]string{
	"config":                         "tether reads no Codex configuration",
	"enable":                         "tether has no Codex features",
	"disable":                        "tether has no Codex features",
	"strict-config":                  "tether reads no Codex configuration",
	"proxy-private-ips-via-upstream": "tether's network proxy connects to private addresses itself, never through another proxy",
	"environment-id":                 "it only matters with --remote",
	"name":                           "it only matters with --join or --remote",
}

// remote has the flags with which the reference does not listen, but connects to a remote
// service and registers itself there. tether refuses them.
var remote = []string{"remote", "remote-transport", "use-agent-identity-auth", "executor-credential-stdin",
	"aws-sigv4", "aws-profile", "aws-region", "aws-service", "exit-on-stdin-close"}

func addReferenceFlags(fs *pflag.FlagSet) referenceFlags {
	pidNamespace := &choice{"isolate", "MODE", []string{"isolate", "inherit"}}
	fs.StringArrayP("config", "c", nil, "override of the Codex configuration, as `KEY=VALUE`")
	fs.StringArray("enable", nil, "`FEATURE` of Codex to switch on")
	fs.StringArray("disable", nil, "`FEATURE` of Codex to switch off")
	fs.Bool("strict-config", false, "check the Codex configuration")
	fs.Var(pidNamespace, "linux-sandbox-pid-namespace", "isolate; inherit is not offered")
	fs.Bool("proxy-private-ips-via-upstream", false, "a setting of the Codex network proxy")
	fs.String("environment-id", "", "a setting for --remote")
	group(fs, "Accepted so that command lines for `codex exec-server` work, without effect",
		"config", "enable", "disable", "strict-config", "linux-sandbox-pid-namespace", "proxy-private-ips-via-upstream")
	for _, name := range remote {
		switch name {
		case "use-agent-identity-auth", "executor-credential-stdin", "aws-sigv4", "exit-on-stdin-close":
			fs.Bool(name, false, "not supported")
		default:
			fs.String(name, "", "not supported")
		}
	}
	for _, name := range append([]string{"environment-id"}, remote...) {
		fs.Lookup(name).Hidden = true
	}
	return referenceFlags{fs}
}

// check refuses the flags in remote and returns a warning for each flag without effect. joined: `--name` has one.
func (r referenceFlags) check(joined bool) (warnings []string, err error) {
	for _, name := range remote {
		if r.fs.Changed(name) {
			return nil, fmt.Errorf("`--%s` is not supported: tether listens and does not register itself anywhere. "+
				"To offer it as a remote environment, run `codex exec-server forward --connect URL --remote …` beside it", name)
		}
	}
	r.fs.Visit(func(f *pflag.Flag) {
		if why, ok := ignored[f.Name]; ok && !(joined && f.Name == "name") {
			warnings = append(warnings, fmt.Sprintf("`--%s` has no effect: %s", f.Name, why))
		}
		if f.Name == "linux-sandbox-pid-namespace" && f.Value.String() == "inherit" {
			warnings = append(warnings, "`--linux-sandbox-pid-namespace inherit` has no effect on tether")
		}
	})
	return warnings, nil
}
