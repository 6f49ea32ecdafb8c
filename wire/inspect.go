package wire

// StateParams asks what a process is doing at this moment.
type StateParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
}

// StateResult answers tether/process/state.
type StateResult struct {
	State       string      `json:"state"` // as in ProcessInfo
	ExitCode    *int        `json:"exitCode,omitempty"`
	StateDetail StateDetail `json:"stateDetail"`
}

// Values of StateDetail.Activity. Clients must accept others.
const (
	ActivityUnknown          = "unknown"          // nothing could be observed
	ActivityRunning          = "running"          // nothing was found that blocks it
	ActivityUsingCPU         = "usingCpu"         // on a processor, or ready for it
	ActivityWaitingForInput  = "waitingForInput"  // on stdin or the terminal
	ActivityOutputNotRead    = "outputNotRead"    // blocked: the client does not read its output
	ActivityBlockedOnPipe    = "blockedOnPipe"    // whose other end HolderPID has
	ActivityStopped          = "stopped"          // by a signal or a debugger
	ActivitySleeping         = "sleeping"         // for a time
	ActivityWaitingForDisk   = "waitingForDisk"   // cannot be interrupted
	ActivityWaitingOnNetwork = "waitingOnNetwork" // in a call about a socket
	ActivityWaitingForEvents = "waitingForEvents" // of several files, or a timer
	ActivityWaitingForLock   = "waitingForLock"   // or another thread
	ActivityWaitingForSignal = "waitingForSignal"
	ActivityWaitingForChild  = "waitingForChild" // HolderPID, about which nothing is known
	ActivityWaiting          = "waiting"         // in the kernel, for something else
	ActivityZombie           = "zombie"          // exited, and its parent has not read its exit status
	ActivityOutputHeld       = "outputHeld"      // exited, but HolderPID has its output open
	ActivityEnded            = "ended"           // exited, and its output has ended
)

// Values of StateDetail.Source.
const (
	SourceSystem = "system" // the operating system was asked
	SourceServer = "server" // only facts of the server itself
)

// StateDetail is an observation of a process and all its descendants at one moment, with the most
// likely explanation.
type StateDetail struct {
	Activity      string  `json:"activity"`
	Text          string  `json:"text"`     // one line for people
	Source        string  `json:"source"`   // where the facts come from
	AsOfMs        int64   `json:"asOfMs"`   // when it was observed; Unix time
	SilentMs      uint64  `json:"silentMs"` // since the last output, or the start
	PID           *int    `json:"pid,omitempty"`
	Command       *string `json:"command,omitempty"` // name of the program of PID
	HolderPID     *int    `json:"holderPid,omitempty"`
	HolderCommand *string `json:"holderCommand,omitempty"`
	Partial       bool    `json:"partial,omitempty" wire:"default"` // not everything could be observed

	// Evidence has one line for each process, the decisive one first. Not in lists.
	Evidence []StateEvidence `json:"evidence,omitempty" wire:"default"`
}

// StateEvidence is the observation of one process.
type StateEvidence struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Saw     string `json:"saw"`
}

// SearchParams asks for lines of the output of a process: lines that match, or all lines.
// Lines are counted from 1 in the order in which they began, all streams together; each line
// consists of bytes of one stream.
type SearchParams struct {
	ProcessID  string  `json:"processId"`
	SessionID  *string `json:"sessionId,omitempty"`
	Pattern    *string `json:"pattern,omitempty"` // RE2; nil: every line
	IgnoreCase *bool   `json:"ignoreCase,omitempty"`
	Stream     *string `json:"stream,omitempty"`     // only this stream
	FromLine   *uint64 `json:"fromLine,omitempty"`   // the first line to be searched
	ToLine     *uint64 `json:"toLine,omitempty"`     // the last line to be searched
	MaxMatches *uint64 `json:"maxMatches,omitempty"` // nil: DefaultMatches
	Before     *uint64 `json:"before,omitempty"`     // lines of the same stream around a match
	After      *uint64 `json:"after,omitempty"`
}

// Limits of a search. Larger numbers in the parameters are reduced to them; a longer pattern is
// refused.
const (
	MaxPattern      = 1 << 10 // bytes
	DefaultMatches  = 100
	MaxMatches      = 1000
	MaxContext      = 50       // lines before, and after
	MaxLineText     = 2 << 10  // bytes of a line that are returned
	MaxLineSearched = 64 << 10 // bytes of a line that are searched, from its beginning
	MaxSearchText   = 1 << 20  // bytes of all lines of an answer
)

// SearchResult answers tether/process/search.
type SearchResult struct {
	Lines     []SearchLine `json:"lines"`    // by number, each once
	Matches   uint64       `json:"matches"`  // how many of them match
	Searched  uint64       `json:"searched"` // number of the last line that began before the search ended
	NextSeq   uint64       `json:"nextSeq"`  // the event after the last one that was searched
	FirstSeq  uint64       `json:"firstSeq"` // the oldest event that the server still had
	Evicted   bool         `json:"evicted"`  // events before FirstSeq are gone; lines are counted from there
	Truncated *string      `json:"truncated,omitempty"`
	NextLine  *uint64      `json:"nextLine,omitempty"` // if truncated: the first line that was not searched

	// LongLines counts lines that are longer than MaxLineSearched and were not searched in full.
	LongLines uint64 `json:"longLines,omitempty" wire:"default"`
}

// Values of SearchResult.Truncated.
const (
	TruncatedMatches = "matches" // there are more than the maximum number of matches
	TruncatedSize    = "size"    // the answer would be too large
	TruncatedTime    = "time"    // it took too long
)

// A SearchLine is one line of output.
type SearchLine struct {
	Line   uint64 `json:"line"`
	Seq    uint64 `json:"seq"` // the event in which it begins
	Stream string `json:"stream"`
	Text   string `json:"text"` // without the line end; bytes that are not UTF-8 are replaced
	Match  bool   `json:"match"`

	Offset uint64 `json:"offset,omitempty" wire:"default"` // where in the line the text begins, in bytes
	Cut    bool   `json:"cut,omitempty" wire:"default"`    // the line is longer than the text
	Open   bool   `json:"open,omitempty" wire:"default"`   // the line has not ended yet
}
