//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/doctor"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandboxhost"
	"github.com/tetherexec/tether/internal/statedir"
)

func newDoctor() *cobra.Command {
	var stateDir string
	var machine machineFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   nameDoctor + " [flags]",
		Short: shortDoctor,
		Long: "Test that the sandbox works on this machine: run commands that try to break out of it, and show the\n" +
			"result of each. If an attempt was not refused, the table says what to do about it.\n\n" +
			"Nothing outside a temporary directory is changed. The exit code is 0 if all is well, else 1.",
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results, err := examine(cmd.Context(), machine.options(stateDir))
			if err != nil {
				return err
			}
			print := printTable
			if asJSON {
				print = printResults
			}
			if err := print(cmd.OutOrStdout(), results); err != nil {
				return err
			}
			if !doctor.Healthy(results) {
				return codedError{code: exitError}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&stateDir, "state-dir", "", "`PATH` of the state directory, the same as for `tether serve`\n(default $XDG_STATE_HOME/tether or ~/.local/state/tether)")
	machine.defineBackend(fs)
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	onlyOnce(fs)
	return cmd
}

// examine runs the checks on this machine.
func examine(ctx context.Context, o sandboxhost.Options) (results []doctor.Result, err error) {
	if err := proc.ResetInherited(); err != nil {
		return nil, fmt.Errorf("prepare for children: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	h, err := sandboxhost.Open(o)
	if err != nil {
		return []doctor.Result{noState(err)}, nil
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	support, err := h.Confiner.Support(ctx)
	if err != nil {
		return nil, err
	}
	other := confine.BackendNative
	if support.Native {
		other = confine.BackendBubblewrap
	}
	tried, err := h.Confiner.Try(ctx, other)
	if err != nil {
		return nil, err
	}
	results, err = doctor.Examine(ctx, doctor.Config{
		Support: support, Other: &tried, Runner: doctor.Sandbox{Confiner: h.Confiner, Procs: h.Procs},
		Procs: h.Procs, Self: self, StateDir: h.StateDir(),
	})
	results = append(results, keeperResult(keep.Probe()))
	if r := serverResult(ctx, h.StateDir()); r != nil {
		results = append(results, *r)
	}
	return results, err
}

// serverPatience is how long the user's own server may take to answer.
const serverPatience = 3 * time.Second

// serverResult tells about the user's own server, with its keeper; nil: it does not run. A server whose workers
// cannot start does not answer, but its keeper has left a notice in the state directory.
func serverResult(ctx context.Context, stateDir string) *doctor.Result {
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, fmt.Errorf("it has not answered for %v", serverPatience))
	defer cancel()
	r := &doctor.Result{Name: "server", Tries: "ask this user's own server about its keeper", Status: doctor.Passed}
	own, err := homeServer(false)(ctx)
	if err != nil {
		return nil
	}
	c, err := client.Dial(ctx, own.url, client.Options{Name: clientName})
	if err != nil {
		r.Status, r.Detail = doctor.Noted, strings.Join(append([]string{"it does not answer: " + err.Error()}, statedir.Notices(stateDir)...), "\n")
		return r
	}
	defer c.End(ctx)
	r.Detail = "it has no keeper: commands end with the server"
	if !c.Has(client.FeatureKeeper) {
		return r
	}
	state, err := keeperState(ctx, c)
	if err != nil {
		r.Status, r.Detail = doctor.Noted, "it does not tell about its keeper: "+err.Error()
		return r
	}
	keeper := "of the same version"
	if !state.SameProgram {
		keeper = "of another version"
	}
	r.Detail = fmt.Sprintf("version %s (process %d) with a keeper %s (process %d); %s", state.Version, state.WorkerPID, keeper, state.KeeperPID, deathsText(state))
	if state.Deaths > 0 {
		r.Status = doctor.Noted
	}
	return r
}

// keeperResult says whether a server can have a keeper. A server without one works, too.
func keeperResult(err error) doctor.Result {
	r := doctor.Result{
		Name: "keeper", Tries: "use all that the keeper of `tether serve` needs", Status: doctor.Passed,
		Detail: "commands survive a crash of the server",
	}
	if err != nil {
		r.Status, r.Detail = doctor.Noted, "commands end with the server: "+err.Error()
	}
	return r
}

// noState is the result if there is no state directory, which all checks need.
func noState(err error) doctor.Result {
	return doctor.Result{
		Name: "state directory", Tries: "make a directory in it", Status: doctor.Failed, Detail: err.Error(),
		Fix: "Name a directory that this user can write to with `--state-dir` or XDG_STATE_HOME.",
	}
}

func printResults(w io.Writer, results []doctor.Result) error {
	return printJSON(w, struct {
		Healthy bool            `json:"healthy"`
		Time    time.Time       `json:"time"`
		Version string          `json:"version"`
		Checks  []doctor.Result `json:"checks"`
	}{doctor.Healthy(results), time.Now().UTC(), versionText(), results})
}

var marks = map[doctor.Status]string{doctor.Passed: "✓", doctor.Failed: "✗", doctor.Noted: "•", doctor.Skipped: "-"}

// printTable prints a row for each check, and below a failed check what to do.
func printTable(w io.Writer, results []doctor.Result) error {
	width := 0
	count := make(map[doctor.Status]int)
	for _, r := range results {
		width = max(width, len(r.Name))
		count[r.Status]++
	}
	var b strings.Builder
	told := make(map[string]bool)
	for _, r := range results {
		fmt.Fprintf(&b, "%s %-*s  %s\n", marks[r.Status], width, r.Name, indented(r.Detail, width+4))
		if r.Status != doctor.Failed {
			continue
		}
		fmt.Fprintf(&b, "  %-*s  tried: %s\n", width, "", r.Tries)
		if r.Fix != "" && !told[r.Fix] {
			fmt.Fprintf(&b, "  %-*s  to do: %s\n", width, "", r.Fix)
			told[r.Fix] = true
		}
	}
	b.WriteByte('\n')
	switch {
	case count[doctor.Failed] == 0:
		fmt.Fprintf(&b, "All is well: commands are confined on this machine.\n")
	case count[doctor.Skipped] > 0:
		fmt.Fprintf(&b, "%d of %d checks failed, %d could not be tried.\n", count[doctor.Failed], len(results), count[doctor.Skipped])
	default:
		fmt.Fprintf(&b, "%d of %d checks failed.\n", count[doctor.Failed], len(results))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// indented aligns the lines after the first.
func indented(text string, by int) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", by))
}
