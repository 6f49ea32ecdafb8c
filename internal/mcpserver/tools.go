package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// The tools besides those of unified exec.
const (
	toolKillSession  = "kill_session"
	toolListSessions = "list_sessions"
	toolReadFile     = "read_file"
	toolWriteFile    = "write_file"
	toolListDir      = "list_dir"
	toolSearchOutput = "search_output"
)

// An outcome is the result of a tool, as text for models and as data for programs.
type outcome struct {
	text string
	data any // becomes a JSON object
}

// A tool is a row of the table below.
type tool struct {
	name, description string
	schema            func() (*jsonschema.Schema, error)
	defaults          map[string]any
	hints             mcp.ToolAnnotations
	run               func(*mcpSession, context.Context, *mcp.CallToolRequest) (outcome, error)
}

// tools is the table of tools, with the texts for a client.
func tools(facts executorFacts) []tool {
	no, yes := false, true
	reads := mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
	return []tool{
		{unifiedexec.ToolExecCommand, "Runs a command in a shell, returning output or a session ID for ongoing interaction.\n" + facts.surroundings(),
			func() (*jsonschema.Schema, error) { return execSchema(facts) },
			map[string]any{"tty": false, "yield_time_ms": 10000, "max_output_tokens": 10000, "sandbox_permissions": "use_default", "login": !facts.config.NoLogin},
			mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}, (*mcpSession).execCommand},
		{unifiedexec.ToolWriteStdin, "Writes characters to a running session and returns its recent output. Without characters it waits for output.",
			schemaOf[unifiedexec.StdinArgs], map[string]any{"chars": "", "yield_time_ms": 250, "max_output_tokens": 10000},
			mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}, (*mcpSession).writeStdin},
		{toolKillSession, "Ends a session and all processes in it, and returns the rest of its output.",
			schemaOf[killArgs], map[string]any{"max_output_tokens": 10000},
			mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no}, (*mcpSession).killSession},
		{toolListSessions, "Lists the running sessions, and those that have ended but have output left, oldest first.",
			schemaOf[struct{}], nil, reads, (*mcpSession).listSessions},
		{toolSearchOutput, "Finds lines in all that a command has printed, including what was truncated in its results. Identify the command by session_id or chunk_id. Output that was not returned yet is still returned by write_stdin.",
			schemaOf[searchArgs], map[string]any{"ignore_case": false, "from_line": 1, "max_matches": wire.DefaultMatches, "before": 0, "after": 0}, reads, (*mcpSession).searchOutput},
		{toolReadFile, "Reads lines of a text file. " + facts.paths(),
			schemaOf[readArgs], map[string]any{"from_line": 1, "max_lines": defaultLines}, reads, (*mcpSession).readFile},
		{toolWriteFile, "Creates a text file, or replaces the content of one. " + facts.paths() + " " + facts.files(),
			schemaOf[writeArgs], map[string]any{"create_directories": false},
			mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no}, (*mcpSession).writeFile},
		{toolListDir, "Lists a directory, sorted by name. " + facts.paths(), schemaOf[listArgs], map[string]any{"path": "."}, reads, (*mcpSession).listDir},
	}
}

// published returns the tool as clients see it.
func (t tool) published() (*mcp.Tool, error) {
	schema, err := t.schema()
	if err == nil {
		err = withDefaults(schema, t.defaults)
	}
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t.name, err)
	}
	return &mcp.Tool{Name: t.name, Description: t.description, InputSchema: schema, Annotations: &t.hints}, nil
}

// addTools adds the tools to the MCP server. describeTools replaces their texts for each client.
func (s *Server) addTools() error {
	for _, t := range tools(executorFacts{config: &s.config}) {
		published, err := t.published()
		if err != nil {
			return err
		}
		s.mcp.AddTool(published, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			m, err := s.sessionOf(req.Session)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(m.ctx, cancel)() // the end of the session ends the call, also one that waits for an answer of the user
			o, err := t.run(m, ctx, req)
			if err != nil && ctx.Err() != nil {
				return nil, err // the client has cancelled the call or left, and reads no result
			}
			return answer(o, err)
		})
	}
	return nil
}

// answer converts an outcome: the text is for the model, the data for programs. An error is for the
// model, too.
func answer(o outcome, err error) (*mcp.CallToolResult, error) {
	r := &mcp.CallToolResult{StructuredContent: o.data}
	if err != nil {
		o.text, r.IsError, r.StructuredContent = err.Error(), true, map[string]any{"error": err.Error()}
	}
	r.Content = []mcp.Content{&mcp.TextContent{Text: o.text}}
	return r, nil
}

// schemaOf describes the members of a struct, none of which may be null.
func schemaOf[T any]() (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, err
	}
	plain(s)
	return s, nil
}

// plain removes null from optional members: models need not know that it is allowed.
func plain(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		plain(p)
	}
}

func withDefaults(s *jsonschema.Schema, defaults map[string]any) error {
	for name, value := range defaults {
		p := s.Properties[name]
		if p == nil {
			continue // not offered
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		p.Default = text
	}
	return nil
}

// execSchema is the schema of exec_command, without the parameters that this client cannot use.
func execSchema(facts executorFacts) (*jsonschema.Schema, error) {
	s, err := schemaOf[unifiedexec.ExecArgs]()
	if err != nil {
		return nil, err
	}
	values := []any{unifiedexec.UseDefault}
	leave := []string{"environment_id"} // there is one
	if facts.asks {
		values = append(values, unifiedexec.RequireEscalated, unifiedexec.WithAdditional)
	} else {
		leave = append(leave, "sandbox_permissions", "additional_permissions", "justification", "prefix_rule")
	}
	s.Properties["sandbox_permissions"].Enum = values
	s.Properties["login"].Description = fmt.Sprintf("True runs the shell as a login shell, which reads the user's profile. Defaults to %t.", !facts.config.NoLogin)
	for _, name := range leave {
		delete(s.Properties, name)
	}
	s.PropertyOrder = nil
	return s, nil
}

// parseArgs reads the arguments of tools other than those of unified exec.
func parseArgs(req *mcp.CallToolRequest, args any) error {
	raw := bytes.TrimSpace(req.Params.Arguments)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		raw = []byte("{}")
	}
	if err := json.Unmarshal(raw, args); err != nil {
		return badArguments(wording.JSON(err))
	}
	return nil
}

// badArguments returns the error of wrong arguments, in the form of unified exec.
func badArguments(err error) error {
	return fmt.Errorf("failed to parse function arguments: %w", err)
}
