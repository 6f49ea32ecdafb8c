package wire

import (
	"errors"
	"math"
	"path/filepath"
	"strconv"
)

// The app-server's process API. It shares the envelope with the exec server and
// differs in how requests are decoded: a request that cannot be decoded, also because
// its method is unknown, is an invalid request.

// The methods of the process API. [MethodInitialize] and [MethodInitialized] are
// shared with the exec server, by name only.
const (
	MethodSpawn      = "process/spawn"
	MethodWriteStdin = "process/writeStdin"
	MethodResizePty  = "process/resizePty"
	MethodKill       = "process/kill"
)

// The notifications of the process API. Exited has the name of an exec-server
// notification and other members.
const (
	NoteOutputDelta = "process/outputDelta"
	NoteExited      = NoteProcessExited
)

// CodeOverloaded means that too many requests are under way; the client may try again later.
const CodeOverloaded = -32001

// AppInitializeParams begin a connection to an app-server.
type AppInitializeParams struct {
	ClientInfo   AppClientInfo    `json:"clientInfo"`
	Capabilities *AppCapabilities `json:"capabilities"`
}

// AppClientInfo names the client.
type AppClientInfo struct {
	Name    string  `json:"name"`
	Title   *string `json:"title"`
	Version string  `json:"version"`
}

// AppCapabilities are what a client can do and wants.
type AppCapabilities struct {
	ExperimentalAPI           bool      `json:"experimentalApi" wire:"default"` // the process API is experimental
	OptOutNotificationMethods *[]string `json:"optOutNotificationMethods"`
}

// AppInitializeResult answers initialize.
type AppInitializeResult struct {
	UserAgent      string `json:"userAgent"`
	CodexHome      string `json:"codexHome"`
	PlatformFamily string `json:"platformFamily"` // "unix" or "windows"
	PlatformOS     string `json:"platformOs"`     // "linux", "macos" or "windows"
}

// ProcessSpawnParams start a command under a handle that the client chooses.
type ProcessSpawnParams struct {
	Command            []string             `json:"command"`
	ProcessHandle      string               `json:"processHandle"`
	Cwd                AbsolutePath         `json:"cwd"`
	TTY                bool                 `json:"tty" wire:"default"`
	StreamStdin        bool                 `json:"streamStdin" wire:"default"`
	StreamStdoutStderr bool                 `json:"streamStdoutStderr" wire:"default"`
	OutputBytesCap     OutputCap            `json:"outputBytesCap" wire:"default"`
	TimeoutMs          TimeoutMs            `json:"timeoutMs" wire:"default"`
	Env                EnvOverrides         `json:"env" wire:"default"`
	Size               *ProcessTerminalSize `json:"size"`
}

// ProcessTerminalSize is the size of a terminal in characters.
type ProcessTerminalSize struct {
	Rows Dimension `json:"rows"`
	Cols Dimension `json:"cols"`
}

// ProcessWriteStdinParams write to a command's input, close it, or both.
type ProcessWriteStdinParams struct {
	ProcessHandle string  `json:"processHandle"`
	DeltaBase64   *string `json:"deltaBase64"` // decoded later: malformed base64 has its own error
	CloseStdin    bool    `json:"closeStdin" wire:"default"`
}

// ProcessResizePtyParams change the size of a command's terminal.
type ProcessResizePtyParams struct {
	ProcessHandle string              `json:"processHandle"`
	Size          ProcessTerminalSize `json:"size"`
}

// ProcessKillParams name a command.
type ProcessKillParams struct {
	ProcessHandle string `json:"processHandle"`
}

// ProcessOutputDelta is the notification process/outputDelta. The server writes it without this type.
type ProcessOutputDelta struct {
	ProcessHandle string `json:"processHandle"`
	Stream        string `json:"stream"` // StreamStdout or StreamStderr; a terminal has StreamStdout
	DeltaBase64   Base64 `json:"deltaBase64"`
	CapReached    bool   `json:"capReached"` // no more output of the stream follows, although there may be more
}

// ProcessEnded is the notification process/exited of the process API, the last one about a command. The server
// writes it without this type.
type ProcessEnded struct {
	ProcessHandle       string `json:"processHandle"`
	ExitCode            int    `json:"exitCode"`
	OutputDrainTimedOut bool   `json:"outputDrainTimedOut"` // another process still had the output open, and some of it may be missing
	Stdout              string `json:"stdout"`              // empty if it was streamed
	StdoutCapReached    bool   `json:"stdoutCapReached"`
	Stderr              string `json:"stderr"` // empty if it was streamed
	StderrCapReached    bool   `json:"stderrCapReached"`
}

// DecodeAppParams is [Decode] for a request to an app-server, whose errors have
// other texts. The text is to be sent after [InvalidAppRequest].
func DecodeAppParams(params []byte, v any) error {
	if len(params) == 0 || string(params) == "null" {
		return missingField("params")
	}
	d := decoder{scanner: scanner{data: params}, tagged: true}
	d.space()
	if err := d.into(v); err != nil {
		return err
	}
	return d.end()
}

// InvalidAppRequest begins every answer to a request that cannot be decoded.
const InvalidAppRequest = "Invalid request: "

// UnknownAppMethod is the error of a method that is not among the known ones.
func UnknownAppMethod(name string, known []string) error {
	return unknownVariant([]byte(name), known)
}

// Quote returns s in quotes, as the reference's errors do.
func Quote(s string) string { return quote(s) }

// AbsolutePath is an absolute native path, cleaned lexically.
type AbsolutePath string

var errNoBasePath = errors.New("AbsolutePathBuf deserialized without a base path")

func (p *AbsolutePath) decodeWire(d *decoder) error {
	if d.peek() != '"' {
		return d.mismatch("path string")
	}
	s, err := d.text()
	if err != nil {
		return err
	}
	if !filepath.IsAbs(s) {
		return errNoBasePath
	}
	*p = AbsolutePath(filepath.Clean(s))
	return nil
}

// A Wish says whether a client has asked for a limit.
type Wish uint8

// The values of Wish.
const (
	Default Wish = iota // the member is absent
	NoLimit             // null
	Given               // a number
)

// OutputCap is how much output of a stream a client wants.
type OutputCap struct {
	Wish  Wish
	Bytes int64 // not negative; larger numbers become the largest int64
}

func (c *OutputCap) decodeWire(d *decoder) error {
	if d.peek() == 'n' {
		*c = OutputCap{Wish: NoLimit}
		return d.word("null")
	}
	n, err := d.unsigned("usize", 64)
	*c = OutputCap{Given, int64(min(n, math.MaxInt64))}
	return err
}

// TimeoutMs is how long a client lets a command run.
type TimeoutMs struct {
	Wish Wish
	Ms   int64 // may be negative; the method refuses that
}

func (t *TimeoutMs) decodeWire(d *decoder) error {
	if d.peek() == 'n' {
		*t = TimeoutMs{Wish: NoLimit}
		return d.word("null")
	}
	text, err := d.integer("i64")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return outOfRange(text, "i64")
	}
	*t = TimeoutMs{Given, n}
	return nil
}

// Dimension is a number of rows or columns.
type Dimension uint16

func (n *Dimension) decodeWire(d *decoder) error {
	v, err := d.unsigned("u16", 16)
	*n = Dimension(v)
	return err
}

// EnvOverrides are variables to set, and with null to remove.
type EnvOverrides map[string]*string

func (e *EnvOverrides) decodeWire(d *decoder) error {
	if d.peek() == 'n' {
		*e = nil
		return d.word("null")
	}
	overrides := EnvOverrides{}
	err := d.members("a map", func(key []byte) error {
		if d.peek() == 'n' {
			overrides[string(key)] = nil
			return d.word("null")
		}
		value, err := d.text()
		overrides[string(key)] = &value
		return err
	})
	if err == nil {
		*e = overrides
	}
	return err
}

// integer reads the text of a whole number.
func (d *decoder) integer(expected string) (string, error) {
	start := d.pos
	text, err := d.literal(expected)
	if err == nil && !isInteger(text) {
		d.pos = start
		err = d.mismatch(expected)
	}
	return text, err
}

func (d *decoder) unsigned(expected string, bits int) (uint64, error) {
	text, err := d.integer(expected)
	if err != nil {
		return 0, err
	}
	if text == "-0" { // the reference accepts it
		text = "0"
	}
	n, err := strconv.ParseUint(text, 10, bits)
	if err != nil {
		return 0, outOfRange(text, expected)
	}
	return n, nil
}

func outOfRange(text, expected string) error {
	return errors.New("invalid value: integer `" + text + "`, expected " + expected)
}
