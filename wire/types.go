package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// NoParams are the parameters of methods that have none: absent, null or {}.
type NoParams struct{}

func (*NoParams) decodeWire(d *decoder) error {
	start := d.pos
	switch d.peek() {
	case 'n':
		return d.word("null")
	case '{':
		empty := true
		err := d.members("unit", func([]byte) error {
			empty = false
			return d.value()
		})
		if err != nil || empty {
			return err
		}
		d.pos = start
	}
	return d.mismatch("unit")
}

// Base64 is binary data. In JSON it is standard base64 with padding and zero trailing bits,
// without line breaks.
type Base64 []byte

var strictBase64 = base64.StdEncoding.Strict()

func (b *Base64) decodeWire(d *decoder) error {
	text, err := d.bytes()
	if err != nil {
		return err
	}
	*b, err = decodeBase64(text)
	return err
}

// DecodeBase64 decodes the text of binary data. Errors have the texts of the reference.
func DecodeBase64(text string) ([]byte, error) { return decodeBase64([]byte(text)) }

// decodeBase64 returns a non-nil slice or an error.
func decodeBase64(text []byte) ([]byte, error) {
	if len(text)%4 != 0 {
		return nil, base64Error(text)
	}
	out := make([]byte, strictBase64.DecodedLen(len(text)))
	n, err := strictBase64.Decode(out, text)
	// The standard library skips line breaks; then the result is shorter.
	if err != nil || n != len(text)/4*3-padding(text) {
		return nil, base64Error(text)
	}
	return out[:n], nil
}

func padding(text []byte) int {
	n := 0
	for n < 2 && n < len(text) && text[len(text)-1-n] == '=' {
		n++
	}
	return n
}

// base64Error is the error of text that decodeBase64 has refused, with the text of the reference.
func base64Error(text []byte) error {
	invalid := func(i int) error {
		return fmt.Errorf("Invalid symbol %d, offset %d.", text[i], i)
	}
	last := len(text) - 1
	if len(text)%4 == 1 && text[last] != '=' && base64Digit(text[last]) < 0 {
		return invalid(last) // most likely a line break
	}
	tail := max(0, last/4*4) // start of the last group, the only one that may be padded
	firstPad := -1
	for i, c := range text {
		switch {
		case c == '=' && i >= tail && firstPad < 0 && i%4 >= 2:
			firstPad = i
		case c == '=' && firstPad >= 0:
		case firstPad >= 0:
			return invalid(firstPad)
		case base64Digit(c) < 0:
			return invalid(i)
		}
	}
	digits := len(text)
	if firstPad >= 0 {
		digits = firstPad
	}
	switch {
	case digits%4 == 1:
		return fmt.Errorf("Invalid input length: %d", digits)
	case len(text)%4 != 0:
		return errors.New("Invalid padding")
	}
	return fmt.Errorf("Invalid last symbol %d, offset %d.", text[digits-1], digits-1)
}

func base64Digit(c byte) int {
	return strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c)
}

// Inherit says which of the server's variables a child starts with.
type Inherit string

// The values of Inherit.
const (
	InheritAll  Inherit = "all"
	InheritCore Inherit = "core" // PATH, HOME and similar ones
	InheritNone Inherit = "none"
)

func (Inherit) variants() []string { return []string{"core", "all", "none"} }

// SignalNamed is a signal of process/signal.
type SignalNamed string

// SignalInterrupt is the only SignalNamed; it stands for SIGINT.
const SignalInterrupt SignalNamed = "interrupt"

func (SignalNamed) variants() []string { return []string{string(SignalInterrupt)} }

// SignalAny is the name of a POSIX signal, like "SIGTERM". Peers may omit SIG and use lower case;
// the value is always the full name.
type SignalAny string

var signalNames = []string{
	"SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGKILL",
	"SIGPIPE", "SIGPOLL", "SIGPROF", "SIGQUIT", "SIGSEGV", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP",
	"SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ",
}

// ParseSignal returns the signal with this name.
func ParseSignal(name string) (SignalAny, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if !slices.Contains(signalNames, full) {
		return "", fmt.Errorf("unknown signal `%s`", clip([]byte(name)))
	}
	return SignalAny(full), nil
}

func (s *SignalAny) decodeWire(d *decoder) error {
	name, err := d.text()
	if err != nil {
		return err
	}
	*s, err = ParseSignal(name)
	return err
}

// Cwd is the working directory of a process/start. Unlike every other path it
// may come as a plain absolute path instead of a path URI.
type Cwd struct {
	uri    PathURI
	native string // the plain path, if it came as one
}

// CwdOf returns the Cwd of an absolute native path.
func CwdOf(native string) Cwd {
	return Cwd{uri: PathURI{PathToURI(native)}, native: native}
}

// String returns the directory as a normalised URI.
func (c Cwd) String() string { return c.uri.String() }

// Native returns the directory on this machine. A plain path is returned unchanged, dot segments
// included: if it contains a link, removing them lexically would change its meaning.
func (c Cwd) Native() (string, error) {
	if c.native != "" {
		return c.native, nil
	}
	return c.uri.Native()
}

// AppendJSON appends the URI, the form that the reference understands.
func (c Cwd) AppendJSON(b []byte) []byte { return c.uri.AppendJSON(b) }

func (c *Cwd) decodeWire(d *decoder) error {
	s, err := d.text()
	if err != nil {
		return err
	}
	if isAbsolute(s) {
		*c = CwdOf(s)
		return nil
	}
	c.uri, err = ParsePathURI(s)
	return err
}

// ParseCwd parses the path URI of a directory.
func ParseCwd(uri string) (Cwd, error) {
	u, err := ParsePathURI(uri)
	return Cwd{uri: u}, err
}
