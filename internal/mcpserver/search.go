package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

type searchArgs struct {
	SessionID  int    `json:"session_id,omitempty" jsonschema:"Session whose output to search; it may have ended. Either this or chunk_id is needed."`
	ChunkID    string `json:"chunk_id,omitempty" jsonschema:"Chunk ID of a result of the command, for commands that had no session."`
	Pattern    string `json:"pattern,omitempty" jsonschema:"Regular expression (RE2) that lines have to match. Without it all lines match."`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"Match case-insensitively. Defaults to false."`
	FromLine   uint64 `json:"from_line,omitempty" jsonschema:"First line to search, counted from 1. Defaults to 1."`
	ToLine     uint64 `json:"to_line,omitempty" jsonschema:"Last line to search. Defaults to the last one."`
	MaxMatches int    `json:"max_matches,omitempty" jsonschema:"Maximum number of matching lines to return. Defaults to 100; at most 1000."`
	Before     int    `json:"before,omitempty" jsonschema:"Lines to show before each match. Defaults to 0; at most 50."`
	After      int    `json:"after,omitempty" jsonschema:"Lines to show after each match. Defaults to 0; at most 50."`
}

// searchOutput lets the executor search the output that it still holds of a process.
func (m *mcpSession) searchOutput(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	var args searchArgs
	if err := parseArgs(req, &args); err != nil {
		return outcome{}, err
	}
	process, err := m.searched(args)
	if err != nil {
		return outcome{}, err
	}
	c, err := m.config.Client(ctx)
	var r wire.SearchResult
	if err == nil {
		r, err = c.Remote(c.PublicID(), process).Search(ctx, client.Search{
			Pattern: args.Pattern, IgnoreCase: args.IgnoreCase, FromLine: args.FromLine, ToLine: args.ToLine,
			MaxMatches: args.MaxMatches, Before: args.Before, After: args.After,
		})
	}
	if err != nil {
		return outcome{}, fmt.Errorf("%s failed: %w", toolSearchOutput, err)
	}
	return outcome{searchText(r), r}, nil
}

// searched returns the process that the arguments name.
func (m *mcpSession) searched(args searchArgs) (process string, err error) {
	switch {
	case (args.SessionID != 0) == (args.ChunkID != ""):
		return "", badArguments(errors.New("one of `session_id` and `chunk_id` is needed"))
	case args.SessionID != 0:
		if p := m.ofSession(args.SessionID); p != "" {
			return p, nil
		}
		return "", fmt.Errorf("%s failed: Unknown process id %d", toolSearchOutput, args.SessionID)
	}
	if p := m.ofChunk(args.ChunkID); p != "" {
		return p, nil
	}
	return "", fmt.Errorf("%s failed: Unknown chunk id %s", toolSearchOutput, args.ChunkID)
}

// searchText shows lines as grep does: a match has a colon behind its number, a line
// around one a dash.
func searchText(r wire.SearchResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d matching lines of %d\n", r.Matches, r.Searched)
	if r.Evicted {
		b.WriteString("Note: the beginning of the output is no longer kept; lines are counted from the rest\n")
	}
	if r.LongLines > 0 {
		fmt.Fprintf(&b, "Note: %d long lines were not searched in full\n", r.LongLines)
	}
	if r.Truncated != nil {
		fmt.Fprintf(&b, "Note: there is more (limit: %s)", *r.Truncated)
		if r.NextLine != nil {
			fmt.Fprintf(&b, "; go on with from_line %d", *r.NextLine)
		}
		b.WriteByte('\n')
	}
	last := uint64(0)
	for _, line := range r.Lines {
		if last != 0 && line.Line > last+1 {
			b.WriteString("--\n")
		}
		last = line.Line
		mark := '-'
		if line.Match {
			mark = ':'
		}
		fmt.Fprintf(&b, "%d%c", line.Line, mark)
		if line.Offset > 0 {
			b.WriteString("…")
		}
		b.WriteString(line.Text)
		if line.Cut {
			b.WriteString("…")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
