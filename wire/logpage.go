package wire

// ReadAnyParams asks for a page of the events of a process that the server still has, of any session. Reading
// has no effect on the process or its client. At most one of AfterSeq and BeforeSeq is given; without both, the page begins with the oldest
// event.
type ReadAnyParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
	AfterSeq  *uint64 `json:"afterSeq,omitempty"`              // the oldest events after this number
	BeforeSeq *uint64 `json:"beforeSeq,omitempty"`             // the newest events before this number, which may be larger than any
	MaxBytes  *uint64 `json:"maxBytes,omitempty" wire:"usize"` // of all events; nil: DefaultPage. At least one event is returned
}

// Sizes of pages. Each event counts its output and PagedEvent.
const (
	DefaultPage = 256 << 10
	MaxPage     = 1 << 20 // a larger number in the parameters is reduced to it
	PagedEvent  = 64
)

// ReadAnyResult answers tether/process/read.
type ReadAnyResult struct {
	Events   []LogEvent `json:"events"`   // in their order, without gaps
	FirstSeq uint64     `json:"firstSeq"` // the oldest event that the server still has
	NextSeq  uint64     `json:"nextSeq"`  // the next number the process will assign
}

// Values of LogEvent.Kind. Absent: output.
const (
	EventExited = "exited"
	EventClosed = "closed"
)

// A LogEvent is one event of a process.
type LogEvent struct {
	Seq    uint64 `json:"seq"`
	TimeMs int64  `json:"timeMs"` // Unix time
	Kind   string `json:"kind,omitempty" wire:"default"`

	// Of output.
	Stream string `json:"stream,omitempty" wire:"default"`
	Chunk  Base64 `json:"chunk,omitempty" wire:"default"`

	// Of the exit; as in ProcessExited.
	ExitCode      *int        `json:"exitCode,omitempty"`
	SandboxDenied bool        `json:"sandboxDenied,omitempty" wire:"default"`
	TetherDenial  *DenialFact `json:"tetherDenial,omitempty"`
	TetherLimit   *string     `json:"tetherLimit,omitempty"`
	TetherUsage   *Usage      `json:"tetherUsage,omitempty"`
	TetherFailure *string     `json:"tetherFailure,omitempty"`

	// Of the close; as in ProcessClosed.
	TetherSurvivors []Survivor `json:"tetherSurvivors,omitempty" wire:"default"`
}
