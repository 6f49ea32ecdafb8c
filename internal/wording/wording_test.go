package wording

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

func TestText(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"No such file or directory (os error 2)":                                                  "no such file or directory",
		"I/O error (os error 5)":                                                                  "I/O error",
		"write 3 bytes at 7: No space left on device (os error 28)":                               "write 3 bytes at 7: no space left on device",
		`No such file or directory (os error 2): working directory "/srv/a \"b\""`:                `the working directory /srv/a "b" does not exist`,
		`Not a directory (os error 20): working directory "/etc/passwd"`:                          "the working directory /etc/passwd is not a directory",
		`Permission denied (os error 13): working directory "/root"`:                              "the working directory /root cannot be used: permission denied",
		`No such file or directory (os error 2): program "nosuch" in PATH "/usr/bin:/bin"`:        "nosuch: not found in PATH (/usr/bin:/bin)",
		`No such file or directory (os error 2): program "./nosuch"`:                              "./nosuch: no such file or directory",
		`Permission denied (os error 13): program "/etc/passwd"`:                                  "/etc/passwd cannot be executed: permission denied",
		`No such file or directory (os error 2): the interpreter or loader of program "./bad"`:    "./bad cannot be executed: its interpreter or loader does not exist",
		"unknown session id 01890000-0000-7000-8000-000000000000":                                 "the server does not know the session any more: it was restarted, or there was no connection for too long; what ran in the session has ended",
		"unknown process id web":                                                                  "the server has no process web any more",
		"exec-server client does not implement `initialize` yet":                                  "the other side repeats each message: it is not a tether server",
		"exec-server stub does not implement `tether/why` yet":                                    "the server does not know the request `tether/why`: it is older than this tether, or another program",
		"cwd URI `file:///C:/x` is not valid on this exec-server host: 'x' is invalid on 'linux'": "the working directory file:///C:/x is not a path of the server's system",
		"'file://h/x' is invalid on 'linux'":                                                      "not a path of the server's system",
		"bad: invalid URI: relative URL without a base":                                           "bad: a path must be absolute",
		"missing program for PTY spawn":                                                           "the name of the program is empty",
		"missing field `argv`":                                                                    "`argv` is missing",
		"invalid type: map, expected a sequence":                                                  "expected a list, not an object",
		"invalid type: string \"x\", expected u64":                                                `expected a whole number in range, not string "x"`,
		"invalid value: integer `-1`, expected u64":                                               "expected a whole number in range, not -1",
		"unknown variant `a`, expected `b` or `c`":                                                "`a` is not known, expected `b` or `c`",
		"limit reached: 4096 processes":                                                           "limit reached: 4096 processes",
		"cannot write /home/me/exec-server/x":                                                     "cannot write /home/me/exec-server/x",
	} {
		if got := Text(message); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", message, got, want)
		}
	}
}

// The recorded answers of the reference, reworded, contain no phrase that only
// developers know.
func TestTextOfRecordedAnswers(t *testing.T) {
	t.Parallel()
	phrases := regexp.MustCompile(`exec-server|os error|missing field|invalid type|invalid value: integer|unknown variant|at line \d+ column`)
	messages := regexp.MustCompile(`"message":("(?:[^"\\]|\\.)*")`)
	known := 0
	err := filepath.WalkDir("../../interop/testdata", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range messages.FindAllSubmatch(text, -1) {
			var message string
			if json.Unmarshal(m[1], &message) != nil || !phrases.MatchString(message) {
				continue
			}
			known++
			if got := Text(message); phrases.MatchString(got) {
				t.Errorf("%s\nbecame %s", message, got)
			}
		}
		return err
	})
	if err != nil || known < 20 {
		t.Errorf("%d messages were reworded, %v", known, err)
	}
}

func TestOSError(t *testing.T) {
	t.Parallel()
	if number, ok := OSError(`Permission denied (os error 13): program "x"`); !ok || number != syscall.EACCES {
		t.Errorf("%v, %t", number, ok)
	}
	if number, ok := OSError("limit reached"); ok {
		t.Error(number)
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	err := Error(&fs.PathError{Op: "open", Path: "x", Err: errors.New("Not a directory (os error 20)")})
	if e, ok := errors.AsType[*fs.PathError](err); !ok || e.Path != "x" || err.Error() != "open x: not a directory" {
		t.Error(err)
	}
	if Error(nil) != nil {
		t.Error("no error became one")
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name":1}`:         "`name` must be a string, not a number",
		`{"count":"x"}`:      "`count` must be a whole number, not a string",
		`{"count":1.5}`:      "`count` must be a whole number, not a number 1.5",
		`{"size":-1}`:        "`size` must be a whole number that is not negative, not a number -1",
		`{"flag":[]}`:        "`flag` must be true or false, not a list",
		`{"list":{}}`:        "`list` must be a list, not an object",
		`{"inner":true}`:     "`inner` must be an object, not true or false",
		`{"inner":{"x":[]}}`: "`inner.x` must be a number, not a list",
		`[]`:                 "expected an object, not a list",
		`{`:                  "unexpected end of JSON input",
	} {
		var into struct {
			Name  string   `json:"name"`
			Count *int     `json:"count"`
			Size  uint     `json:"size"`
			Flag  bool     `json:"flag"`
			List  []string `json:"list"`
			Inner struct {
				X float64 `json:"x"`
			} `json:"inner"`
		}
		if err := JSON(json.Unmarshal([]byte(text), &into)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
