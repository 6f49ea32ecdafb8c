// Package wording rewords errors of the protocol for people.
//
// On the wire, errors have the words of the reference server: numbers of the system's
// errors, phrases of its decoder, its own name. Programs may look for these words, so
// they stay. Before such a text is shown to a person or to a model, this package
// rewords it. An unknown text is left as it is.
//
// Where a change belongs: a new phrase of the protocol is a row of rules in
// wording.go; json.go is about errors of encoding/json.
package wording

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// osError matches an error of the operating system in the protocol's form.
var osError = when(`([^:]*) \(os error (\d+)\)`)

// OSError returns the number of the system's error in a message. The system is the
// server's; the numbers of common errors are the same on all Unix systems.
func OSError(message string) (number syscall.Errno, ok bool) {
	m := osError().FindStringSubmatch(message)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(m[2], 10, 31)
	return syscall.Errno(n), err == nil
}

// Text rewords a message of the protocol.
func Text(message string) string {
	if text, ok := startText(message); ok {
		return text
	}
	for i, from := range expressions() {
		message = from.ReplaceAllString(message, rules[i].to)
	}
	return osError().ReplaceAllStringFunc(message, func(part string) string {
		return systemText(osError().FindStringSubmatch(part)[1])
	})
}

// systemText returns the text of an error of the system in lower case: "I/O error"
// stays.
func systemText(text string) string {
	trimmed := strings.TrimLeft(text, " ")
	blanks := text[:len(text)-len(trimmed)]
	first, size := utf8.DecodeRuneInString(trimmed)
	if second, _ := utf8.DecodeRuneInString(trimmed[size:]); unicode.IsLower(second) {
		trimmed = string(unicode.ToLower(first)) + trimmed[size:]
	}
	return blanks + trimmed
}

// A rule replaces a phrase, which is a regular expression.
type rule struct{ from, to string }

// when compiles an expression when it is first used: most processes that contain this
// package, such as the helpers of a sandbox, never show an error of the protocol.
func when(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// rules are applied one after the other.
var rules = []rule{
	{"^exec-server stub does not implement `(.*)` yet$",
		"the server does not know the request `$1`: it is older than this tether, or another program"},
	{"^exec-server client does not implement `initialize` yet$", // our own response to our own request
		"the other side repeats each message: it is not a tether server"},
	{`^unknown session id .*$`,
		"the server does not know the session any more: it was restarted, or there was no connection for too long; what ran in the session has ended"},
	{`^unknown process id (.*)$`, "the server has no process $1 any more"},
	{`^session \S+ is already attached to another connection$`, "another client is connected to the session"},
	{"^cwd URI `(.*)` is not valid on this exec-server host: .*$", "the working directory $1 is not a path of the server's system"},
	{"^path `(.*)` is not a file$", "not a file"},
	{`'[^']*' is invalid on '\w+'$`, "not a path of the server's system"},
	{`invalid URI: relative URL without a base$`, "a path must be absolute"},
	{`^missing program for (?:pipe|PTY) spawn$`, "the name of the program is empty"},
	{`^(?:nul byte found in provided data|data provided contains a nul byte)$`, "an argument or a variable contains a NUL byte"},
	{`^internal error$`, "the server has failed; its log says why"},
	{"missing field (`[^`]*`)", "$1 is missing"},
	{"invalid value: integer `([^`]*)`, expected (.*)", "expected $2, not $1"},
	{`invalid (?:type|value): (.*), expected (.*)`, "expected $2, not $1"},
	{"unknown variant (`[^`]*`), expected", "$1 is not known, expected"},
	{`\bexpected (?:struct \w+|map|internally tagged enum \w+)\b`, "expected an object"},
	{`\bnot map\b`, "not an object"},
	{`\bexpected a sequence\b`, "expected a list"},
	{`\bnot sequence\b`, "not a list"},
	{`\bexpected (?:[ui](?:8|16|32|64|128|size)|nonzero \w+)\b`, "expected a whole number in range"},
	{` at line \d+ column \d+`, ""},
	{`\bthis exec-server host\b`, "the server's system"},
	{`\bfrom exec-server (?:websocket \S+|stdio):`, "from the client:"},
}

// expressions returns the compiled expressions of the rules. It compiles them when the first message is reworded, for
// the same reason as when.
var expressions = sync.OnceValue(func() (list []*regexp.Regexp) {
	for _, r := range rules {
		list = append(list, regexp.MustCompile(r.from))
	}
	return list
})

// startError matches the form in which tether servers report why a command
// was not started.
var startError = when(`^(.*) \(os error (\d+)\): (working directory|program|the interpreter or loader of program) ("(?:[^"\\]|\\.)*")(?: in PATH ("(?:[^"\\]|\\.)*"))?$`)

// startText rewords why a command could not be started.
func startText(message string) (text string, ok bool) {
	m := startError().FindStringSubmatch(message)
	if m == nil {
		return "", false
	}
	why, what, name, path := systemText(m[1]), m[3], unquote(m[4]), unquote(m[5])
	missing := m[2] == strconv.Itoa(int(syscall.ENOENT))
	switch {
	case what == "working directory" && missing:
		return "the working directory " + name + " does not exist", true
	case what == "working directory" && m[2] == strconv.Itoa(int(syscall.ENOTDIR)):
		return "the working directory " + name + " is not a directory", true
	case what == "working directory":
		return "the working directory " + name + " cannot be used: " + why, true
	case what != "program":
		return name + " cannot be executed: its interpreter or loader does not exist", true
	case missing && path != "":
		return name + ": not found in PATH (" + path + ")", true
	case missing:
		return name + ": " + why, true
	}
	return name + " cannot be executed: " + why, true
}

func unquote(text string) string {
	if inside, err := strconv.Unquote(text); err == nil {
		return inside
	}
	return text
}

// Error rewords an error that has a text of the protocol. errors.Is and errors.As work
// as with err.
func Error(err error) error {
	if err == nil {
		return nil
	}
	return &reworded{err}
}

type reworded struct{ error }

func (e *reworded) Error() string { return Text(e.error.Error()) }
func (e *reworded) Unwrap() error { return e.error }
