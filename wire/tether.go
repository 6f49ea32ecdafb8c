package wire

// This file has parameters and results of the methods under tether/. Session ids here are public
// ones: they name a session but are not enough to resume it. An optional session id that is
// absent means the caller's own session.

// AckParams is the notification tether/ack: the client has processed all events of the process up
// to and including Seq.
type AckParams struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
}

// ResizeParams changes the size of a process's terminal.
type ResizeParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
	Rows      uint16  `json:"rows"`
	Cols      uint16  `json:"cols"`
}

// SignalAnyParams sends any signal to a process.
type SignalAnyParams struct {
	ProcessID string    `json:"processId"`
	SessionID *string   `json:"sessionId,omitempty"`
	Signal    SignalAny `json:"signal"`
	OnceID    *string   `json:"onceId,omitempty"` // as in SignalParams
}

// CloseStdinParams ends the input of a process.
type CloseStdinParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
	OnceID    *string `json:"onceId,omitempty"` // as in SignalParams
}

// WriteAnyParams is WriteParams for a process of any session. Write ids belong to the process: all
// clients that write to it must choose different ones.
type WriteAnyParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
	Chunk     Base64  `json:"chunk"`
	WriteID   string  `json:"writeId"`
}

// TerminateAnyParams ends a process of any session. The answer is a
// TerminateResult.
type TerminateAnyParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
}

// SessionEndParams ends a session and kills its processes.
type SessionEndParams struct {
	SessionID *string `json:"sessionId,omitempty"`
}

// Limits of names that a client chooses.
const (
	MaxOnceID = 256 // bytes
	MaxLabel  = 128 // bytes
)

// SessionEndResult answers tether/session/end.
type SessionEndResult struct {
	// Survivors are processes of the session that were killed and are still there.
	Survivors []Survivor `json:"survivors,omitempty" wire:"default"`
}

// ListParams asks for processes.
type ListParams struct {
	SessionID *string `json:"sessionId"` // public; nil: all sessions of the client's principal
}

// ListResult answers tether/process/list.
type ListResult struct {
	Processes []ProcessInfo `json:"processes"`

	// Survivors are processes of sessions that have ended: they were killed and are still there. They are only in lists of
	// all sessions.
	Survivors []Survivor `json:"survivors,omitempty" wire:"default"`
}

// States of a process.
const (
	StateRunning = "running" // not reaped yet
	StateExited  = "exited"  // reaped, but its output is still open
	StateClosed  = "closed"  // its output has ended
)

// ProcessInfo is the entry of one process in a list.
type ProcessInfo struct {
	SessionID   string   `json:"sessionId"` // public
	ProcessID   string   `json:"processId"`
	Argv        []string `json:"argv"`
	Cwd         string   `json:"cwd"` // path URI
	PID         int      `json:"pid"`
	TTY         bool     `json:"tty"`
	StartedAtMs int64    `json:"startedAtMs"` // Unix time
	State       string   `json:"state"`
	ExitCode    *int     `json:"exitCode,omitempty"`

	SandboxDenied bool      `json:"sandboxDenied,omitempty" wire:"default"` // as in ProcessExited
	Size          *TermSize `json:"size,omitempty"`                         // of the terminal; nil: there is none, or it is not known

	NextSeq      uint64  `json:"nextSeq"`
	SentSeq      uint64  `json:"sentSeq"`                               // last event sent to the session's client
	HeldBytes    uint64  `json:"heldBytes"`                             // output that is kept, with some overhead for each event
	UnsentBytes  uint64  `json:"unsentBytes"`                           // output after SentSeq
	SpooledBytes uint64  `json:"spooledBytes"`                          // the part of HeldBytes that is on disk
	DroppedBytes uint64  `json:"droppedBytes,omitempty" wire:"default"` // output that is no longer kept
	Blocked      bool    `json:"blocked"`                               // its output is not being read, so that it waits
	Observers    int     `json:"observers"`
	ControlledBy *string `json:"controlledBy,omitempty"` // the name of the connection that has taken control; nil: none has

	// Usage of the process and all its descendants; nil if it is not known.
	CPUMs       *uint64 `json:"cpuMs,omitempty"`       // since its start
	MemoryBytes *uint64 `json:"memoryBytes,omitempty"` // resident; shared pages count for each process

	// The account of a process that has exited; nil if it is not known.
	TetherUsage *Usage `json:"tetherUsage,omitempty"`

	// Survivors are processes of the command that were killed and are still there.
	Survivors []Survivor `json:"survivors,omitempty" wire:"default"`

	// What it is doing, without evidence; nil: it has ended, or was not observed.
	StateDetail *StateDetail `json:"stateDetail,omitempty"`
}

// ObserveParams starts an observation of a process of any session.
type ObserveParams struct {
	SessionID string  `json:"sessionId"` // public
	ProcessID string  `json:"processId"`
	AfterSeq  *uint64 `json:"afterSeq"` // nil: from the oldest event that is still held
}

// ObserveResult answers tether/process/observe.
type ObserveResult struct {
	ObserveID int64  `json:"observeId"` // names the observation on this connection
	NextSeq   uint64 `json:"nextSeq"`   // the next number the process will assign
}

// ControlParams names a process of any session, for tether/process/takeControl and tether/process/giveControl.
type ControlParams struct {
	ProcessID string  `json:"processId"`
	SessionID *string `json:"sessionId,omitempty"`
}

// ObservedControl is the notification tether/process/control: another connection types to the process. An observer whose process is controlled gets it first.
type ObservedControl struct {
	ObserveID int64   `json:"observeId"`
	Holder    *string `json:"holder"` // its name, for people; nil: no connection has control
	Mine      bool    `json:"mine"`   // it is the observer's own connection
}

// UnobserveParams ends an observation.
type UnobserveParams struct {
	ObserveID int64 `json:"observeId"`
}

// SessionListResult answers tether/session/list.
type SessionListResult struct {
	Sessions []SessionInfo `json:"sessions"`
}

// SessionInfo is the entry of one session in a list.
type SessionInfo struct {
	SessionID   string  `json:"sessionId"` // public
	ClientName  string  `json:"clientName"`
	Label       string  `json:"label,omitempty" wire:"default"` // the client's name for it
	Attached    bool    `json:"attached"`
	CreatedAtMs int64   `json:"createdAtMs"`
	ExpiresInMs *uint64 `json:"expiresInMs,omitempty"` // detached sessions only
	TTLMs       uint64  `json:"ttlMs"`
	Processes   int     `json:"processes"`
	Principal   string  `json:"principal,omitempty" wire:"default"` // to which it belongs; only administrators are told
}

// KeeperState answers tether/keeper/state.
type KeeperState struct {
	Version     string `json:"version"` // of the worker
	Worker      int    `json:"worker"`  // its number: 1 for the first
	WorkerPID   int    `json:"workerPid"`
	KeeperPID   int    `json:"keeperPid"`
	SameProgram bool   `json:"sameProgram"`                      // the keeper runs the same program as the worker
	Deaths      int    `json:"deaths"`                           // workers that have died, and were not replaced by an upgrade
	LastEnd     string `json:"lastEnd,omitempty" wire:"default"` // how the worker before this one ended, for people; "": there was none
}

// UpgradeParams asks for another program in place of the one that serves.
type UpgradeParams struct {
	Program *string `json:"program,omitempty"` // path on the machine of the server; nil: the file from which it was started
}

// UpgradeResult answers tether/keeper/upgrade: the new program has proved that it can take over. Whether it serves
// is told by tether/keeper/state of the next worker.
type UpgradeResult struct {
	Worker int `json:"worker"` // number of the worker that is being replaced
}

// The kinds of settings that a server can read again while it runs. Each is replaced as a whole, or not at all.
const (
	SettingsFile         = "configurationFile" // it can be read, and its settings are possible
	SettingsTokens       = "tokens"
	SettingsCertificates = "certificates"
	SettingsLimits       = "limits"
	SettingsLogLevel     = "logLevel"
)

// SettingsKinds are all of them, in the order in which they are read.
var SettingsKinds = []string{SettingsFile, SettingsTokens, SettingsCertificates, SettingsLimits, SettingsLogLevel}

// ReloadedSettings says what has become of settings that were read again.
type ReloadedSettings struct {
	Kind    string `json:"kind"`
	Changed bool   `json:"changed"`
	Error   string `json:"error,omitempty" wire:"default"` // why they cannot be used: the earlier ones stay in force. "": they can
}

// ReloadResult answers tether/reload.
type ReloadResult struct {
	Settings []ReloadedSettings `json:"settings"`
	Restart  []string           `json:"restart"` // names of settings of the configuration file that have changed, and need a restart of the server
}

// ConsoleCode answers tether/console/code: a code with which a browser can use the console of the server, once, as the client that has asked
// for it.
type ConsoleCode struct {
	Code      string  `json:"code"`
	ExpiresMs uint64  `json:"expiresMs"`                         // how long the code can be used
	Origin    *string `json:"origin,omitempty"`                  // of the page; nil: the address of the server
	ReadOnly  bool    `json:"readOnly,omitempty" wire:"default"` // the browser may only look
}

// ObservedOutput is the notification tether/process/output.
type ObservedOutput struct {
	ObserveID int64  `json:"observeId"`
	Seq       uint64 `json:"seq"`
	TimeMs    int64  `json:"timeMs"` // when it was read; Unix time
	Stream    string `json:"stream"`
	Chunk     Base64 `json:"chunk"`
}

// ObservedExited is the notification tether/process/exited.
type ObservedExited struct {
	ObserveID     int64  `json:"observeId"`
	Seq           uint64 `json:"seq"`
	TimeMs        int64  `json:"timeMs"`
	ExitCode      int    `json:"exitCode"`
	SandboxDenied bool   `json:"sandboxDenied"`

	TetherDenial *DenialFact `json:"tetherDenial,omitempty"`
	TetherLimit  *string     `json:"tetherLimit,omitempty"` // as in ProcessExited
	TetherUsage  *Usage      `json:"tetherUsage,omitempty"`

	TetherFailure *string `json:"tetherFailure,omitempty"` // as in ProcessExited
}

// ObservedClosed is the notification tether/process/closed, the last one of an
// observation.
type ObservedClosed struct {
	ObserveID int64  `json:"observeId"`
	Seq       uint64 `json:"seq"`
	TimeMs    int64  `json:"timeMs"`

	TetherSurvivors []Survivor `json:"tetherSurvivors,omitempty" wire:"default"`
}

// ObservedEvicted is the notification tether/process/evicted: the observer
// fell behind, and the events before FirstSeq are gone.
type ObservedEvicted struct {
	ObserveID int64  `json:"observeId"`
	FirstSeq  uint64 `json:"firstSeq"` // the oldest event that is still held
}

// ObservedRemoved is the notification tether/process/removed: the process and its output are
// gone before the observer has got the close, because the session has ended.
type ObservedRemoved struct {
	ObserveID int64 `json:"observeId"`
}

// A DenialFact has the known details of a denial: the member "tetherDenial" beside
// "sandboxDenied".
type DenialFact struct {
	Path    *PathURI `json:"path,omitempty"`    // the denied path
	Access  *string  `json:"access,omitempty"`  // the denied access: "read" or "write"
	Rule    *string  `json:"rule,omitempty"`    // the rule that decided about the path
	Syscall *string  `json:"syscall,omitempty"` // the kind of the denied system call, such as DeniedNetwork
}

// DeniedNetwork is the Syscall of a DenialFact about a system call that would use the network.
const DeniedNetwork = "network"

// PathText is the path in the executor's own form, for people; empty: it is not known.
func (f *DenialFact) PathText() string {
	if f.Path == nil {
		return ""
	}
	for _, goos := range []string{"linux", "windows"} { // the two conventions; a URI fits one at most
		if native, err := f.Path.NativeOn(goos); err == nil {
			return native
		}
	}
	return f.Path.String()
}

// JSON encodes the fact.
func (f *DenialFact) JSON() []byte { return AppendValue(nil, f) }
