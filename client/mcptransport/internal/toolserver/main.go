// Command toolserver is a stdio MCP server for tests.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoInput struct {
	Text string `json:"text"`
}

type waitInput struct {
	File string `json:"file" jsonschema:"the answer comes when it exists"`
}

type printInput struct {
	Bytes   int    `json:"bytes,omitempty" jsonschema:"how much to print"`
	Stderr  bool   `json:"stderr,omitempty" jsonschema:"where"`
	Newline bool   `json:"newline,omitempty" jsonschema:"one after each 100 bytes"`
	Text    string `json:"text,omitempty" jsonschema:"printed instead, as it is"`
}

type nameInput struct {
	Name string `json:"name"`
}

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "toolserver", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "returns its text"}, echo)
	mcp.AddTool(s, &mcp.Tool{Name: "pid", Description: "returns the process id"}, pid)
	mcp.AddTool(s, &mcp.Tool{Name: "wait", Description: "waits for a file"}, wait)
	mcp.AddTool(s, &mcp.Tool{Name: "print", Description: "prints beside the protocol"}, printBeside)
	mcp.AddTool(s, &mcp.Tool{Name: "getenv", Description: "returns a variable"}, getenv)
	mcp.AddTool(s, &mcp.Tool{Name: "ask", Description: "asks the user"}, ask)
	mcp.AddTool(s, &mcp.Tool{Name: "exit", Description: "ends the server"}, exit)
	fmt.Fprintln(os.Stderr, "toolserver is ready")
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "toolserver:", err)
		os.Exit(1)
	}
}

func text(format string, args ...any) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil, nil
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	return text("%s", in.Text)
}

func pid(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	return text("%d", os.Getpid())
}

// wait creates FILE.begun, and returns when FILE exists.
func wait(ctx context.Context, _ *mcp.CallToolRequest, in waitInput) (*mcp.CallToolResult, any, error) {
	if err := os.WriteFile(in.File+".begun", nil, 0o600); err != nil {
		return nil, nil, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(in.File); err == nil {
			return text("%d", os.Getpid())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func printBeside(_ context.Context, _ *mcp.CallToolRequest, in printInput) (*mcp.CallToolResult, any, error) {
	to := os.Stdout
	if in.Stderr {
		to = os.Stderr
	}
	w := bufio.NewWriter(to)
	line := strings.Repeat("x", 99)
	if in.Newline {
		line += "\n"
	} else {
		line += "x"
	}
	for n := 0; n < in.Bytes; n += len(line) {
		w.WriteString(line[:min(len(line), in.Bytes-n)])
	}
	w.WriteString(in.Text)
	if err := w.Flush(); err != nil {
		return nil, nil, err
	}
	return text("printed")
}

func getenv(_ context.Context, _ *mcp.CallToolRequest, in nameInput) (*mcp.CallToolResult, any, error) {
	value, set := os.LookupEnv(in.Name)
	return text("%q %t", value, set)
}

// ask is a request of the server.
func ask(ctx context.Context, r *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
	answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: in.Text})
	if err != nil {
		return nil, nil, err
	}
	return text("%s", answer.Action)
}

// exit ends the server in the middle of a line, as a crash does.
func exit(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	os.Stdout.WriteString(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	syscall.Exit(7)
	return nil, nil, nil
}
