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

func (m *mcpSession) execCommand(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	args, err := unifiedexec.ParseExecArgs(req.Params.Arguments)
	if err != nil {
		return outcome{}, err
	}
	ctx, c := m.begin(ctx, req.Session)
	defer c.over.Store(true)
	args.CallID = c.id
	if args.Login == nil {
		login := !m.config.NoLogin
		args.Login = &login
	}
	defer m.watch(ctx, req, c.id, 0)()
	r, err := m.manager.ExecCommand(ctx, args)
	if err != nil {
		return outcome{}, err
	}
	return m.result(r, r.SessionID), nil
}

func (m *mcpSession) writeStdin(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	args, err := unifiedexec.ParseStdinArgs(req.Params.Arguments)
	if err != nil {
		return outcome{}, err
	}
	return m.write(ctx, req, args)
}

// write is write_stdin, and the last part of kill_session.
func (m *mcpSession) write(ctx context.Context, req *mcp.CallToolRequest, args unifiedexec.StdinArgs) (outcome, error) {
	ctx, c := m.begin(ctx, req.Session)
	defer c.over.Store(true)
	defer m.watch(ctx, req, "", args.SessionID)()
	r, err := m.manager.WriteStdin(ctx, args)
	if err != nil {
		return outcome{}, err
	}
	return m.result(r, args.SessionID), nil
}

// result returns the outcome for a result of unified exec. It says what the sandbox has denied, and
// what can be done about it.
func (m *mcpSession) result(r *unifiedexec.Result, session int) outcome {
	m.remember(r, session)
	r.MarkWith(func(missing int64) string {
		if !m.searches.Load() {
			return fmt.Sprintf("…%d tokens truncated…", missing)
		}
		return fmt.Sprintf("…%d tokens truncated; %s with chunk_id \"%s\" finds them…", missing, toolSearchOutput, r.ChunkID)
	})
	if r.Denied {
		note := "the sandbox denied an operation of the command"
		if r.Network {
			note = m.networkText(r.Hosts) + ", which seems to be why the command failed"
		} else if what := denialText(r.Denial); what != "" {
			note += ": " + what
		}
		if !r.Declined {
			note += "; " + m.remedy(r.Network)
		}
		r.Notes = append(r.Notes, note)
	}
	return outcome{r.Text(), r}
}

// networkText says what commands cannot reach: the refused hosts, or without such the network.
func (m *mcpSession) networkText(refused []string) string {
	switch {
	case len(refused) > 0:
		return "the sandbox does not let the command reach " + list(refused)
	case m.config.Network != nil:
		return "the sandbox lets commands reach some hosts only, through the proxy that HTTP_PROXY and the like name"
	}
	return "the sandbox has no network"
}

// networkOptions says how the user can open the network if the server cannot ask.
const networkOptions = "the user can open the network with the --network or --allow-host options of `tether mcp`"

// remedy says how the model or the user can get more: the network, or other permissions.
func (m *mcpSession) remedy(network bool) string {
	switch {
	case network && m.asks:
		return `exec_command with additional_permissions {"network":{"enabled":true}} asks the user for it`
	case network:
		return networkOptions
	case m.asks && !m.config.hides():
		return `with sandbox_permissions "require_escalated" exec_command asks the user`
	case m.config.Policy.Mode == unifiedexec.Never:
		return "the user can allow more with the --sandbox and --approval options of `tether mcp`"
	}
	return "the user can allow more with the --sandbox option of `tether mcp`"
}

type killArgs struct {
	SessionID       int  `json:"session_id" jsonschema:"Identifier of the session to end."`
	MaxOutputTokens *int `json:"max_output_tokens,omitempty" jsonschema:"Output beyond this many tokens is truncated. Defaults to 10000."`
}

func (m *mcpSession) killSession(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	var args killArgs
	if err := parseArgs(req, &args); err != nil {
		return outcome{}, err
	}
	if err := m.manager.Kill(ctx, args.SessionID); err != nil {
		return outcome{}, err
	}
	o, err := m.write(ctx, req, unifiedexec.StdinArgs{SessionID: args.SessionID, MaxOutputTokens: args.MaxOutputTokens})
	if errors.Is(err, unifiedexec.ErrUnknownSession) {
		return outcome{fmt.Sprintf("Session %d has ended. Another call has returned the rest of its output.\n", args.SessionID),
			map[string]any{"ended": args.SessionID}}, nil
	}
	return o, err
}

// A sessionRow is a session in list_sessions.
type sessionRow struct {
	SessionID int       `json:"session_id"`
	Command   string    `json:"command"`
	Workdir   string    `json:"workdir"`
	TTY       bool      `json:"tty"`
	Started   time.Time `json:"started"`
	ExitCode  *int      `json:"exit_code,omitempty"`
}

func (m *mcpSession) listSessions(context.Context, *mcp.CallToolRequest) (outcome, error) {
	rows := []sessionRow{}
	var b strings.Builder
	for _, s := range m.manager.Sessions() {
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
