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

// Values of StateDetail.Activity. Clients must bear others.
const (
	ActivityUnknown          = "unknown"          // nothing could be seen
	ActivityRunning          = "running"          // nothing was seen that holds it up
	ActivityUsingCPU         = "usingCpu"         // on a processor, or ready for it
	ActivityWaitingForInput  = "waitingForInput"  // on stdin or the terminal
	ActivityOutputNotRead    = "outputNotRead"    // held back: the client does not take its output
	ActivityBlockedOnPipe    = "blockedOnPipe"    // held by HolderPID
	ActivityStopped          = "stopped"          // by a signal or a debugger
	ActivitySleeping         = "sleeping"         // for a time
	ActivityWaitingForDisk   = "waitingForDisk"   // cannot be interrupted
	ActivityWaitingOnNetwork = "waitingOnNetwork" // in a call about a socket
	ActivityWaitingForEvents = "waitingForEvents" // of several files, or a timer
	ActivityWaitingForLock   = "waitingForLock"   // or another thread
	ActivityWaitingForSignal = "waitingForSignal"
	ActivityWaitingForChild  = "waitingForChild" // HolderPID, of which nothing was seen
	ActivityWaiting          = "waiting"         // in the kernel, for something else
	ActivityZombie           = "zombie"          // exited, and its parent has not asked how
	ActivityOutputHeld       = "outputHeld"      // exited, but HolderPID has its output open
	ActivityEnded            = "ended"           // exited, and its output has ended
)

// Values of StateDetail.Source.
const (
	SourceSystem = "system" // the system was looked at
	SourceServer = "server" // only what the server knows anyhow
)

// StateDetail is an observation: what was seen of a process and all that it started
// at one moment, and what that means most likely.
type StateDetail struct {
	Activity      string  `json:"activity"`
	Text          string  `json:"text"`     // one line for people
	Source        string  `json:"source"`   // what it is based on
	AsOfMs        int64   `json:"asOfMs"`   // when it was seen; Unix time
	SilentMs      uint64  `json:"silentMs"` // since the last output, or the start
	PID           *int    `json:"pid,omitempty"`
	Command       *string `json:"command,omitempty"` // name of the program of PID
	HolderPID     *int    `json:"holderPid,omitempty"`
	HolderCommand *string `json:"holderCommand,omitempty"`
	Partial       bool    `json:"partial,omitempty" wire:"default"` // not everything could be looked at

	// What was seen of each process, the decisive one first. Not in lists.
	Evidence []StateEvidence `json:"evidence,omitempty" wire:"default"`
}

// StateEvidence is what was seen of one process.
type StateEvidence struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Saw     string `json:"saw"`
}

// SearchParams asks for lines of the output of a process: those that match, or all.
// Lines are counted from 1 in the order in which they began, those of all streams
// together; each consists of bytes of one stream.
type SearchParams struct {
	ProcessID  string  `json:"processId"`
	SessionID  *string `json:"sessionId,omitempty"`
	Pattern    *string `json:"pattern,omitempty"` // RE2; nil: every line
	IgnoreCase *bool   `json:"ignoreCase,omitempty"`
	Stream     *string `json:"stream,omitempty"`     // only this one
	FromLine   *uint64 `json:"fromLine,omitempty"`   // the first to be looked at
	ToLine     *uint64 `json:"toLine,omitempty"`     // and the last
	MaxMatches *uint64 `json:"maxMatches,omitempty"` // DefaultMatches
	Before     *uint64 `json:"before,omitempty"`     // lines of the same stream around a match
	After      *uint64 `json:"after,omitempty"`
}

// Limits of a search. Larger wishes are cut down to them, but a pattern is refused.
const (
	MaxPattern      = 1 << 10 // bytes
	DefaultMatches  = 100
	MaxMatches      = 1000
	MaxContext      = 50       // lines before, and after
	MaxLineText     = 2 << 10  // bytes of a line that are shown
	MaxLineSearched = 64 << 10 // bytes of a line that are looked at, from its beginning
	MaxSearchText   = 1 << 20  // bytes of all lines of an answer
)

// SearchResult answers tether/process/search.
type SearchResult struct {
	Lines     []SearchLine `json:"lines"`    // by number, each once
	Matches   uint64       `json:"matches"`  // how many of them match
	Searched  uint64       `json:"searched"` // number of the last line that began before the search ended
	NextSeq   uint64       `json:"nextSeq"`  // the event behind the last one that was looked at
	FirstSeq  uint64       `json:"firstSeq"` // the oldest event that was still held
	Evicted   bool         `json:"evicted"`  // what was before FirstSeq is gone; lines are counted from there
	Truncated *string      `json:"truncated,omitempty"`
	NextLine  *uint64      `json:"nextLine,omitempty"` // if truncated: where to go on

	// Lines that are longer than MaxLineSearched and were not looked at in full.
	LongLines uint64 `json:"longLines,omitempty" wire:"default"`
}

// Values of SearchResult.Truncated.
const (
	TruncatedMatches = "matches" // there are more than MaxMatches
	TruncatedSize    = "size"    // the answer would be too large
	TruncatedTime    = "time"    // it took too long
)

// A SearchLine is one line of output.
type SearchLine struct {
	Line   uint64 `json:"line"`
	Seq    uint64 `json:"seq"` // the event in which it begins
	Stream string `json:"stream"`
	Text   string `json:"text"` // without its end; what is not UTF-8 is replaced
	Match  bool   `json:"match"`

	Offset uint64 `json:"offset,omitempty" wire:"default"` // where in the line the text begins, in bytes
	Cut    bool   `json:"cut,omitempty" wire:"default"`    // there is more of the line than the text
	Open   bool   `json:"open,omitempty" wire:"default"`   // its end has not come yet
}
