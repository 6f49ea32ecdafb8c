package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// notRun has the commands of README.md that TestReadme does not run, each with the reason. It runs every other one.
var notRun = map[string]string{
	"curl -fsSL https://github.com/tetherexec/tether/releases/latest/download/install.sh | sh": "needs the internet; TestInstall of tools/release runs install.sh",
	"make build":                   "the test builds the program itself",
	"make run":                     "installs a package and serves until it is stopped",
	"make test":                    "runs this test",
	"make run LISTEN=" + readmeURL: "the port may be in use; the test starts a server on a free port",
	"bin/tether run --url ssh://build -- make test": "needs another machine",
	"bin/tether doctor":                             "TestDoctorPasses runs it; its checks have time limits",
	"bin/tether shell --url ssh://build":            "needs another machine",
	"bin/tether run --allow-host example.com --allow-host '*.internal:443' -- make deps": "needs the internet",
}

// readmeFails has the commands of README.md that are meant to fail, with their exit codes.
var readmeFails = map[string]int{
	"bin/tether sandbox run --profile read-only -- sh -c 'date; touch here'": 1,
}

// readmeURL is the server that README.md uses. The test puts the address of its own server in its place.
const readmeURL = "ws://127.0.0.1:7070"

// readmeLimit bounds a command of README.md; none comes near it.
const readmeLimit = 2 * time.Minute

// The commands in README.md work, and print the output that stands below them.
func TestReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := readmeCommands(t, string(page))
	if len(commands) < 10 {
		t.Fatalf("found only %d commands in README.md", len(commands))
	}
	reader := newReadmeReader(t)
	for _, c := range commands {
		if _, skip := notRun[c.line]; skip {
			if c.output != "" {
				t.Errorf("README.md shows output of a command that is not run: %s", c.line)
			}
			continue
		}
		name, _, _ := strings.Cut(c.line, "\n")
		t.Run(name, func(t *testing.T) { reader.try(t, c) })
	}
	isThere := func(line string) bool {
		return slices.ContainsFunc(commands, func(c readmeCommand) bool { return c.line == line })
	}
	for line := range notRun {
		if !isThere(line) {
			t.Errorf("notRun has a command that is not in README.md: %s", line)
		}
	}
	for line := range readmeFails {
		if !isThere(line) {
			t.Errorf("readmeFails has a command that is not in README.md: %s", line)
		}
	}
}

// A readmeCommand is a command that README.md shows, and the output that it shows for it, if any.
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
		t.Fatalf("README.md: a shell does not understand: %s", command)
	}
	return commands
}

// A readmeReader does what README.md says, in a directory that has bin/tether and docs.
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
	// A person waits for a second. The test waits for the last event, because the machine may be busy.
	script := fmt.Sprintf("#!/bin/sh\ni=0\nuntil grep -q process/closed \"$README_OUTPUT\" || [ $i = 3000 ]; do i=$((i+1)); %s 0.01; done\n", sleep)
	err = errors.Join(
		os.Mkdir(filepath.Join(r.work, "bin"), 0o755),
		os.Symlink(released(t), filepath.Join(r.work, "bin", "tether")),
		os.Symlink(docs, filepath.Join(r.work, "docs")),
		os.WriteFile(filepath.Join(r.shims, "sleep"), []byte(script), 0o755),
	)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// try runs a command and compares its exit code and output with README.md.
func (r *readmeReader) try(t *testing.T, c readmeCommand) {
	line, compare := c.line, compareOutput
	switch {
	case strings.Contains(line, "tether sandbox"):
		tethertest.NeedBubblewrap(t)
	case strings.HasPrefix(line, "node "):
		if text, err := exec.Command("node", "--experimental-websocket", "-e", "WebSocket").CombinedOutput(); err != nil {
			need.CannotRun(t, "there is no node with WebSockets: %v %s", err, text)
		}
		server := startTether(t, "serve", "--listen", "ws://127.0.0.1:0")
		line, compare = strings.ReplaceAll(line, readmeURL, server.line(t)), compareTour
	}
	stdout, code, stderr := r.shell(t, line)
	if code != readmeFails[c.line] {
		t.Errorf("exit code %d, want %d; standard output:\n%s\nstandard error:\n%s", code, readmeFails[c.line], stdout, stderr)
	}
	if c.output != "" {
		compare(t, stdout, c.output)
	}
}

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
	cmd.Env = append(slices.Clone(r.env), beTether+"=", "README_OUTPUT="+out.Name(), "PATH="+r.shims+string(os.PathListSeparator)+os.Getenv("PATH"))
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

// sessionID is the id of a session, whole or cut off as in README.md.
var sessionID = regexp.MustCompile(`[0-9a-f]{8}-(…|[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})`)

// compareOutput compares what a command has printed with README.md, where … stands for text that is left out.
func compareOutput(t *testing.T, got, want string) {
	t.Helper()
	pattern := regexp.QuoteMeta(sessionID.ReplaceAllString(want, "ID"))
	pattern = "^" + strings.ReplaceAll(pattern, "…", ".*") + "$"
	if got := sessionID.ReplaceAllString(got, "ID"); !regexp.MustCompile(pattern).MatchString(got) {
		t.Errorf("README.md shows\n%s\nthe command has printed\n%s", want, got)
	}
}

// compareTour compares what docs/tour.mjs has printed with README.md. On a busy machine the connection may break at
// another line than in README.md. So the test checks the steps, the lines and their numbers each for itself.
func compareTour(t *testing.T, got, want string) {
	t.Helper()
	steps, lines := parseTour(t, got)
	wantSteps, wantLines := parseTour(t, want)
	if !slices.Equal(steps, wantSteps) || !slices.Equal(lines, wantLines) {
		t.Errorf("README.md shows\n%s\nthe command has printed\n%s", want, got)
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
