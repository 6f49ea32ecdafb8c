//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/sandboxhost"
)

func newSandboxExplain() *cobra.Command {
	var flags sandboxFlags
	var hosts []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [flags] [PATH...]",
		Short: "Show what a sandbox would allow, for paths and hosts",
		Long: "Show how the sandbox of a profile would be built on this machine, without building it. For each\n" +
			"PATH, show whether a command in it could read and write; for each --host, whether it could reach\n" +
			"the host. Each answer names the rule.",
		Example: "  tether sandbox explain\n" +
			"  tether sandbox explain --profile read-only ~/.ssh/id_ed25519 /tmp\n" +
			"  tether sandbox explain --allow-host '*.example.com' --host www.example.com:443",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, paths []string) error {
			e, err := flags.explain(cmd.Context(), paths, hosts)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), e)
			}
			return e.Print(cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	flags.define(fs)
	fs.StringArrayVar(&hosts, "host", nil, "a `HOST[:PORT]` to show, with port 443 if it has none; can be\nrepeated")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	onlyOnce(fs)
	return cmd
}

func (f *sandboxFlags) explain(ctx context.Context, paths, hosts []string) (e *sandboxhost.Explanation, err error) {
	q := sandboxhost.Question{Profile: f.profile, Paths: paths, Hosts: []sandboxhost.HostDecision{}}
	if q.Rules, err = f.hosts.rules(f.network); err != nil {
		return nil, err
	}
	for _, text := range hosts {
		host, err := sandboxhost.ParseHost(text)
		if err != nil {
			return nil, usageError{fmt.Errorf("--host %q: %w", text, err)}
		}
		q.Hosts = append(q.Hosts, host)
	}
	if q.Cwd, err = f.workspace(); err != nil {
		return nil, err
	}
	if q.Intent, err = f.intent(q.Cwd); err != nil {
		return nil, err
	}
	h, err := sandboxhost.Open(f.machine.options(f.stateDir))
	if err != nil {
		return nil, withStateDirFlag(err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return h.Explain(ctx, q)
}
