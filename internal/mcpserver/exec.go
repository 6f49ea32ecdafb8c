package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/unifiedexec"
)

func (d *desk) execCommand(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	args, err := unifiedexec.ParseExecArgs(req.Params.Arguments)
	if err != nil {
		return outcome{}, err
	}
	ctx, c := d.begin(ctx, req.Session)
	args.CallID = c.id
	if args.Login == nil {
		login := !d.config.NoLogin
		args.Login = &login
	}
	defer d.watch(ctx, req, c.id, 0)()
	r, err := d.manager.ExecCommand(ctx, args)
	if err != nil {
		return outcome{}, err
	}
	return d.result(r, r.SessionID), nil
}

func (d *desk) writeStdin(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	args, err := unifiedexec.ParseStdinArgs(req.Params.Arguments)
	if err != nil {
		return outcome{}, err
	}
	return d.write(ctx, req, args)
}

// write is write_stdin, and the end of kill_session.
func (d *desk) write(ctx context.Context, req *mcp.CallToolRequest, args unifiedexec.StdinArgs) (outcome, error) {
	ctx, _ = d.begin(ctx, req.Session)
	defer d.watch(ctx, req, "", args.SessionID)()
	r, err := d.manager.WriteStdin(ctx, args)
	if err != nil {
		return outcome{}, err
	}
	return d.result(r, args.SessionID), nil
}

// result is what a model gets. It says what the sandbox has denied, and what can be done
// about it.
func (d *desk) result(r *unifiedexec.Result, session int) outcome {
	d.remember(r, session)
	r.MarkWith(func(missing int64) string {
		if !d.searches.Load() {
			return fmt.Sprintf("…%d tokens truncated…", missing)
		}
		return fmt.Sprintf("…%d tokens truncated; %s with chunk_id \"%s\" finds them…", missing, toolSearchOutput, r.ChunkID)
	})
	if r.Denied {
		note := "the sandbox was in the way"
		if r.Network {
			note = d.networkText(r.Hosts) + ", which seems to be why the command failed"
		} else if what := denialText(r.Denial); what != "" {
			note += ": " + what
		}
		if !r.Declined {
			note += "; " + d.remedy(r.Network)
		}
		r.Notes = append(r.Notes, note)
	}
	return outcome{r.Text(), r}
}

// networkText says what the sandbox does not let commands reach: hosts that one was
// refused, or what is known without such.
func (d *desk) networkText(refused []string) string {
	switch {
	case len(refused) > 0:
		return "the sandbox does not let the command reach " + list(refused)
	case d.config.Network != nil:
		return "the sandbox lets commands reach some hosts only, through the proxy that HTTP_PROXY and the like name"
	}
	return "the sandbox has no network"
}

// networkOptions say how a user can open the network to a server that cannot ask.
const networkOptions = "the user can open the network with the --network or --allow-host options of `tether mcp`"

// remedy says how more can be allowed: the network, or anything.
func (d *desk) remedy(network bool) string {
	switch {
	case network && d.asks:
		return `exec_command with additional_permissions {"network":{"enabled":true}} asks the user for it`
	case network:
		return networkOptions
	case d.asks && !d.config.hides():
		return `with sandbox_permissions "require_escalated" exec_command asks the user`
	case d.config.Policy.Mode == unifiedexec.Never:
		return "the user can allow more with the --sandbox and --approval options of `tether mcp`"
	}
	return "the user can allow more with the --sandbox option of `tether mcp`"
}

type killArgs struct {
	SessionID       int  `json:"session_id" jsonschema:"Identifier of the session to end."`
	MaxOutputTokens *int `json:"max_output_tokens,omitempty" jsonschema:"Output beyond this many tokens is truncated. Defaults to 10000."`
}

func (d *desk) killSession(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	var args killArgs
	if err := parseArgs(req, &args); err != nil {
		return outcome{}, err
	}
	if err := d.manager.Kill(ctx, args.SessionID); err != nil {
		return outcome{}, err
	}
	o, err := d.write(ctx, req, unifiedexec.StdinArgs{SessionID: args.SessionID, MaxOutputTokens: args.MaxOutputTokens})
	if errors.Is(err, unifiedexec.ErrUnknownSession) {
		return outcome{fmt.Sprintf("Session %d has ended. Another call has returned the rest of its output.\n", args.SessionID),
			map[string]any{"ended": args.SessionID}}, nil
	}
	return o, err
}

// A sessionRow is what list_sessions tells of one.
type sessionRow struct {
	SessionID int       `json:"session_id"`
	Command   string    `json:"command"`
	Workdir   string    `json:"workdir"`
	TTY       bool      `json:"tty"`
	Started   time.Time `json:"started"`
	ExitCode  *int      `json:"exit_code,omitempty"`
}

func (d *desk) listSessions(context.Context, *mcp.CallToolRequest) (outcome, error) {
	rows := []sessionRow{}
	var b strings.Builder
	for _, s := range d.manager.Sessions() {
		rows = append(rows, sessionRow{s.ID, s.Script, s.Cwd, s.TTY, s.Started.UTC(), s.ExitCode})
		state := "running for " + time.Since(s.Started).Round(time.Second).String()
		if s.ExitCode != nil {
			state = fmt.Sprintf("exited with code %d, output left", *s.ExitCode)
		}
		fmt.Fprintf(&b, "%d: %s: %s (in %s)\n", s.ID, state, oneLine(s.Script), s.Cwd)
	}
	if len(rows) == 0 {
		b.WriteString("No sessions.\n")
	}
	return outcome{b.String(), map[string]any{"sessions": rows}}, nil
}

// listedCommand is how much of a command is shown in a list.
const listedCommand = 200

func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > listedCommand {
		text = strings.ToValidUTF8(text[:listedCommand], "") + "…"
	}
	return text
}
