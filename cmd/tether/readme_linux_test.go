package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// readmePages have the commands that TestReadme runs.
var readmePages = []string{"README.md", "docs/tour.md"}

// notRun has the commands of these pages that TestReadme does not run, each with the reason. It runs every other one.
var notRun = map[string]string{
	"curl -fsSL https://github.com/tetherexec/tether/releases/latest/download/install.sh | sh": "needs the internet; TestInstall of tools/release runs install.sh",
	"tether run --url ssh://build -- make test":                                                "needs another machine",
	"tether serve --listen " + readmeURL:                                                       "the port may be in use; the test starts a server on a free port",
	"CODEX_EXEC_SERVER_URL=" + readmeURL + " codex":                                            "needs the Codex CLI; the tests of interop run it",
	"make run":                     "serves until it is stopped",
	"make test":                    "runs this test",
	"make build":                   "the test builds the program itself",
	"make run LISTEN=" + readmeURL: "the port may be in use; the test starts a server on a free port",
}

// readmeURL is the server of these pages. The test puts the address of its own server in its place.
const readmeURL = "ws://127.0.0.1:7070"

// readmeLimit bounds a command; none comes near it.
const readmeLimit = 2 * time.Minute

// The commands in README.md and in the tour of the protocol work, and print the output that stands below them.
func TestReadme(t *testing.T) {
	t.Parallel()
	reader := newReadmeReader(t)
	left := maps.Clone(notRun)
	for _, name := range readmePages {
		page, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		commands := readmeCommands(t, string(page))
		if len(commands) < 4 {
			t.Fatalf("found only %d commands in %s", len(commands), name)
		}
		for _, c := range commands {
			if _, skip := notRun[c.line]; skip {
				if delete(left, c.line); c.output != "" {
					t.Errorf("%s shows output of a command that is not run: %s", name, c.line)
				}
				continue
			}
			first, _, _ := strings.Cut(c.line, "\n")
			t.Run(first, func(t *testing.T) { reader.try(t, c) })
		}
	}
	for line := range left {
		t.Errorf("notRun has a command that is on no page: %s", line)
	}
}

// A readmeCommand is a command that a page shows, and the output that it shows for it, if any.
type readmeCommand struct{ line, output string }

// readmeCommands returns the commands in the indented blocks and the sh blocks of a page. A block without a language that
// follows an sh block in the same section has the output of its last command.
func readmeCommands(t *testing.T, page string) (commands []readmeCommand) {
	fenced, language, block := false, "", ""
	previous := "" // the language of the block before, within the section
	for line := range strings.Lines(page) {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !fenced:
			fenced, language, block = true, strings.TrimSpace(info), ""
		case fence:
			if language == "sh" {
				commands = append(commands, splitCommands(t, block)...)
			} else if language == "" && previous == "sh" {
				commands[len(commands)-1].output = block
			}
			fenced, previous = false, language
		case fenced:
			block += line
		case strings.HasPrefix(line, "#"):
			previous = ""
		case strings.HasPrefix(line, "    "):
			commands = append(commands, splitCommands(t, strings.TrimSpace(line))...)
		}
	}
	return commands
}

// splitCommands splits the lines of a shell script into commands, each of one line or more, without comments.
func splitCommands(t *testing.T, script string) (commands []readmeCommand) {
	t.Helper()
	command := ""
	for line := range strings.Lines(shellComment.ReplaceAllString(script, "")) {
		command += line
		whole := strings.TrimSpace(command)
		if strings.HasSuffix(whole, `\`) || exec.Command("sh", "-n", "-c", whole).Run() != nil {
			continue // the command goes on in the next line
		}
		commands = append(commands, readmeCommand{line: whole})
		command = ""
	}
	if strings.TrimSpace(command) != "" {
		t.Fatalf("a shell does not understand: %s", command)
	}
	return commands
}

// A readmeReader does what the pages say, in a directory that has bin/tether and docs. Its commands run on a server of its own, where a
// person has the server in the background.
type readmeReader struct {
	*testEnv
	shims string // a directory with programs that stand in for those of the system
}

func newReadmeReader(t *testing.T) *readmeReader {
	t.Helper()
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	r := &readmeReader{testEnv: newTestEnv(t), shims: t.TempDir()}
	server := startTether(t, "serve", "--listen", "ws://127.0.0.1:0", "--state-dir", t.TempDir())
	r.env = append(r.env, "TETHER_URL="+server.line(t))
	// A person waits for a second. The test waits for the last event, because the machine may be busy.
	script := fmt.Sprintf("#!/bin/sh\ni=0\nuntil grep -q process/closed \"$README_OUTPUT\" || [ $i = 3000 ]; do i=$((i+1)); %s 0.01; done\n", sleep)
	// A person has one server. The test kills the worker of its own one only.
	kill := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = '-9 -f tether be-child worker' ] || exit 2\nfor p in $(cat /proc/%d/task/*/children); do\n\ttr '\\0' ' ' </proc/$p/cmdline | grep -q 'be-child worker' && kill -9 $p\ndone\n", server.Process.Pid)
	err = errors.Join(
		os.Mkdir(filepath.Join(r.work, "bin"), 0o755),
		os.Symlink(released(t), filepath.Join(r.work, "bin", "tether")),
		os.Symlink(docs, filepath.Join(r.work, "docs")),
		os.WriteFile(filepath.Join(r.shims, "sleep"), []byte(script), 0o755),
		os.WriteFile(filepath.Join(r.shims, "pkill"), []byte(kill), 0o755),
	)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// try runs a command and compares its exit code and output with the page.
func (r *readmeReader) try(t *testing.T, c readmeCommand) {
	line, compare := c.line, compareOutput
	switch {
	case strings.HasPrefix(line, "tether sandbox"):
		tethertest.NeedBubblewrap(t)
	case strings.HasPrefix(line, "tether why"):
		r.until(t, c)
		return
	case strings.HasPrefix(line, "node "):
		if text, err := exec.Command("node", "--experimental-websocket", "-e", "WebSocket").CombinedOutput(); err != nil {
			need.CannotRun(t, "there is no node with WebSockets: %v %s", err, text)
		}
		server := startTether(t, "serve", "--listen", "ws://127.0.0.1:0")
		line, compare = strings.ReplaceAll(line, readmeURL, server.line(t)), compareTour
	}
	stdout, code, stderr := r.shell(t, line)
	if code != 0 {
		t.Errorf("exit code %d; standard output:\n%s\nstandard error:\n%s", code, stdout, stderr)
	}
	if c.output != "" {
		compare(t, stdout, c.output)
	}
}

// until runs a command until it prints what the page shows, with any numbers: the process that it describes gets there.
func (r *readmeReader) until(t *testing.T, c readmeCommand) {
	tethertest.Eventually(t, func() error {
		stdout, code, stderr := r.shell(t, c.line)
		if code != 0 || number.ReplaceAllString(stdout, "N") != number.ReplaceAllString(c.output, "N") {
			return fmt.Errorf("exit code %d; the page shows\n%s\nthe command has printed\n%s%s", code, c.output, stdout, stderr)
		}
		return nil
	})
}

var number = regexp.MustCompile(`[0-9]+`)

// shell runs a command in a shell.
func (r *readmeReader) shell(t *testing.T, line string) (stdout string, code int, stderr string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), readmeLimit, errors.New("took too long"))
	defer cancel()
	var complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.work, out, &complaints
	path := strings.Join([]string{r.shims, filepath.Join(r.work, "bin"), os.Getenv("PATH")}, string(os.PathListSeparator))
	cmd.Env = append(slices.Clone(r.env), beTether+"=", "README_OUTPUT="+out.Name(), "PATH="+path)
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode(), complaints.String()
}

// sessionID is the id of a session, whole or cut off as on the page.
var sessionID = regexp.MustCompile(`[0-9a-f]{8}-(…|[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})`)

// compareOutput compares what a command has printed with the page, where … stands for text that is left out.
func compareOutput(t *testing.T, got, want string) {
	t.Helper()
	pattern := regexp.QuoteMeta(sessionID.ReplaceAllString(want, "ID"))
	pattern = "^" + strings.ReplaceAll(pattern, "…", ".*") + "$"
	if got := sessionID.ReplaceAllString(got, "ID"); !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("the page shows\n%s\nthe command has printed\n%s", want, got)
	}
}

// compareTour compares what docs/tour.mjs has printed with the page. On a busy machine the connection may break at
// another line than on the page. So the test checks the steps, the lines and their numbers each for itself.
func compareTour(t *testing.T, got, want string) {
	t.Helper()
	steps, lines := parseTour(t, got)
	wantSteps, wantLines := parseTour(t, want)
	if !slices.Equal(steps, wantSteps) || !slices.Equal(lines, wantLines) {
		t.Errorf("the page shows\n%s\nthe command has printed\n%s", want, got)
	}
}

var tourEvent = regexp.MustCompile(`^  (?:seq (\d+): )?(.*)$`)

// parseTour returns the steps and the lines of output that a tour shows. The events must be numbered from 1 without gaps.
func parseTour(t *testing.T, tour string) (steps, lines []string) {
	t.Helper()
	last := 0
	for line := range strings.Lines(tour) {
		line = strings.TrimSuffix(line, "\n")
		event := tourEvent.FindStringSubmatch(line)
		if event == nil {
			steps = append(steps, line)
			continue
		}
		if last++; event[1] != "" && event[1] != fmt.Sprint(last) {
			t.Errorf("event %d has another number: %s", last, line)
		}
		lines = append(lines, strings.Split(event[2], ", ")...)
	}
	return steps, lines
}

// The configurations of MCP clients in README.md and docs/mcp.md are JSON or command lines, and start a command that exists.
func TestReadmeConfigurations(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"README.md", "docs/mcp.md"} {
		page, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, span := range codeSpans(string(page)) {
			for _, args := range mcpCommands(t, span) {
				found++
				if err := checkCommandLine(args); err != nil {
					t.Errorf("%s: %s: %v", name, span, err)
				}
			}
		}
		if found != 4 {
			t.Errorf("%s has the configurations of %d clients", name, found)
		}
	}
}

// mcpCommands returns the arguments of tether for each server in the configuration of an MCP client.
func mcpCommands(t *testing.T, span string) (commands [][]string) {
	t.Helper()
	if _, command, add := strings.Cut(span, " mcp add build -- tether "); add {
		return [][]string{strings.Fields(command)}
	}
	if !strings.HasPrefix(span, "{\"mcpServers\"") && !strings.HasPrefix(span, "{\"servers\"") {
		return nil
	}
	var config map[string]map[string]struct {
		Type, Command string
		Args          []string
	}
	if err := json.Unmarshal([]byte(span), &config); err != nil {
		t.Errorf("%s: %v", span, err)
	}
	for _, servers := range config {
		for _, server := range servers {
			if server.Command != "tether" {
				t.Errorf("%s starts %s", span, server.Command)
			}
			commands = append(commands, server.Args)
		}
	}
	return commands
}
