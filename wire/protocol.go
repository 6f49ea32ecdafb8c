package wire

// ReferenceVersion is the release of the reference whose protocol this is.
const ReferenceVersion = "0.166.0"

// Methods of the reference protocol.
const (
	MethodInitialize  = "initialize"
	MethodInitialized = "initialized" // notification from the client

	MethodEnvironmentInfo   = "environment/info"
	MethodEnvironmentStatus = "environment/status"

	MethodProcessStart     = "process/start"
	MethodProcessRead      = "process/read"
	MethodProcessWrite     = "process/write"
	MethodProcessSignal    = "process/signal"
	MethodProcessTerminate = "process/terminate"

	NoteProcessOutput = "process/output" // notifications to the client
	NoteProcessExited = "process/exited"
	NoteProcessClosed = "process/closed"
)

// Methods and notifications that only tether has. A reference client never sends the methods and
// ignores the notifications.
const (
	MethodAck                 = "tether/ack" // notification from the client
	MethodProcessResize       = "tether/process/resize"
	MethodProcessCloseStdin   = "tether/process/closeStdin"
	MethodProcessList         = "tether/process/list"
	MethodProcessSignalAny    = "tether/process/signal"
	MethodProcessObserve      = "tether/process/observe"
	MethodProcessUnobserve    = "tether/process/unobserve"
	MethodProcessWriteAny     = "tether/process/write"
	MethodProcessTerminateAny = "tether/process/terminate"
	MethodProcessState        = "tether/process/state"
	MethodProcessSearch       = "tether/process/search"
	MethodProcessReadAny      = "tether/process/read"
	MethodProcessDescribe     = "tether/process/describe"
	MethodProcessTakeControl  = "tether/process/takeControl"
	MethodProcessGiveControl  = "tether/process/giveControl"
	MethodSessionList         = "tether/session/list"
	MethodSessionEnd          = "tether/session/end"
	MethodKeeperState         = "tether/keeper/state"
	MethodKeeperUpgrade       = "tether/keeper/upgrade"
	MethodReload              = "tether/reload"
	MethodConsoleCode         = "tether/console/code"

	// NoteGoodbye is the last notification of a server that shuts down and ends its sessions,
	// for clients that have asked for it in initialize. It has no parameters.
	NoteGoodbye = "tether/goodbye"

	NoteObservedOutput  = "tether/process/output" // notifications to an observer
	NoteObservedExited  = "tether/process/exited"
	NoteObservedClosed  = "tether/process/closed"
	NoteObservedEvicted = "tether/process/evicted"
	NoteObservedRemoved = "tether/process/removed"
	NoteObservedControl = "tether/process/control"
)

// Streams of process output.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
	StreamPTY    = "pty"
)

// Values of WriteResult.Status.
const (
	WriteAccepted       = "accepted"
	WriteUnknownProcess = "unknownProcess"
	WriteStarting       = "starting"
	WriteStdinClosed    = "stdinClosed"
)

// Decoding rules of the parameter structs, applied by Decode: a pointer field
// may be absent or null; a field tagged wire:"default" may be absent but not
// null; every other field is required. Unknown members are ignored. Integers
// must be plain literals in range. wire:"usize" is an optional count, which errors call usize.

// InitializeParams opens a session or resumes one.
type InitializeParams struct {
	ClientName      string            `json:"clientName"`
	ResumeSessionID *string           `json:"resumeSessionId"`
	Tether          *InitializeTether `json:"tether"`
}

// InitializeTether has the requests of a tether client.
type InitializeTether struct {
	TTLMs *uint64 `json:"ttlMs"`           // how long the server should keep the session while detached
	Acks  *bool   `json:"acks"`            // the client sends tether/ack; output is kept until then
	Label *string `json:"label,omitempty"` // a name for lists: at most MaxLabel bytes, printable

	// Goodbye asks for NoteGoodbye on this connection, also when it resumes a session.
	Goodbye *bool `json:"goodbye,omitempty"`
}

// InitializeResult answers initialize.
type InitializeResult struct {
	SessionID       string          `json:"sessionId"`
	EnvironmentInfo EnvironmentInfo `json:"environmentInfo"`
	Tether          TetherInfo      `json:"tether"`
}

// TetherInfo announces the server's additions to the reference.
type TetherInfo struct {
	Version  string   `json:"version"`
	PublicID string   `json:"publicId"` // names the session in lists; not a secret
	TTLMs    uint64   `json:"ttlMs"`    // granted
	Features []string `json:"features"`
	Host     string   `json:"host,omitempty" wire:"default"` // of the fleet, if the client has come through a gateway

	// ReadOnly means that this connection may only look: its requests for anything else are refused with ErrorReadOnly.
	ReadOnly bool `json:"readOnly,omitempty" wire:"default"`
	// Admin means that this connection may list and control the sessions of all principals.
	Admin bool `json:"admin,omitempty" wire:"default"`
}

// EnvironmentInfo describes the executor. Older servers leave out all but the shell.
type EnvironmentInfo struct {
	Shell                ShellInfo    `json:"shell"`
	ExecutorVersion      string       `json:"executorVersion" wire:"default"` // a semantic version, of the reference
	ProviderID           string       `json:"providerId,omitempty" wire:"default"`
	Cwd                  *string      `json:"cwd"`
	UserHomeDir          *string      `json:"userHomeDir"`
	PlatformOS           string       `json:"platformOs" wire:"default"`
	PrependPathDirs      []string     `json:"prependPathDirs" wire:"default"`
	TemporaryDirectories []string     `json:"temporaryDirectories" wire:"default"`
	TempDir              string       `json:"tempDir" wire:"default"`
	Capabilities         Capabilities `json:"capabilities" wire:"default"`
}

// ShellInfo names the user's shell.
type ShellInfo struct {
	Name string `json:"name"` // bash, zsh, sh, powershell or cmd
	Path string `json:"path"` // native
}

// Capabilities are the reference's flags. If one is false, the client must not use that feature.
type Capabilities struct {
	NetworkProxyLaunch                          bool `json:"networkProxyLaunch" wire:"default"`
	NetworkProxyReviewDomains                   bool `json:"networkProxyReviewDomains" wire:"default"`
	CredentialMasking                           bool `json:"credentialMasking" wire:"default"`
	CredentialMaskingCustomProviders            bool `json:"credentialMaskingCustomProviders" wire:"default"`
	CapabilityDiscoverySandbox                  bool `json:"capabilityDiscoverySandbox" wire:"default"`
	FsWatchMissing                              bool `json:"fsWatchMissing" wire:"default"`
	CapabilityDiscoveryV2                       bool `json:"capabilityDiscoveryV2" wire:"default"`
	EnvironmentConfigRead                       bool `json:"environmentConfigRead" wire:"default"`
	HTTPHeaderEnvVars                           bool `json:"httpHeaderEnvVars" wire:"default"`
	SandboxedFileStreaming                      bool `json:"sandboxedFileStreaming" wire:"default"`
	FileWriteStreaming                          bool `json:"fileWriteStreaming" wire:"default"`
	ShellSnapshotV2                             bool `json:"shellSnapshotV2" wire:"default"`
	WindowsMxc                                  bool `json:"windowsMxc" wire:"default"`
	LinuxRootWritePreservesDevices              bool `json:"linuxRootWritePreservesDevices" wire:"default"`
	LinuxApprovedRootWritePreservesRestrictions bool `json:"linuxApprovedRootWritePreservesRestrictions" wire:"default"`
}

// StatusResult answers environment/status.
type StatusResult struct {
	Status string `json:"status"` // "ready"
}

// StartParams starts a process.
type StartParams struct {
	ProcessID             string                `json:"processId"`
	Metadata              *StartMetadata        `json:"metadata"`
	Argv                  []string              `json:"argv"`
	Cwd                   Cwd                   `json:"cwd"`
	EnvPolicy             *EnvPolicy            `json:"envPolicy"`
	Env                   map[string]string     `json:"env"`
	TTY                   bool                  `json:"tty"`
	PipeStdin             bool                  `json:"pipeStdin" wire:"default"`
	Arg0                  *string               `json:"arg0"`
	Sandbox               *Sandbox              `json:"sandbox"`
	EnforceManagedNetwork bool                  `json:"enforceManagedNetwork" wire:"default"`
	ManagedNetwork        *ManagedNetwork       `json:"managedNetwork"`
	NetworkProxy          *NetworkProxy         `json:"networkProxy"`
	ShellSnapshot         *ShellSnapshotRequest `json:"shellSnapshot"`

	Retry *bool     `json:"retry"` // tether: this start is sent again; the server repeats its first answer
	Size  *TermSize `json:"size"`  // tether: initial size of the terminal

	// KeepNewest (tether) drops the oldest output when there is too much unread output, instead
	// of blocking the process.
	KeepNewest *bool `json:"keepNewest"`

	// OneStream (tether) gives a process without terminal one pipe for standard output and
	// standard error. All of its output is StreamStdout.
	OneStream *bool `json:"oneStream,omitempty"`

	Limits *Limits `json:"limits,omitempty"` // tether
}

// ShellSnapshotRequest lets a login shell start from the state of an earlier login shell of the
// same scope.
type ShellSnapshotRequest struct {
	ScopeID string    `json:"scopeId"`
	Shell   ShellInfo `json:"shell"`
}

// StartMetadata becomes variables of the child's environment.
type StartMetadata struct {
	ThreadID   *string `json:"threadId"`
	ToolCallID *string `json:"toolCallId"`
}

// EnvPolicy says how the child's environment is built from the server's.
type EnvPolicy struct {
	Inherit               Inherit           `json:"inherit"`
	IgnoreDefaultExcludes bool              `json:"ignoreDefaultExcludes"`
	Exclude               []string          `json:"exclude"`
	Set                   map[string]string `json:"set"`
	IncludeOnly           []string          `json:"includeOnly"`
}

// TermSize is the size of a terminal in characters.
type TermSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// StartResult answers process/start.
type StartResult struct {
	ProcessID   string `json:"processId"`
	SandboxType string `json:"sandboxType"`

	TetherLimits *LimitsInForce `json:"tetherLimits,omitempty"` // nil: there are none
}

// ReadParams asks for output after a sequence number.
type ReadParams struct {
	ProcessID string  `json:"processId"`
	AfterSeq  *uint64 `json:"afterSeq"`
	MaxBytes  *uint64 `json:"maxBytes" wire:"usize"`
	WaitMs    *uint64 `json:"waitMs"`
}

// WriteParams sends bytes to the standard input of a process, once per WriteID.
type WriteParams struct {
	ProcessID string `json:"processId"`
	Chunk     Base64 `json:"chunk"`
	WriteID   string `json:"writeId"`
}

// WriteResult answers process/write.
type WriteResult struct {
	Status string `json:"status"`
}

// SignalParams interrupts a process group.
type SignalParams struct {
	ProcessID string      `json:"processId"`
	Signal    SignalNamed `json:"signal"`

	// tether: a request with the same id, of at most MaxOnceID bytes, has no further effect on the
	// same process.
	OnceID *string `json:"onceId,omitempty"`
}

// ProcessParams names a process of the session.
type ProcessParams struct {
	ProcessID string `json:"processId"`
}

// TerminateResult answers process/terminate.
type TerminateResult struct {
	Running bool `json:"running"`
}

// Empty is the result of methods that return nothing.
type Empty struct{}

// ReadResult answers process/read. The server writes it without this type;
// clients decode into it.
type ReadResult struct {
	Chunks        []OutputChunk `json:"chunks"`
	NextSeq       uint64        `json:"nextSeq"` // afterSeq of the next read is NextSeq - 1
	Exited        bool          `json:"exited"`
	ExitCode      *int          `json:"exitCode"`
	Closed        bool          `json:"closed"`
	Failure       *string       `json:"failure"`
	SandboxDenied bool          `json:"sandboxDenied" wire:"default"`
	TetherDenial  *DenialFact   `json:"tetherDenial,omitempty"`
	TetherLimit   *string       `json:"tetherLimit,omitempty"` // as in ProcessExited
	TetherFailure *string       `json:"tetherFailure,omitempty"`
	TetherUsage   *Usage        `json:"tetherUsage,omitempty"` // once exited

	TetherSurvivors []Survivor `json:"tetherSurvivors,omitempty" wire:"default"` // once closed
}

// OutputChunk is one piece of output.
type OutputChunk struct {
	Seq    uint64 `json:"seq"`
	Stream string `json:"stream"`
	Chunk  Base64 `json:"chunk"`
}

// ProcessOutput is the notification process/output.
type ProcessOutput struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`
	Stream    string `json:"stream"`
	Chunk     Base64 `json:"chunk"`
}

// ProcessExited is the notification process/exited.
type ProcessExited struct {
	ProcessID     string `json:"processId"`
	Seq           uint64 `json:"seq"`
	ExitCode      int    `json:"exitCode"`
	SandboxDenied *bool  `json:"sandboxDenied"` // nil: not known

	TetherDenial *DenialFact `json:"tetherDenial,omitempty"`
	TetherLimit  *string     `json:"tetherLimit,omitempty"` // the limit because of which the server has ended the process, such as LimitTimeMs
	TetherUsage  *Usage      `json:"tetherUsage,omitempty"`

	// TetherFailure says why the exit code is not the command's own, such as that its server was killed; nil: it is.
	TetherFailure *string `json:"tetherFailure,omitempty"`
}

// ProcessClosed is the notification process/closed.
type ProcessClosed struct {
	ProcessID string `json:"processId"`
	Seq       uint64 `json:"seq"`

	// TetherSurvivors are processes of the command that were killed and are still there.
	TetherSurvivors []Survivor `json:"tetherSurvivors,omitempty" wire:"default"`
}
