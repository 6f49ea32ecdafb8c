package wire

// This file has the tables of both protocols: every request and every notification with its types. They are the source of
// the schema (package schema), and a test compares ExecCalls with the methods of the server.
//
// After a change here, or in a type that a table names, run `make schema`.

// A Call is a request or a notification.
type Call struct {
	Name    string
	From    Side
	Params  any    // a nil pointer to the type of the parameters; nil: there are none
	Result  any    // a nil pointer to the type of the result; nil: it is a notification
	Feature string // that the server announces it by; "": it is the reference's
	Doc     string // one sentence or two
}

// IsNotification reports whether the call has no answer.
func (c *Call) IsNotification() bool { return c.Result == nil }

// A Side is an end of a connection.
type Side string

// The values of Side.
const (
	FromClient Side = "client"
	FromServer Side = "server"
)

// ExecCalls is the exec-server protocol with tether's additions.
var ExecCalls = []Call{
	{MethodInitialize, FromClient, (*InitializeParams)(nil), (*InitializeResult)(nil), "",
		"Opens a session, or resumes one. It is the first request of every connection."},
	{MethodInitialized, FromClient, nil, nil, "", "The client has read the answer to initialize. All other requests need it."},

	{MethodEnvironmentInfo, FromClient, (*NoParams)(nil), (*EnvironmentInfo)(nil), "", "Describes the executor."},
	{MethodEnvironmentStatus, FromClient, (*NoParams)(nil), (*StatusResult)(nil), "", "Answers at once, so that a client can see that the server is there."},
	{MethodEnvironmentConfigRead, FromClient, (*ConfigReadParams)(nil), (*ConfigReadResult)(nil), "", "Reads selected keys of the Codex configuration files of the server's user."},
	{MethodDiscoverRoots, FromClient, (*DiscoverRootsParams)(nil), (*DiscoverRootsResult)(nil), "", "Finds plugins and skills below given directories."},
	{MethodDiscoverCapabilities, FromClient, (*DiscoverCapabilitiesParams)(nil), (*DiscoverCapabilitiesResult)(nil), "", "Finds the plugins and skills of the server's user."},
	{MethodHTTPRequest, FromClient, (*HTTPRequestParams)(nil), (*HTTPResponse)(nil), "", "Makes an HTTP request from the executor's network."},
	{NoteHTTPBodyDelta, FromServer, (*HTTPBodyDelta)(nil), nil, "", "A part of the body of a streamed response."},

	{MethodProcessStart, FromClient, (*StartParams)(nil), (*StartResult)(nil), "", "Starts a process."},
	{MethodProcessRead, FromClient, (*ReadParams)(nil), (*ReadResult)(nil), "", "Returns output after a sequence number, or waits for it."},
	{MethodProcessWrite, FromClient, (*WriteParams)(nil), (*WriteResult)(nil), "", "Writes to the standard input of a process, once per write id."},
	{MethodProcessSignal, FromClient, (*SignalParams)(nil), (*Empty)(nil), "", "Interrupts a process."},
	{MethodProcessTerminate, FromClient, (*ProcessParams)(nil), (*TerminateResult)(nil), "", "Ends a process and all that it started."},
	{NoteProcessOutput, FromServer, (*ProcessOutput)(nil), nil, "", "Output of a process, in the order of the sequence numbers."},
	{NoteProcessExited, FromServer, (*ProcessExited)(nil), nil, "", "A process has exited. Output that other processes hold open may follow."},
	{NoteProcessClosed, FromServer, (*ProcessClosed)(nil), nil, "", "The output of a process has ended. It is the last notification about the process."},
	{MethodNetworkPolicyRequest, FromServer, (*NetworkPolicyParams)(nil), (*NetworkPolicyResult)(nil), "", "Asks the client whether a process may reach a host that no rule decides about."},
	{NoteNetworkPolicyDecision, FromServer, (*NetworkDecision)(nil), nil, "", "Reports a decision about a host that a process wanted to reach."},

	{MethodFsReadFile, FromClient, (*ReadFileParams)(nil), (*ReadFileResult)(nil), "", "Reads a whole file."},
	{MethodFsWriteFile, FromClient, (*WriteFileParams)(nil), (*Empty)(nil), "", "Replaces the content of a file, or creates it."},
	{MethodFsCreateDirectory, FromClient, (*CreateDirectoryParams)(nil), (*Empty)(nil), "", "Creates a directory."},
	{MethodFsGetMetadata, FromClient, (*MetadataParams)(nil), (*MetadataResult)(nil), "", "Returns kind, size and times of a file."},
	{MethodFsCanonicalize, FromClient, (*CanonicalizeParams)(nil), (*CanonicalizeResult)(nil), "", "Returns the path of a file without links."},
	{MethodFsReadDirectory, FromClient, (*ReadDirectoryParams)(nil), (*ReadDirectoryResult)(nil), "", "Lists a directory."},
	{MethodFsWalk, FromClient, (*WalkParams)(nil), (*WalkResult)(nil), "", "Lists all files and directories below a directory."},
	{MethodFsRemove, FromClient, (*RemoveParams)(nil), (*Empty)(nil), "", "Removes a file or directory."},
	{MethodFsCopy, FromClient, (*CopyParams)(nil), (*Empty)(nil), "", "Copies a file, a link or a directory."},
	{MethodFsWatchMissing, FromClient, (*WatchMissingParams)(nil), (*WatchMissingResult)(nil), "", "Watches for one of several missing paths to be created."},
	{NoteFsMissingChanged, FromServer, (*MissingChanged)(nil), nil, "", "A watched path was created or has changed."},
	{MethodFsOpen, FromClient, (*OpenParams)(nil), (*HandleResult)(nil), "", "Opens a file under an id that the client chooses."},
	{MethodFsReadBlock, FromClient, (*ReadBlockParams)(nil), (*ReadBlockResult)(nil), "", "Reads a part of an open file."},
	{MethodFsWriteBlock, FromClient, (*WriteBlockParams)(nil), (*Empty)(nil), "", "Writes a part of an open file."},
	{MethodFsClose, FromClient, (*HandleParams)(nil), (*Empty)(nil), "", "Closes an open file."},

	{MethodAck, FromClient, (*AckParams)(nil), nil, "ack", "All events of a process up to this number have arrived."},
	{NoteGoodbye, FromServer, (*Empty)(nil), nil, "goodbye", "The server shuts down, and its sessions end with it."},
	{MethodFsSetAttributes, FromClient, (*SetAttributesParams)(nil), (*Empty)(nil), "fileAttributes", "Sets permissions and time of a file or directory."},
	{MethodUploadOpen, FromClient, (*UploadOpenParams)(nil), (*UploadOpenResult)(nil), "upload", "Begins an upload, or continues it."},
	{MethodUploadWrite, FromClient, (*UploadWriteParams)(nil), (*UploadWriteResult)(nil), "upload", "Sends a block of an upload."},
	{MethodUploadStatus, FromClient, (*UploadParams)(nil), (*UploadStatusResult)(nil), "upload", "Says which parts of an upload have arrived."},
	{MethodUploadCommit, FromClient, (*UploadCommitParams)(nil), (*Empty)(nil), "upload", "Puts an uploaded file in its place."},
	{MethodUploadAbort, FromClient, (*UploadParams)(nil), (*Empty)(nil), "upload", "Gives an upload up."},
	{MethodPortOpen, FromClient, (*PortOpenParams)(nil), (*PortOpenResult)(nil), "ports", "Connects to a port for the client, or continues a forwarded connection."},
	{MethodPortClose, FromClient, (*PortCloseParams)(nil), (*Empty)(nil), "ports", "Ends a forwarded connection."},
	{MethodPortList, FromClient, (*PortListParams)(nil), (*PortListResult)(nil), "portList", "Lists the TCP sockets on which processes wait for connections."},
	{MethodPortListen, FromClient, (*PortListenParams)(nil), (*PortListenResult)(nil), "portListen", "Listens on a port of the server's machine for the client."},
	{MethodPortAccept, FromClient, (*PortAcceptParams)(nil), (*PortAcceptResult)(nil), "portListen", "Takes the next connection to such a port, or continues a forwarded connection."},
	{MethodPortUnlisten, FromClient, (*PortUnlistenParams)(nil), (*Empty)(nil), "portListen", "Stops to listen on such a port."},
	{NotePortWrite, FromClient, (*PortData)(nil), nil, "ports", "Bytes for the target of a forwarded connection."},
	{NotePortAck, FromClient, (*PortAck)(nil), nil, "ports", "The client has handed on bytes of the target."},
	{NotePortData, FromServer, (*PortData)(nil), nil, "ports", "Bytes of the target of a forwarded connection."},
	{NotePortAcked, FromServer, (*PortAck)(nil), nil, "ports", "The server has handed on bytes to the target."},
	{NotePortFailed, FromServer, (*PortFailed)(nil), nil, "ports", "The connection to a target has failed. Its bytes were sent before."},
	{MethodProcessResize, FromClient, (*ResizeParams)(nil), (*Empty)(nil), "resize", "Changes the size of a process's terminal."},
	{MethodProcessCloseStdin, FromClient, (*CloseStdinParams)(nil), (*Empty)(nil), "closeStdin", "Ends the standard input of a process after all earlier writes."},
	{MethodProcessSignalAny, FromClient, (*SignalAnyParams)(nil), (*Empty)(nil), "signal", "Sends any signal to a process."},
	{MethodProcessWriteAny, FromClient, (*WriteAnyParams)(nil), (*WriteResult)(nil), "remoteControl", "Writes to the standard input of a process of any session."},
	{MethodProcessTerminateAny, FromClient, (*TerminateAnyParams)(nil), (*TerminateResult)(nil), "remoteControl", "Ends a process of any session."},
	{MethodProcessList, FromClient, (*ListParams)(nil), (*ListResult)(nil), "list", "Lists processes."},
	{MethodProcessState, FromClient, (*StateParams)(nil), (*StateResult)(nil), "state", "Says what a process is doing at this moment, and why it is silent."},
	{MethodProcessSearch, FromClient, (*SearchParams)(nil), (*SearchResult)(nil), "search", "Finds lines in the output of a process."},
	{MethodProcessReadAny, FromClient, (*ReadAnyParams)(nil), (*ReadAnyResult)(nil), "readAny", "Returns a page of the events of a process of any session."},
	{MethodProcessObserve, FromClient, (*ObserveParams)(nil), (*ObserveResult)(nil), "observe", "Watches a process of any session."},
	{MethodProcessUnobserve, FromClient, (*UnobserveParams)(nil), (*Empty)(nil), "observe", "Ends an observation."},
	{NoteObservedOutput, FromServer, (*ObservedOutput)(nil), nil, "observe", "Output of an observed process."},
	{NoteObservedExited, FromServer, (*ObservedExited)(nil), nil, "observe", "An observed process has exited."},
	{NoteObservedClosed, FromServer, (*ObservedClosed)(nil), nil, "observe", "The output of an observed process has ended, and the observation with it."},
	{NoteObservedEvicted, FromServer, (*ObservedEvicted)(nil), nil, "observe", "The observer was too slow: events that it has not seen are gone."},
	{NoteObservedRemoved, FromServer, (*ObservedRemoved)(nil), nil, "observe", "The session of the process has ended: nothing more will come."},
	{MethodProcessDescribe, FromClient, (*DescribeParams)(nil), (*DescribeResult)(nil), "describe", "Tells the facts about a process: its command line, sandbox, network, limits and end."},
	{MethodProcessTakeControl, FromClient, (*ControlParams)(nil), (*Empty)(nil), "control", "Shows to the observers of a process that this connection types."},
	{MethodProcessGiveControl, FromClient, (*ControlParams)(nil), (*Empty)(nil), "control", "Ends that."},
	{NoteObservedControl, FromServer, (*ObservedControl)(nil), nil, "control", "Another connection types to an observed process, or none does."},
	{MethodSessionList, FromClient, (*NoParams)(nil), (*SessionListResult)(nil), "list", "Lists sessions."},
	{MethodSessionEnd, FromClient, (*SessionEndParams)(nil), (*SessionEndResult)(nil), "endSession", "Ends a session and kills its processes."},
	{MethodKeeperState, FromClient, (*NoParams)(nil), (*KeeperState)(nil), "keeper", "Describes the keeper and the worker of the server."},
	{MethodConsoleCode, FromClient, (*Empty)(nil), (*ConsoleCode)(nil), "console", "Lets one browser use the server's console as this client."},
	{MethodReload, FromClient, (*NoParams)(nil), (*ReloadResult)(nil), "reload", "Reads the settings of the server again."},
	{MethodKeeperUpgrade, FromClient, (*UpgradeParams)(nil), (*UpgradeResult)(nil), "keeper", "Lets the server go on with another program."},
}

// AppCalls is the process API of the app-server.
var AppCalls = []Call{
	{MethodInitialize, FromClient, (*AppInitializeParams)(nil), (*AppInitializeResult)(nil), "", "Begins a connection."},
	{MethodInitialized, FromClient, nil, nil, "", "The client has read the answer to initialize."},
	{MethodSpawn, FromClient, (*ProcessSpawnParams)(nil), (*Empty)(nil), "", "Starts a command under a handle that the client chooses."},
	{MethodWriteStdin, FromClient, (*ProcessWriteStdinParams)(nil), (*Empty)(nil), "", "Writes to the standard input of a command, closes it, or both."},
	{MethodResizePty, FromClient, (*ProcessResizePtyParams)(nil), (*Empty)(nil), "", "Changes the size of a command's terminal."},
	{MethodKill, FromClient, (*ProcessKillParams)(nil), (*Empty)(nil), "", "Ends a command and all that it started."},
	{NoteOutputDelta, FromServer, (*ProcessOutputDelta)(nil), nil, "", "Output of a command."},
	{NoteExited, FromServer, (*ProcessEnded)(nil), nil, "", "A command has ended. It is the last notification about the command."},
}
