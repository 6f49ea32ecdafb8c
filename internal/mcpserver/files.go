package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/wording"
)

const (
	defaultLines = 2000
	maxReadText  = 256 << 10 // bytes of a file in one answer
	maxReadFile  = 32 << 20  // larger files must be read with commands
	maxListed    = 1000      // names in one answer
)

type readArgs struct {
	Path     string `json:"path" jsonschema:"File to read."`
	FromLine int    `json:"from_line,omitempty" jsonschema:"First line to return, counted from 1. Defaults to 1."`
	MaxLines int    `json:"max_lines,omitempty" jsonschema:"Maximum number of lines to return. Defaults to 2000."`
}

type writeArgs struct {
	Path              string  `json:"path" jsonschema:"File to write."`
	Content           *string `json:"content" jsonschema:"The whole content of the file."`
	CreateDirectories bool    `json:"create_directories,omitempty" jsonschema:"True creates missing parent directories. Defaults to false."`
}

type listArgs struct {
	Path string `json:"path,omitempty" jsonschema:"Directory to list. Defaults to the working directory."`
}

// at returns the files of the executor, the absolute path of a name, and its directory.
func (m *mcpSession) at(ctx context.Context, name string) (remote *files.Files, path, dir string, err error) {
	p, err := m.executorPaths(ctx)
	if err != nil {
		return nil, "", "", err
	}
	path = p.path(name)
	return p.files(m.config.Sandbox), path, p.parent(path), nil
}

// failedFile returns the error of a file tool. If the sandbox may be the reason, it says what can be
// done.
func (m *mcpSession) failedFile(tool string, err error) error {
	refusal, _ := errors.AsType[*client.ServerError](err)
	readOnly := refusal != nil && refusal.OSError() == syscall.EROFS // in a sandbox most file systems are
	if m.config.Sandbox != nil && (readOnly || errors.Is(err, fs.ErrPermission)) {
		return fmt.Errorf("%s failed: %w: the sandbox may not allow it; %s", tool, withoutCall(err), m.remedy(false))
	}
	return fmt.Errorf("%s failed: %w", tool, withoutCall(err))
}

// withoutCall returns a file error without the name of the system call.
func withoutCall(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", e.Path, e.Err)
	}
	return err
}

func missing(member string) error {
	return badArguments(wording.Missing(member))
}

func (m *mcpSession) readFile(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	var args readArgs
	if err := parseArgs(req, &args); err != nil {
		return outcome{}, err
	}
	if args.Path == "" {
		return outcome{}, missing("path")
	}
	remote, name, _, err := m.at(ctx, args.Path)
	if err != nil {
		return outcome{}, m.failedFile(toolReadFile, err)
	}
	info, err := remote.Stat(ctx, name)
	if err == nil && info.Size() > maxReadFile {
		err = fmt.Errorf("%s has %d bytes; read parts of it with exec_command", name, info.Size())
	}
	var data []byte
	if err == nil {
		data, err = remote.ReadFile(ctx, name)
	}
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("%s is not text in UTF-8; look at its %d bytes with exec_command", name, len(data))
	}
	if err != nil {
		return outcome{}, m.failedFile(toolReadFile, err)
	}
	return excerpt(name, string(data), max(1, args.FromLine), args.MaxLines), nil
}

// excerpt shows lines of a text. The note in front of them says what is left out.
func excerpt(name, text string, from, most int) outcome {
	if most <= 0 {
		most = defaultLines
	}
	var b strings.Builder
	line, last := 0, 0
	for l := range strings.Lines(text) {
		line++
		if line < from || line-from >= most || last != 0 && last < line-1 || b.Len()+len(l) > maxReadText && b.Len() > 0 {
			continue
		}
		if len(l) > maxReadText {
			l = strings.ToValidUTF8(l[:maxReadText], "") + "…\n"
		}
		b.WriteString(l)
		last = line
	}
	content := b.String()
	shown := content
	if from > 1 || last < line {
		shown = fmt.Sprintf("Lines %d to %d of %d:\n%s", from, last, line, content)
		if last == 0 {
			shown = fmt.Sprintf("No lines from %d on: there are %d.\n", from, line)
		}
	}
	return outcome{shown, map[string]any{"path": name, "content": content, "from_line": from, "to_line": last, "lines": line, "truncated": last != 0 && last < line}}
}

func (m *mcpSession) writeFile(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	var args writeArgs
	if err := parseArgs(req, &args); err != nil {
		return outcome{}, err
	}
	switch {
	case args.Path == "":
		return outcome{}, missing("path")
	case args.Content == nil:
		return outcome{}, missing("content")
	}
	remote, name, dir, err := m.at(ctx, args.Path)
	if err != nil {
		return outcome{}, m.failedFile(toolWriteFile, err)
	}
	if args.CreateDirectories && dir != "" {
		err = remote.MkdirAll(ctx, dir)
	}
	if err == nil {
		err = remote.WriteFile(ctx, name, []byte(*args.Content))
	}
	if err != nil {
		return outcome{}, m.failedFile(toolWriteFile, err)
	}
	return outcome{fmt.Sprintf("Wrote %d bytes to %s\n", len(*args.Content), name), map[string]any{"path": name, "bytes": len(*args.Content)}}, nil
}

// A dirRow is one name of a directory.
type dirRow struct {
	Name string `json:"name"`
	Type string `json:"type"` // file, directory or other
}

func (m *mcpSession) listDir(ctx context.Context, req *mcp.CallToolRequest) (outcome, error) {
	var args listArgs
	if err := parseArgs(req, &args); err != nil {
		return outcome{}, err
	}
	remote, name, _, err := m.at(ctx, args.Path)
	if err != nil {
		return outcome{}, m.failedFile(toolListDir, err)
	}
	entries, err := remote.ReadDir(ctx, name)
	if err != nil {
		return outcome{}, m.failedFile(toolListDir, err)
	}
	rows := []dirRow{}
	var b strings.Builder
	for _, e := range entries[:min(len(entries), maxListed)] {
		kind, mark := "file", ""
		switch {
		case e.IsDir():
			kind, mark = "directory", "/"
		case !e.Type().IsRegular():
			kind = "other"
		}
		rows = append(rows, dirRow{e.Name(), kind})
		b.WriteString(e.Name() + mark + "\n")
	}
	if more := len(entries) - len(rows); more > 0 {
		fmt.Fprintf(&b, "… and %d more\n", more)
	}
	if len(entries) == 0 {
		b.WriteString("The directory is empty.\n")
	}
	return outcome{b.String(), map[string]any{"path": name, "entries": rows, "total": len(entries)}}, nil
}
