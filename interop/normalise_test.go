//go:build interop

package interop_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// longOutput is the length above which output is compared by size and sum.
const longOutput = 400

var (
	uuidPattern = regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	portPattern = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	panicked    = regexp.MustCompile(`(thread '[a-z]+') \([0-9]+\) panicked`)
	ignoredSet  = regexp.MustCompile(`(SigIgn:(?:\t|\\t))([0-9a-f]{16})`)
	ownPattern  = regexp.MustCompile(`(\$BENCH/[a-z]+)[0-9]{4}\b`) // see ownDir
)

// expand replaces $CWD by the URI of the working directory and $DIR by its path.
func expand(s string) string {
	return strings.NewReplacer("$CWD", "file://"+suite.work, "$DIR", suite.work).Replace(s)
}

// normalise takes out what differs from run to run: ids, ports, directories.
func normalise(s string) string {
	if suite.dir != "" { // empty while the tables with expected values are made
		s = strings.ReplaceAll(s, suite.work, "$DIR")
		s = strings.ReplaceAll(s, suite.dir, "$BENCH")
		s = ownPattern.ReplaceAllString(s, "$1")
	}
	s = strings.ReplaceAll(s, hostTemp(""), "/tether-interop-PID")
	s = ignoredSet.ReplaceAllStringFunc(s, withoutInternalSignals)
	s = panicked.ReplaceAllString(s, "$1 (TID) panicked")
	if strings.Contains(s, "-4") { // most of a long text is base64, which the pattern would pass byte by byte
		s = uuidPattern.ReplaceAllString(s, "UUID")
	}
	return portPattern.ReplaceAllString(s, "127.0.0.1:PORT")
}

// withoutInternalSignals takes the signals of the C library, 32 and 33, out of a set of
// ignored ones: a process that make has started ignores the first of them.
func withoutInternalSignals(line string) string {
	m := ignoredSet.FindStringSubmatch(line)
	set, _ := strconv.ParseUint(m[2], 16, 64)
	return fmt.Sprintf("%s%016x", m[1], set&^(3<<31))
}

// canonical writes JSON with sorted keys and without HTML escapes.
func canonical(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "not JSON: " + err.Error()
	}
	return strings.TrimSpace(b.String())
}

// withoutID returns a reply with sorted members and without its id, the details of environmentInfo, and tether's additive members.
func withoutID(reply string) string {
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(reply))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return reply
	}
	delete(m, "id")
	if result, ok := m["result"].(map[string]any); ok {
		for _, k := range []string{"tether", "tetherUsage"} {
			delete(result, k)
		}
		if info, ok := result["environmentInfo"].(map[string]any); ok {
			result["environmentInfo"] = comparableInfo(info)
		}
		if _, ok := result["shell"]; ok {
			m["result"] = comparableInfo(result)
		}
	}
	return canonical(m)
}

// withID is withoutID with the id in front.
func withID(reply string) string {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	json.Unmarshal([]byte(reply), &m)
	return string(m.ID) + " " + withoutID(reply)
}

// comparableInfo keeps the members of environmentInfo that describe the host.
func comparableInfo(info map[string]any) map[string]any {
	kept := map[string]any{}
	for _, k := range []string{"shell", "cwd", "userHomeDir", "platformOs", "temporaryDirectories", "tempDir"} {
		kept[k] = info[k]
	}
	if shell, ok := info["shell"].(map[string]any); ok && shell["path"] == loginShell() && shell["name"] == path.Base(loginShell()) {
		kept["shell"] = "LOGIN"
	}
	return kept
}

// loginShell returns the login shell of the user that runs the tests.
var loginShell = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[2] == strconv.Itoa(os.Geteuid()) {
			return f[6]
		}
	}
	return "/bin/sh"
})

// withoutText drops the message of an error reply.
func withoutText(value string) string {
	var m map[string]any
	if json.Unmarshal([]byte(value), &m) != nil {
		return value
	}
	if e, ok := m["error"].(map[string]any); ok {
		delete(e, "message")
		return canonical(m)
	}
	if _, ok := m["stderr"]; ok {
		delete(m, "stderr")
		return canonical(m)
	}
	return value
}

// outputOf joins a process's chunks in order of their numbers; stream "" is all.
func outputOf(events []processEvent, stream string) string {
	sorted := append([]processEvent(nil), events...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].Params.Seq < sorted[j].Params.Seq })
	var b strings.Builder
	for _, e := range sorted {
		if e.Method == "process/output" && (stream == "" || e.Params.Stream == stream) {
			b.Write(e.Params.Chunk)
		}
	}
	return b.String()
}

// summarise turns a process's events into one comparable line.
func summarise(events []processEvent, closed bool) string {
	m := map[string]any{"numbers": numbering(events)}
	if !closed {
		m["closed"] = "never"
	}
	for _, e := range events {
		if e.Method == "process/output" {
			m[e.Params.Stream] = shorten(outputOf(events, e.Params.Stream))
		}
		if e.Method == "process/exited" {
			m["exitCode"], m["sandboxDenied"] = e.Params.ExitCode, e.Params.SandboxDenied
		}
	}
	return canonical(m)
}

func shorten(s string) string {
	if !utf8.ValidString(s) {
		s = strconv.Quote(s)
	}
	text := normalise(s) // the length of a directory's name is not compared
	if len(text) <= longOutput {
		return s
	}
	return fmt.Sprintf("%d bytes, SHA-256 %x", len(text), sha256.Sum256([]byte(text)))
}

// numbering reports whether the numbers run from 1 without gap or repetition, and whether exit and close came once, with close last.
func numbering(events []processEvent) string {
	seen := map[int]int{}
	highest, closed, exits := 0, 0, 0
	for _, e := range events {
		seen[e.Params.Seq]++
		highest = max(highest, e.Params.Seq)
		switch e.Method {
		case "process/closed":
			closed = e.Params.Seq
		case "process/exited":
			exits++
		}
	}
	for n := 1; n <= highest; n++ {
		if seen[n] != 1 {
			return fmt.Sprintf("number %d came %d times", n, seen[n])
		}
	}
	if exits != 1 || closed != highest {
		return fmt.Sprintf("%d exits, closed %d of %d", exits, closed, highest)
	}
	return "sound"
}
