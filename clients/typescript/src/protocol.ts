// Generated from package wire by `make schema`. Do not edit.
// The exec-server protocol with tether's additions, and the process API of the app-server.
// A member that is marked with ? may be absent; members that are not known must be ignored.

// The methods of the process API. MethodInitialize and MethodInitialized are
// shared with the exec server, by name only.
export const MethodSpawn = "process/spawn";
export const MethodWriteStdin = "process/writeStdin";
export const MethodResizePty = "process/resizePty";
export const MethodKill = "process/kill";

// The notifications of the process API. Exited has the name of an exec-server
// notification and other members.
export const NoteOutputDelta = "process/outputDelta";
export const NoteExited = "process/exited";

/** CodeOverloaded means that too many requests are under way; the client may try again later. */
export const CodeOverloaded = -32001;

/** InvalidAppRequest begins every answer to a request that cannot be decoded. */
export const InvalidAppRequest = "Invalid request: ";

// Limits of a description. Above them it is cut, and says so.
/** bytes of argv */
export const MaxDescribedArgv = 65536;
/** places of a sandbox and exceptions in them; patterns of hosts */
export const MaxDescribedRules = 256;
/** different decisions about hosts */
export const MaxDescribedHosts = 256;

// Values of NetworkFacts.Type.
export const NetworkOff = "off";
export const NetworkOfMachine = "machine";
/** a proxy is offered to the process, which can reach other hosts without it */
export const NetworkByProxy = "proxy";
/** proxies are the only way out */
export const NetworkManaged = "managed";

// Methods by which a client asks about the executor.
export const MethodEnvironmentConfigRead = "environmentConfig/read";
export const MethodDiscoverRoots = "capabilityRoots/discoverV1";
export const MethodDiscoverCapabilities = "capabilities/discoverV2";

// Error codes of the protocol. A client decides by the code, and by the reason that errors of
// tether's own methods have. Errors of the reference's methods have no reason: where one code
// stands for several conditions, only the text tells them apart. So tether uses the reference's
// texts, and the Go client compares them in one file (client/refusal.go).
/** malformed message, wrong state, refused input */
export const CodeInvalidRequest = -32600;
export const CodeMethodNotFound = -32601;
/** parameters that cannot be decoded or are not valid */
export const CodeInvalidParams = -32602;
/** spawn failures and other errors of the operating system */
export const CodeInternal = -32603;
/** a file or file handle that does not exist */
export const CodeNotFound = -32004;
/** the session has another live connection; worth retrying */
export const CodeSessionAttached = -32010;

// Reasons of errors of methods under tether/, for programs: the member "reason" of the error's data.
// They are never changed. For an error without a reason, the code is enough.
/** the session has no such process */
export const ErrorUnknownProcess = "unknownProcess";
/** the process takes no more input */
export const ErrorStdinClosed = "stdinClosed";
/** the upload was opened with other parameters */
export const ErrorUploadDiffers = "uploadDiffers";
/** the bytes that arrived do not have the digest of the commit */
export const ErrorDigestMismatch = "digestMismatch";
/** the session has no such forwarded connection (any more) */
export const ErrorUnknownPort = "unknownPort";
/** the session has no such listener (any more) */
export const ErrorUnknownListener = "unknownListener";
/** the server does not forward to this target, or does not listen there */
export const ErrorPortDenied = "portDenied";
/** the target cannot be reached, or the server cannot listen there */
export const ErrorPortRefused = "portRefused";
/** the connection may only look; also for methods of the reference */
export const ErrorReadOnly = "readOnly";

/**
 * ReasonResumed is the reason of a server that closes a connection because another connection
 * has resumed its session: in the close frame, and in answers.
 */
export const ReasonResumed = "session has been resumed by another connection";

/**
 * ReasonStopping is the reason in the close frame, with code 1001, of a server that shuts down
 * and ends its sessions.
 */
export const ReasonStopping = "server is shutting down, and its sessions end with it";

/**
 * ReasonReplaced is the reason in the close frame, with code 1012, of a server that another process replaces. The
 * session can be resumed at once. The server has answered all requests that it has carried out.
 */
export const ReasonReplaced = "server is being replaced, and its sessions go on";

// File methods of the reference protocol.
export const MethodFsReadFile = "fs/readFile";
export const MethodFsOpen = "fs/open";
export const MethodFsReadBlock = "fs/readBlock";
export const MethodFsWriteBlock = "fs/writeBlock";
export const MethodFsClose = "fs/close";
export const MethodFsWriteFile = "fs/writeFile";
export const MethodFsCreateDirectory = "fs/createDirectory";
export const MethodFsGetMetadata = "fs/getMetadata";
export const MethodFsCanonicalize = "fs/canonicalize";
export const MethodFsReadDirectory = "fs/readDirectory";
export const MethodFsWalk = "fs/walk";
export const MethodFsRemove = "fs/remove";
export const MethodFsCopy = "fs/copy";
export const MethodFsWatchMissing = "fs/watchMissing";
/** notification to the client */
export const NoteFsMissingChanged = "fs/missingChanged";

/** MethodFsSetAttributes is tether's addition to the file methods. */
export const MethodFsSetAttributes = "tether/fs/setAttributes";

/** MaxMode has all bits of permissions: a mode has no others. */
export const MaxMode = 511;

// Kinds of WalkEntry.
export const WalkFile = "file";
export const WalkDirectory = "directory";

/** HostsPath is the page of a gateway, below the path of its URL, that lists the hosts of its fleet. */
export const HostsPath = "/hosts";

// States of hosts.
export const HostReachable = "reachable";
/** reachable, and gets no new sessions, except with QueryDraining */
export const HostDraining = "draining";
/** not heard of for some seconds */
export const HostUnreachable = "unreachable";

// Parameters of the URL of a gateway.
/** the name of the host for a new session */
export const QueryHost = "host";
/** a label that the host has; can be repeated */
export const QueryLabel = "label";
/** QueryDraining is "true" in the URL of a client that starts no commands: its session may be on a host that is draining. */
export const QueryDraining = "draining";

// HTTP from the executor's network.
export const MethodHTTPRequest = "http/request";
/** notification to the client */
export const NoteHTTPBodyDelta = "http/request/bodyDelta";

// Values of StateDetail.Activity. Clients must accept others.
/** nothing could be observed */
export const ActivityUnknown = "unknown";
/** nothing was found that blocks it */
export const ActivityRunning = "running";
/** on a processor, or ready for it */
export const ActivityUsingCPU = "usingCpu";
/** on stdin or the terminal */
export const ActivityWaitingForInput = "waitingForInput";
/** blocked: the client does not read its output */
export const ActivityOutputNotRead = "outputNotRead";
/** whose other end HolderPID has */
export const ActivityBlockedOnPipe = "blockedOnPipe";
/** by a signal or a debugger */
export const ActivityStopped = "stopped";
/** for a time */
export const ActivitySleeping = "sleeping";
/** cannot be interrupted */
export const ActivityWaitingForDisk = "waitingForDisk";
/** in a call about a socket */
export const ActivityWaitingOnNetwork = "waitingOnNetwork";
/** of several files, or a timer */
export const ActivityWaitingForEvents = "waitingForEvents";
/** or another thread */
export const ActivityWaitingForLock = "waitingForLock";
export const ActivityWaitingForSignal = "waitingForSignal";
/** HolderPID, about which nothing is known */
export const ActivityWaitingForChild = "waitingForChild";
/** in the kernel, for something else */
export const ActivityWaiting = "waiting";
/** exited, and its parent has not read its exit status */
export const ActivityZombie = "zombie";
/** exited, but HolderPID has its output open */
export const ActivityOutputHeld = "outputHeld";
/** exited, and its output has ended */
export const ActivityEnded = "ended";

// Values of StateDetail.Source.
/** the operating system was asked */
export const SourceSystem = "system";
/** only facts of the server itself */
export const SourceServer = "server";

// Limits of a search. Larger numbers in the parameters are reduced to them; a longer pattern is
// refused.
/** bytes */
export const MaxPattern = 1024;
export const DefaultMatches = 100;
export const MaxMatches = 1000;
/** lines before, and after */
export const MaxContext = 50;
/** bytes of a line that are returned */
export const MaxLineText = 2048;
/** bytes of a line that are searched, from its beginning */
export const MaxLineSearched = 65536;
/** bytes of all lines of an answer */
export const MaxSearchText = 1048576;

// Values of SearchResult.Truncated.
/** there are more than the maximum number of matches */
export const TruncatedMatches = "matches";
/** the answer would be too large */
export const TruncatedSize = "size";
/** it took too long */
export const TruncatedTime = "time";

// Names of limits.
export const LimitMemoryBytes = "memoryBytes";
export const LimitCPUs = "cpus";
export const LimitProcesses = "processes";
export const LimitOpenFiles = "openFiles";
export const LimitDiskBytes = "diskBytes";
export const LimitTimeMs = "timeMs";

// Values of LimitInForce.By.
/** the kernel, for all processes of the command together */
export const ByCgroup2 = "cgroup2";
/** likewise */
export const ByCgroup1 = "cgroup1";
/** the kernel, for each process */
export const ByRlimit = "rlimit";
/** the server */
export const ByTimer = "timer";
/** it is not enforced */
export const ByNothing = "none";

// Sizes of pages. Each event counts its output and PagedEvent.
export const DefaultPage = 262144;
/** a larger number in the parameters is reduced to it */
export const MaxPage = 1048576;
export const PagedEvent = 64;

// Values of LogEvent.Kind. Absent: output.
export const EventExited = "exited";
export const EventClosed = "closed";

// Messages about the network of a process, to the client.
/** a request: may it reach this host? */
export const MethodNetworkPolicyRequest = "network/policyRequest";
export const NoteNetworkPolicyDecision = "network/policyDecision";

// Methods of forwarded connections. A forwarded connection joins a TCP connection that the client has accepted with one that the server has made
// to a target, or one that the server has accepted with one that the client makes. It belongs to the session, and goes on after a lost connection between client
// and server.
//
// Each direction is a sequence of bytes with offsets from 0. The sender keeps the bytes that are not acknowledged, and sends no byte at or behind the limit of
// the receiver.
export const MethodPortOpen = "tether/port/open";
export const MethodPortClose = "tether/port/close";
export const MethodPortList = "tether/port/list";
export const MethodPortListen = "tether/port/listen";
export const MethodPortAccept = "tether/port/accept";
export const MethodPortUnlisten = "tether/port/unlisten";
/** bytes for the target */
export const NotePortWrite = "tether/port/write";
/** the client has handed on bytes of the target */
export const NotePortAck = "tether/port/ack";
/** bytes of the target */
export const NotePortData = "tether/port/data";
/** the server has handed on bytes to the target */
export const NotePortAcked = "tether/port/acked";
/** the connection to the target has failed */
export const NotePortFailed = "tether/port/failed";

// Limits of forwarded connections.
/** bytes of a connectionId or a listenerId */
export const MaxPortID = 64;
/** bytes of one message */
export const MaxPortChunk = 65536;
/**
 * PortAckEvery is how many bytes a receiver may have handed on without having acknowledged them. A sender that keeps fewer than twice as many
 * could wait for ever.
 */
export const PortAckEvery = 32768;

/** PortDataOverhead is an upper bound for the size of a PortData message without its id and its chunk. */
export const PortDataOverhead = 128;

/** ReferenceVersion is the release of the reference whose protocol this is. */
export const ReferenceVersion = "0.166.0";

// Methods of the reference protocol.
export const MethodInitialize = "initialize";
/** notification from the client */
export const MethodInitialized = "initialized";
export const MethodEnvironmentInfo = "environment/info";
export const MethodEnvironmentStatus = "environment/status";
export const MethodProcessStart = "process/start";
export const MethodProcessRead = "process/read";
export const MethodProcessWrite = "process/write";
export const MethodProcessSignal = "process/signal";
export const MethodProcessTerminate = "process/terminate";
/** notifications to the client */
export const NoteProcessOutput = "process/output";
export const NoteProcessExited = "process/exited";
export const NoteProcessClosed = "process/closed";

// Methods and notifications that only tether has. A reference client never sends the methods and
// ignores the notifications.
/** notification from the client */
export const MethodAck = "tether/ack";
export const MethodProcessResize = "tether/process/resize";
export const MethodProcessCloseStdin = "tether/process/closeStdin";
export const MethodProcessList = "tether/process/list";
export const MethodProcessSignalAny = "tether/process/signal";
export const MethodProcessObserve = "tether/process/observe";
export const MethodProcessUnobserve = "tether/process/unobserve";
export const MethodProcessWriteAny = "tether/process/write";
export const MethodProcessTerminateAny = "tether/process/terminate";
export const MethodProcessState = "tether/process/state";
export const MethodProcessSearch = "tether/process/search";
export const MethodProcessReadAny = "tether/process/read";
export const MethodProcessDescribe = "tether/process/describe";
export const MethodProcessTakeControl = "tether/process/takeControl";
export const MethodProcessGiveControl = "tether/process/giveControl";
export const MethodSessionList = "tether/session/list";
export const MethodSessionEnd = "tether/session/end";
export const MethodKeeperState = "tether/keeper/state";
export const MethodKeeperUpgrade = "tether/keeper/upgrade";
export const MethodReload = "tether/reload";
export const MethodConsoleCode = "tether/console/code";
/**
 * NoteGoodbye is the last notification of a server that shuts down and ends its sessions,
 * for clients that have asked for it in initialize. It has no parameters.
 */
export const NoteGoodbye = "tether/goodbye";
/** notifications to an observer */
export const NoteObservedOutput = "tether/process/output";
export const NoteObservedExited = "tether/process/exited";
export const NoteObservedClosed = "tether/process/closed";
export const NoteObservedEvicted = "tether/process/evicted";
export const NoteObservedRemoved = "tether/process/removed";
export const NoteObservedControl = "tether/process/control";

// Streams of process output.
export const StreamStdout = "stdout";
export const StreamStderr = "stderr";
export const StreamPTY = "pty";

// Values of WriteResult.Status.
export const WriteAccepted = "accepted";
export const WriteUnknownProcess = "unknownProcess";
export const WriteStarting = "starting";
export const WriteStdinClosed = "stdinClosed";

// Types of Permissions.
/** confined as FileSystem and Network say */
export const PermissionsManaged = "managed";
/** not confined */
export const PermissionsDisabled = "disabled";
/** another sandbox confines files; the executor confines the network */
export const PermissionsExternal = "external";

// Types of FileSystemPolicy.
export const FileSystemRestricted = "restricted";
export const FileSystemUnrestricted = "unrestricted";

// Types of SandboxPath.
/** a file or a directory with all below it */
export const SandboxPathURI = "path";
/** only meaningful with AccessDeny */
export const SandboxPathGlob = "glob_pattern";
export const SandboxPathSpecial = "special";

// Kinds of SpecialPath.
/** the whole file system */
export const SpecialRoot = "root";
/** system directories, to read */
export const SpecialMinimal = "minimal";
/** each workspace root; also spelled current_working_directory */
export const SpecialProjectRoots = "project_roots";
/** $TMPDIR of the child */
export const SpecialTmpdir = "tmpdir";
/** /tmp */
export const SpecialSlashTmp = "slash_tmp";
/** something newer; to be ignored */
export const SpecialUnknown = "unknown";

// Limits of one message. The reference client has the same limits for messages that it receives.
/** containers inside each other, the message itself included */
export const MaxDepth = 127;
/** objects, arrays and scalars; keys do not count */
export const MaxValues = 262144;

// Limits of names that a client chooses.
/** bytes */
export const MaxOnceID = 256;
/** bytes */
export const MaxLabel = 128;

// States of a process.
/** not reaped yet */
export const StateRunning = "running";
/** reaped, but its output is still open */
export const StateExited = "exited";
/** its output has ended */
export const StateClosed = "closed";

// The kinds of settings that a server can read again while it runs. Each is replaced as a whole, or not at all.
/** it can be read, and its settings are possible */
export const SettingsFile = "configurationFile";
export const SettingsTokens = "tokens";
export const SettingsCertificates = "certificates";
export const SettingsLimits = "limits";
export const SettingsLogLevel = "logLevel";

/** DeniedNetwork is the Syscall of a DenialFact about a system call that would use the network. */
export const DeniedNetwork = "network";

// Methods of uploads. An upload is a file that is sent in blocks, over any number of connections,
// and takes its place in one step. It belongs to the session.
export const MethodUploadOpen = "tether/upload/open";
export const MethodUploadWrite = "tether/upload/write";
export const MethodUploadStatus = "tether/upload/status";
export const MethodUploadCommit = "tether/upload/commit";
export const MethodUploadAbort = "tether/upload/abort";

// What a figure of a Usage covers. Clients must accept other words.
/** the command and everything that it started */
export const OfTree = "tree";
/** the command and the descendants that their parents have waited for */
export const OfWaited = "waited";
/** the largest single process among those */
export const OfLargest = "largest";
/** nothing, but the largest process had at most this much */
export const OfBound = "bound";

// Values of MemoryKill.Limit. Clients must accept other words.
/** the limit of this command */
export const LimitCommand = "command";
/** the limit of all commands of the server together */
export const LimitServer = "server";
/** a limit for more than the server, or the memory of the machine */
export const LimitOuter = "outer";

/** MaxSurvivors is how many survivors of one command are named. */
export const MaxSurvivors = 16;

/** AbsolutePath is an absolute native path, cleaned lexically. */
export type AbsolutePath = string;

/** Access is what an entry allows. Peers may write "none" for AccessDeny. */
export type Access =
  | "read"
  | "write" // includes reading
  | "deny";

/**
 * AckParams is the notification tether/ack: the client has processed all events of the process up
 * to and including Seq.
 */
export interface AckParams {
  processId: string;
  seq: number;
}

/** An Amount is a finite number that may have a fraction. */
export type Amount = number;

/** AppCapabilities are what a client can do and wants. */
export interface AppCapabilities {
  /** the process API is experimental */
  experimentalApi?: boolean;
  optOutNotificationMethods?: string[] | null;
}

/** AppClientInfo names the client. */
export interface AppClientInfo {
  name: string;
  title?: string | null;
  version: string;
}

/** AppInitializeParams begin a connection to an app-server. */
export interface AppInitializeParams {
  clientInfo: AppClientInfo;
  capabilities?: AppCapabilities | null;
}

/** AppInitializeResult answers initialize. */
export interface AppInitializeResult {
  userAgent: string;
  codexHome: string;
  /** "unix" or "windows" */
  platformFamily: string;
  /** "linux", "macos" or "windows" */
  platformOs: string;
}

/** AuditMetadata names the user and the program for which a process runs. */
export interface AuditMetadata {
  conversationId?: string | null;
  appVersion?: string | null;
  userAccountId?: string | null;
  authMode?: string | null;
  originator?: string | null;
  userEmail?: string | null;
  terminalType?: string | null;
  model?: string | null;
  slug?: string | null;
}

/**
 * Base64 is binary data. In JSON it is standard base64 with padding and zero trailing bits,
 * without line breaks.
 */
export type Base64 = string;

/** CanonicalizeParams asks for the path of a file without links. */
export interface CanonicalizeParams {
  path: PathURI;
  sandbox?: Sandbox | null;
}

/** CanonicalizeResult answers fs/canonicalize. */
export interface CanonicalizeResult {
  /** a URI */
  path: string;
}

/** Capabilities are the reference's flags. If one is false, the client must not use that feature. */
export interface Capabilities {
  networkProxyLaunch?: boolean;
  networkProxyReviewDomains?: boolean;
  credentialMasking?: boolean;
  credentialMaskingCustomProviders?: boolean;
  capabilityDiscoverySandbox?: boolean;
  fsWatchMissing?: boolean;
  capabilityDiscoveryV2?: boolean;
  environmentConfigRead?: boolean;
  httpHeaderEnvVars?: boolean;
  sandboxedFileStreaming?: boolean;
  fileWriteStreaming?: boolean;
  shellSnapshotV2?: boolean;
  windowsMxc?: boolean;
  linuxRootWritePreservesDevices?: boolean;
  linuxApprovedRootWritePreservesRestrictions?: boolean;
}

/** CapabilityFile is a file with its content. */
export interface CapabilityFile {
  /** a URI */
  path: string;
  contents: string;
}

/** CloseStdinParams ends the input of a process. */
export interface CloseStdinParams {
  processId: string;
  sessionId?: string | null;
  /** as in SignalParams */
  onceId?: string | null;
}

/** ConfigLayer has the requested keys of one file. */
export interface ConfigLayer {
  source: string;
  /** a URI */
  baseDir?: string | null;
  toml: string;
}

/** ConfigLayers are configuration files, lowest precedence first. */
export interface ConfigLayers {
  layers: ConfigLayer[];
  cloudInsertionIndex: number;
}

/**
 * ConfigReadParams asks for parts of the configuration files of the executor's
 * user. Each path is a list of keys.
 */
export interface ConfigReadParams {
  cwd: PathURI;
  configPaths: string[][];
  requirementsPaths: string[][];
}

/** ConfigReadResult answers environmentConfig/read. */
export interface ConfigReadResult {
  /** URIs */
  userHomeDir?: string | null;
  codexHomeDir: string;
  hostname?: string | null;
  config: ConfigLayers;
  requirements: ConfigLayers;
}

/**
 * ConsoleCode answers tether/console/code: a code with which a browser can use the console of the server, once, as the client that has asked
 * for it.
 */
export interface ConsoleCode {
  code: string;
  /** how long the code can be used */
  expiresMs: number;
  /** of the page; absent: the address of the server */
  origin?: string | null;
  /** the browser may only look */
  readOnly?: boolean;
}

/** ControlParams names a process of any session, for tether/process/takeControl and tether/process/giveControl. */
export interface ControlParams {
  processId: string;
  sessionId?: string | null;
}

/** CopyParams copies a file, a link or a directory. */
export interface CopyParams {
  sourcePath: PathURI;
  destinationPath: PathURI;
  recursive: boolean;
  sandbox?: Sandbox | null;
}

/** CreateDirectoryParams makes a directory. */
export interface CreateDirectoryParams {
  path: PathURI;
  /** absent: true */
  recursive?: boolean | null;
  /** absent: true */
  followSymlinks?: boolean | null;
  sandbox?: Sandbox | null;
}

/**
 * Cwd is the working directory of a process/start. Unlike every other path it
 * may come as a plain absolute path instead of a path URI.
 */
export type Cwd = string;

/**
 * A DenialFact has the known details of a denial: the member "tetherDenial" beside
 * "sandboxDenied".
 */
export interface DenialFact {
  /** the denied path */
  path?: PathURI | null;
  /** the denied access: "read" or "write" */
  access?: string | null;
  /** the rule that decided about the path */
  rule?: string | null;
  /** the kind of the denied system call, such as DeniedNetwork */
  syscall?: string | null;
}

/** DescribeParams asks for facts about a process of any session. */
export interface DescribeParams {
  processId: string;
  sessionId?: string | null;
}

/** DescribeResult answers tether/process/describe. It never has values of environment variables. */
export interface DescribeResult {
  /** as in a list without its usage, but with up to MaxDescribedArgv bytes of argv */
  process: ProcessInfo;
  arg0?: string | null;
  pipeStdin: boolean;
  oneStream: boolean;
  keepNewest: boolean;
  /** as in StartParams */
  metadata?: StartMetadata | null;
  sandbox: SandboxFacts;
  network: NetworkFacts;
  /** sandbox and network for people, line by line, as `tether sandbox explain` prints them */
  text: string[];
  /** about hosts so far, in the order in which they came first */
  decisions: HostDecision[];
  /** decisions that are not among them */
  moreDecisions?: number;
  /** absent: there are none */
  limits?: LimitsInForce | null;
  /** from here on: as in ProcessExited */
  sandboxDenied?: boolean;
  tetherDenial?: DenialFact | null;
  tetherLimit?: string | null;
  tetherFailure?: string | null;
}

/** Dimension is a number of rows or columns. */
export type Dimension = number;

/** DirectoryEntry is a name in a directory. Links are followed for the flags. */
export interface DirectoryEntry {
  fileName: string;
  isDirectory: boolean;
  isFile: boolean;
}

/**
 * DiscoverCapabilitiesParams asks for the plugins and skills of the executor's
 * user.
 */
export interface DiscoverCapabilitiesParams {
  cwd: PathURI;
  sandbox?: Sandbox | null;
}

/** DiscoverCapabilitiesResult answers capabilities/discoverV2. */
export interface DiscoverCapabilitiesResult {
  plugins: InstalledPlugin[];
  skills: InstalledSkill[];
  warnings: string[];
}

/** DiscoverRoot is a directory to search. */
export interface DiscoverRoot {
  id: string;
  path: PathURI;
  sandbox?: Sandbox | null;
}

/** DiscoverRootsParams asks for the plugins and skills in some directories. */
export interface DiscoverRootsParams {
  roots: DiscoverRoot[];
}

/** DiscoverRootsResult answers capabilityRoots/discoverV1. */
export interface DiscoverRootsResult {
  roots: DiscoveredRoot[];
}

/** DiscoveredPlugin is the files of a plugin. */
export interface DiscoveredPlugin {
  manifest: CapabilityFile;
  mcpConfig?: CapabilityFile | null;
  appsConfig?: CapabilityFile | null;
}

/** DiscoveredRoot has the plugin and the skills of one directory. */
export interface DiscoveredRoot {
  id: string;
  /** a URI */
  path: string;
  plugin?: DiscoveredPlugin | null;
  skills: DiscoveredSkill[];
  namespaceManifests: CapabilityFile[];
  warnings: string[];
  error?: string | null;
}

/** DiscoveredSkill is the files of a skill. */
export interface DiscoveredSkill {
  instructions: CapabilityFile;
  metadata?: CapabilityFile | null;
}

/** DomainAccess is the rule for the hosts that a pattern matches. */
export type DomainAccess =
  | "none"
  | "allow"
  | "deny";

/** DomainRules are patterns of hosts. */
export type DomainRules = Record<string, DomainAccess>;

/** Empty is the result of methods that return nothing. */
export type Empty = Record<string, never>;

/** EnvOverrides are variables to set, and with null to remove. */
export type EnvOverrides = Record<string, string | null> | null;

/** EnvPolicy says how the child's environment is built from the server's. */
export interface EnvPolicy {
  inherit: Inherit;
  ignoreDefaultExcludes: boolean;
  exclude: string[];
  set: Record<string, string>;
  includeOnly: string[];
}

/** EnvironmentInfo describes the executor. Older servers leave out all but the shell. */
export interface EnvironmentInfo {
  shell: ShellInfo;
  /** a semantic version, of the reference */
  executorVersion?: string;
  providerId?: string;
  cwd?: string | null;
  userHomeDir?: string | null;
  platformOs?: string;
  prependPathDirs?: string[];
  temporaryDirectories?: string[];
  tempDir?: string;
  capabilities?: Capabilities;
}

/** ErrorCode is the code of an error: one of the constants whose names begin with Code. */
export type ErrorCode = number;

/** ErrorData is the data of an error with a reason. */
export interface ErrorData {
  reason: ErrorReason;
}

/** ErrorObject is the error member of an answer. Its data is an ErrorData if the error has a reason. */
export interface ErrorObject {
  code: ErrorCode;
  message: string;
  data?: unknown;
}

/** ErrorReason is the reason of an error of a method under tether/, for programs. */
export type ErrorReason =
  | "unknownProcess" // the session has no such process
  | "stdinClosed" // the process takes no more input
  | "uploadDiffers" // the upload was opened with other parameters
  | "digestMismatch" // the bytes that arrived do not have the digest of the commit
  | "unknownPort" // the session has no such forwarded connection (any more)
  | "unknownListener" // the session has no such listener (any more)
  | "portDenied" // the server does not forward to this target, or does not listen there
  | "portRefused" // the target cannot be reached, or the server cannot listen there
  | "readOnly"; // the connection may only look; also for methods of the reference

/**
 * FileSystemPolicy is a union; Type selects the variant. When restricted, the most specific entry
 * decides, and paths without an entry are denied.
 */
export type FileSystemPolicy =
  | {
      type: "restricted";
      entries: SandboxEntry[];
      /** absent: no limit */
      glob_scan_max_depth?: number | null;
    }
  | {
      type: "unrestricted";
    };

/** A FleetHost is an executor of a fleet. */
export interface FleetHost {
  name: string;
  /** HostReachable, HostDraining or HostUnreachable */
  state: string;
  labels: string[];
  /** commands */
  running: number;
  /** how many commands the machine is made for */
  capacity: number;
  sessions: number;
  /** of the machine in the last minute, per processor */
  load: number;
  version: string;
  /** which backend confines commands; "none": they cannot be confined; "": not known yet */
  sandbox: string;
}

/** FleetHosts is the content of the page. */
export interface FleetHosts {
  /** in the order of their names */
  hosts: FleetHost[];
}

/** HTTPBodyDelta is the notification http/request/bodyDelta. */
export interface HTTPBodyDelta {
  requestId: string;
  seq: number;
  deltaBase64: Base64;
  done: boolean;
  error?: string | null;
}

/**
 * HTTPHeader is one header line of a request. If ValueEnvVar is set, the value of that variable
 * of the executor's environment is appended to Value.
 */
export interface HTTPHeader {
  name: string;
  value: string;
  valueEnvVar?: string | null;
}

/** HTTPRequestParams is a request that the executor makes. */
export interface HTTPRequestParams {
  method: string;
  url: string;
  headers?: HTTPHeader[];
  bodyBase64?: Base64 | null;
  timeoutMs?: number | null;
  /** absent: RedirectFollow */
  redirectPolicy?: RedirectPolicy;
  requestId: string;
  streamResponse?: boolean;
}

/** HTTPResponse answers http/request. */
export interface HTTPResponse {
  status: number;
  headers: HTTPResponseHeader[];
  /** empty if the body is streamed */
  bodyBase64: Base64;
}

/** HTTPResponseHeader is one header line of a response. */
export interface HTTPResponseHeader {
  /** lower case */
  name: string;
  value: string;
}

/** HandleParams names an open file. */
export interface HandleParams {
  handleId: string;
}

/** HandleResult answers fs/open. */
export interface HandleResult {
  handleId: string;
}

/** A HostDecision is a decision about a host that a process wanted to reach, and how often it was made. */
export interface HostDecision {
  host: string;
  port: number;
  /** as in NetworkQuestion */
  protocol: string;
  /** allow, deny or ask */
  decision: string;
  /** as in NetworkDecision, like the members below */
  source: string;
  reason: string;
  rule?: string | null;
  address?: string | null;
  count: number;
  /** Unix time */
  firstMs: number;
  lastMs: number;
}

/** Inherit says which of the server's variables a child starts with. */
export type Inherit =
  | "core" // PATH, HOME and similar ones
  | "all"
  | "none";

/** InitializeParams opens a session or resumes one. */
export interface InitializeParams {
  clientName: string;
  resumeSessionId?: string | null;
  tether?: InitializeTether | null;
}

/** InitializeResult answers initialize. */
export interface InitializeResult {
  sessionId: string;
  environmentInfo: EnvironmentInfo;
  tether: TetherInfo;
}

/** InitializeTether has the requests of a tether client. */
export interface InitializeTether {
  /** how long the server should keep the session while detached */
  ttlMs?: number | null;
  /** the client sends tether/ack; output is kept until then */
  acks?: boolean | null;
  /** a name for lists: at most MaxLabel bytes, printable */
  label?: string | null;
  /** Goodbye asks for NoteGoodbye on this connection, also when it resumes a session. */
  goodbye?: boolean | null;
}

/** InstalledPlugin is an installed plugin. */
export interface InstalledPlugin {
  /** NAME@MARKETPLACE */
  id: string;
  displayName: string;
  remotePluginId?: string | null;
  version: string;
  /** a URI */
  root: string;
  files: DiscoveredPlugin;
  skills: InstalledSkill[];
}

/** InstalledSkill is the description of a skill by its own files. */
export interface InstalledSkill {
  name: string;
  description: string;
  shortDescription?: string | null;
  /** a URI */
  path: string;
  discoveryRoot?: SkillRoot | null;
  dependencies?: SkillDependencies | null;
  policy?: SkillPolicy | null;
}

/** KeeperState answers tether/keeper/state. */
export interface KeeperState {
  /** of the worker */
  version: string;
  /** its number: 1 for the first */
  worker: number;
  workerPid: number;
  keeperPid: number;
  /** the keeper runs the same program as the worker */
  sameProgram: boolean;
  /** workers that have died, and were not replaced by an upgrade */
  deaths: number;
  /** how the worker before this one ended, for people; "": there was none */
  lastEnd?: string;
}

/** A LimitInForce is a limit, and how it is enforced. */
export interface LimitInForce {
  limit: Amount;
  by: string;
}

/**
 * Limits are those of a process with everything that it starts (tether). A limit that is absent is not asked for. An unknown
 * member is an error, unlike in all other parameters: a limit that is not understood would not be enforced.
 */
export interface Limits {
  memoryBytes?: number | null;
  /** processors; may be a fraction */
  cpus?: number | null;
  /** threads count */
  processes?: number | null;
  /** of each process */
  openFiles?: number | null;
  /** written */
  diskBytes?: number | null;
  /** from the start to the end */
  timeMs?: number | null;
  /**
   * BestEffort lets the process start although a limit cannot be enforced, or only in part, or is above what the server
   * grants. The answer says what is in force.
   */
  bestEffort?: boolean | null;
}

/** LimitsInForce answers a start with limits: each one that was asked for, or that the server demands. */
export interface LimitsInForce {
  memoryBytes?: LimitInForce | null;
  cpus?: LimitInForce | null;
  processes?: LimitInForce | null;
  openFiles?: LimitInForce | null;
  diskBytes?: LimitInForce | null;
  timeMs?: LimitInForce | null;
}

/** ListParams asks for processes. */
export interface ListParams {
  /** public; absent: all sessions of the client's principal */
  sessionId?: string | null;
}

/** ListResult answers tether/process/list. */
export interface ListResult {
  processes: ProcessInfo[];
  /**
   * Survivors are processes of sessions that have ended: they were killed and are still there. They are only in lists of
   * all sessions.
   */
  survivors?: Survivor[];
}

/** A LogEvent is one event of a process. */
export interface LogEvent {
  seq: number;
  /** Unix time */
  timeMs: number;
  kind?: string;
  /** Of output. */
  stream?: string;
  chunk?: Base64;
  /** Of the exit; as in ProcessExited. */
  exitCode?: number | null;
  sandboxDenied?: boolean;
  tetherDenial?: DenialFact | null;
  tetherLimit?: string | null;
  tetherUsage?: Usage | null;
  tetherFailure?: string | null;
  /** Of the close; as in ProcessClosed. */
  tetherSurvivors?: Survivor[];
}

/** ManagedNetwork names ports and sockets that stay reachable when the sandbox blocks the network. */
export interface ManagedNetwork {
  loopbackPorts?: number[];
  allowLocalBinding?: boolean;
  dangerouslyAllowAllUnixSockets?: boolean;
}

/** MemoryKill says that the system has killed processes of a command because there was no memory for them. */
export interface MemoryKill {
  /** how many */
  processes: number;
  /** which limit was reached */
  limit: string;
  bytes?: number | null;
}

/** MetadataParams asks for the facts about a file. */
export interface MetadataParams {
  path: PathURI;
  /** absent: true */
  followSymlinks?: boolean | null;
  sandbox?: Sandbox | null;
  /** tether's addition: report the permissions */
  tetherMode?: boolean | null;
}

/**
 * MetadataResult answers fs/getMetadata. For a symbolic link, it has type, size and times of
 * the target.
 */
export interface MetadataResult {
  isDirectory: boolean;
  isFile: boolean;
  /** the path itself is a link */
  isSymlink: boolean;
  size: number;
  /** Unix time; 0: unknown */
  createdAtMs: number;
  modifiedAtMs: number;
  /**
   * TetherMode is tether's addition: the nine bits of the permissions, if they were
   * requested.
   */
  tetherMode?: number | null;
}

/** MissingChanged is the notification fs/missingChanged. */
export interface MissingChanged {
  watchId: number;
}

/** MissingPath says what a back end that marks paths on disk does with a missing path. */
export type MissingPath =
  | "skip"; // MissingPathSkip makes no mark.

/** NetworkAccess says whether the network is open to a confined process. */
export type NetworkAccess =
  | "restricted"
  | "enabled";

/** A NetworkAnswer allows an attempt or not. For a proxy, "ask" is "deny". */
export interface NetworkAnswer {
  type: NetworkAnswerType;
  /** of all but "allow" */
  reason?: string | null;
}

/** NetworkAnswerType is the kind of an answer. */
export type NetworkAnswerType =
  | "allow"
  | "deny"
  | "ask";

/** NetworkDecision reports a decision to the client. */
export interface NetworkDecision {
  processId: string;
  /** RFC 3339 with milliseconds, UTC */
  timestamp: string;
  /** "domain" or "non_domain" */
  scope: string;
  /** "allow" or "deny" */
  decision: string;
  /** baseline_policy, mode_guard or decider */
  source: string;
  reason: string;
  protocol: string;
  host: string;
  port: number;
  method?: string | null;
  /** the process's end of the connection */
  client?: string | null;
  /** the client has allowed it */
  policyOverride: boolean;
  /** tether: the pattern that decided and the address, where there is one. */
  tetherRule?: string | null;
  tetherAddress?: string | null;
}

/** NetworkFacts say what the network of a process lets it reach. */
export interface NetworkFacts {
  type: string;
  /** of its proxy, see NetworkMode; absent: it has no proxy of the server */
  mode?: string | null;
  /** patterns of hosts */
  allow: string[];
  deny: string[];
  /** the client decides about hosts that no pattern matches */
  asks: boolean;
  /** some patterns are left out */
  partial?: boolean;
}

/** NetworkMode restricts the requests to hosts that may be reached. */
export type NetworkMode =
  | "limited"
  | "full";

/** NetworkPolicyParams asks the client about a host that no rule decides. */
export interface NetworkPolicyParams {
  processId: string;
  request: NetworkQuestion;
}

/** NetworkPolicyResult is the client's answer. */
export interface NetworkPolicyResult {
  decision: NetworkAnswer;
}

/** NetworkProxy asks for a proxy that serves the process alone. */
export interface NetworkProxy {
  proxy: NetworkProxySettings;
  auditMetadata?: AuditMetadata;
  environmentId?: string | null;
  executionId?: string | null;
  /**
   * PolicyDecisionTimeoutMs: if it is not 0, the client is asked about hosts that no rule
   * decides, and has this long to answer.
   */
  policyDecisionTimeoutMs?: number | null;
}

/** NetworkProxySettings are the rules of a proxy. */
export interface NetworkProxySettings {
  enabled: boolean;
  enableSocks5: boolean;
  enableSocks5Udp: boolean;
  allowUpstreamProxy: boolean;
  dangerouslyAllowAllUnixSockets: boolean;
  mode: NetworkMode;
  /** Domains says for each pattern whether the hosts that it matches may be reached. */
  domains?: DomainRules | null;
  unixSockets?: SocketRules | null;
  allowLocalBinding: boolean;
  /**
   * ReviewDomains are patterns of hosts that the client decides about, even if Domains
   * allows them.
   */
  reviewDomains?: string[];
  /**
   * TetherPorts: a pattern with a port matches only that port. Without TetherPorts, as in the
   * reference, the port is ignored.
   */
  tetherPorts?: boolean | null;
}

/** A NetworkQuestion is about one attempt to reach a host. */
export interface NetworkQuestion {
  /** http, https_connect, socks5_tcp or socks5_udp */
  protocol: string;
  host: string;
  port: number;
}

/** NoParams are the parameters of methods that have none: absent, null or {}. */
export type NoParams = Record<string, never> | null;

/** ObserveParams starts an observation of a process of any session. */
export interface ObserveParams {
  /** public */
  sessionId: string;
  processId: string;
  /** absent: from the oldest event that is still held */
  afterSeq?: number | null;
}

/** ObserveResult answers tether/process/observe. */
export interface ObserveResult {
  /** names the observation on this connection */
  observeId: number;
  /** the next number the process will assign */
  nextSeq: number;
}

/**
 * ObservedClosed is the notification tether/process/closed, the last one of an
 * observation.
 */
export interface ObservedClosed {
  observeId: number;
  seq: number;
  timeMs: number;
  tetherSurvivors?: Survivor[];
}

/** ObservedControl is the notification tether/process/control: another connection types to the process. An observer whose process is controlled gets it first. */
export interface ObservedControl {
  observeId: number;
  /** its name, for people; absent: no connection has control */
  holder?: string | null;
  /** it is the observer's own connection */
  mine: boolean;
}

/**
 * ObservedEvicted is the notification tether/process/evicted: the observer
 * fell behind, and the events before FirstSeq are gone.
 */
export interface ObservedEvicted {
  observeId: number;
  /** the oldest event that is still held */
  firstSeq: number;
}

/** ObservedExited is the notification tether/process/exited. */
export interface ObservedExited {
  observeId: number;
  seq: number;
  timeMs: number;
  exitCode: number;
  sandboxDenied: boolean;
  tetherDenial?: DenialFact | null;
  /** as in ProcessExited */
  tetherLimit?: string | null;
  tetherUsage?: Usage | null;
  /** as in ProcessExited */
  tetherFailure?: string | null;
}

/** ObservedOutput is the notification tether/process/output. */
export interface ObservedOutput {
  observeId: number;
  seq: number;
  /** when it was read; Unix time */
  timeMs: number;
  stream: string;
  chunk: Base64;
}

/**
 * ObservedRemoved is the notification tether/process/removed: the process and its output are
 * gone before the observer has got the close, because the session has ended.
 */
export interface ObservedRemoved {
  observeId: number;
}

/** OpenMode is the purpose for which a file is opened. */
export type OpenMode =
  | "read"
  | "replace"; // created, or emptied at once

/** OpenParams opens a file under an id that the client chooses. */
export interface OpenParams {
  handleId: string;
  path: PathURI;
  /** absent: OpenRead */
  mode?: OpenMode;
  sandbox?: Sandbox | null;
}

/** OutputCap is how much output of a stream a client wants. */
export type OutputCap = number | null;

/** OutputChunk is one piece of output. */
export interface OutputChunk {
  seq: number;
  stream: string;
  chunk: Base64;
}

/**
 * A PathURI is a path on the executor in the form of the protocol: a normalised file: URI.
 * It follows the executor's own convention, so that both ends need not run the same system.
 * PathURIs are comparable; the zero value is no path.
 */
export type PathURI = string;

/**
 * Permissions is what a process may do. It is a union; Type selects the variant. From here on,
 * names of members are in snake_case.
 */
export type Permissions =
  /** confined as FileSystem and Network say */
  | {
      type: "managed";
      file_system: FileSystemPolicy;
      network: NetworkAccess;
    }
  /** not confined */
  | {
      type: "disabled";
    }
  /** another sandbox confines files; the executor confines the network */
  | {
      type: "external";
      network: NetworkAccess;
    };

/** PolicyContext replaces the cwd and workspace roots of its Sandbox. */
export interface PolicyContext {
  cwd?: PathURI | null;
  workspaceRoots?: PathURI[];
}

/** PortAcceptParams takes the next connection of a listener under an id, or continues it after a lost connection. */
export interface PortAcceptParams {
  listenerId: string;
  /** see PortOpenParams */
  connectionId: string;
  /** the client takes the bytes of the connection before this offset */
  limit: number;
  /** see PortOpenParams */
  received?: number | null;
}

/**
 * PortAcceptResult answers tether/port/accept when there is a connection. Without a peer there is none: the server is being replaced, and the client repeats the
 * request on its next connection.
 */
export interface PortAcceptResult {
  /** see PortOpenResult */
  received: number;
  limit: number;
  /** the address and port of the program that has connected */
  peer: string;
}

/** PortAck is the notification tether/port/ack or tether/port/acked. */
export interface PortAck {
  connectionId: string;
  /** all bytes before it were handed on */
  offset: number;
  /** bytes before it are taken */
  limit: number;
}

/** PortCloseParams ends a forwarded connection. A connection that is not known is closed already. */
export interface PortCloseParams {
  connectionId: string;
  /** true: the target sees a reset */
  abort?: boolean | null;
}

/** PortData is the notification tether/port/write or tether/port/data. Bytes that have arrived before are ignored. */
export interface PortData {
  connectionId: string;
  /** of the first byte of the chunk */
  offset: number;
  chunk: Base64;
  /** true: nothing follows the chunk in this direction */
  end?: boolean | null;
}

/** PortFailed is the notification tether/port/failed. The bytes that had come from the target before were sent. The client closes the connection. */
export interface PortFailed {
  connectionId: string;
  message: string;
}

/** PortListParams asks for the TCP sockets on which processes wait for connections. */
export interface PortListParams {
  /** public; absent: all sessions of the client's principal */
  sessionId?: string | null;
  /** WaitMs asks for a version. If the list still has the version Seen, the answer waits for another one, at most that long. */
  waitMs?: number | null;
  seen?: string | null;
}

/** PortListResult answers tether/port/list. */
export interface PortListResult {
  listeners: PortListener[];
  /** some may be missing: there are too many, or the system hides them */
  partial?: boolean;
  /** of the list, if it was asked for */
  version?: string;
}

/** PortListenParams lets the server listen on its loopback for the client. If the listener exists already, because the answer was lost, the answer is the same. */
export interface PortListenParams {
  /** 1 to 64 bytes that the client has not used before in the session */
  listenerId: string;
  /** a loopback address; absent: 127.0.0.1, and ::1 if the server's machine has it */
  host?: string | null;
  /** 0: any free one */
  port: number;
}

/** PortListenResult answers tether/port/listen. */
export interface PortListenResult {
  /** IP */
  addresses: string[];
  port: number;
}

/** A PortListener is a TCP socket on which a process, or something that it has started, waits for connections. */
export interface PortListener {
  /** public */
  sessionId: string;
  processId: string;
  /** IP */
  address: string;
  port: number;
  pid: number;
  /** of the program */
  name: string;
  /** the process has a network of its own: see processId of PortOpenParams */
  inside?: boolean;
}

/** PortOpenParams opens a connection to a target, or continues it after a lost connection. */
export interface PortOpenParams {
  /** 1 to 64 bytes that the client has not used before in the session */
  connectionId: string;
  /** a name or an IP address; absent: the server's machine, by its loopback addresses */
  host?: string | null;
  port: number;
  /** the client takes the bytes of the target before this offset */
  limit: number;
  /** ProcessID names a process that listens on the port, or of which a descendant does, in a network of its own. Host is not used then. */
  processId?: string | null;
  /** public, of the process; absent: the client's own session */
  sessionId?: string | null;
  /**
   * Received continues a connection: the client has all bytes of the target before this offset. Without it, a connection is opened; if
   * it exists already, because the answer was lost, the answer is the same.
   */
  received?: number | null;
}

/** PortOpenResult answers tether/port/open. */
export interface PortOpenResult {
  /** the server has all bytes of the client before this offset: continue here */
  received: number;
  /** the server takes the bytes of the client before this offset */
  limit: number;
}

/** PortUnlistenParams ends a listener, not the connections that were taken. A listener that is not known has ended already. */
export interface PortUnlistenParams {
  listenerId: string;
}

/** ProcessClosed is the notification process/closed. */
export interface ProcessClosed {
  processId: string;
  seq: number;
  /** TetherSurvivors are processes of the command that were killed and are still there. */
  tetherSurvivors?: Survivor[];
}

/**
 * ProcessEnded is the notification process/exited of the process API, the last one about a command. The server
 * writes it without this type.
 */
export interface ProcessEnded {
  processHandle: string;
  exitCode: number;
  /** another process still had the output open, and some of it may be missing */
  outputDrainTimedOut: boolean;
  /** empty if it was streamed */
  stdout: string;
  stdoutCapReached: boolean;
  /** empty if it was streamed */
  stderr: string;
  stderrCapReached: boolean;
}

/** ProcessExited is the notification process/exited. */
export interface ProcessExited {
  processId: string;
  seq: number;
  exitCode: number;
  /** absent: not known */
  sandboxDenied?: boolean | null;
  tetherDenial?: DenialFact | null;
  /** the limit because of which the server has ended the process, such as LimitTimeMs */
  tetherLimit?: string | null;
  tetherUsage?: Usage | null;
  /** TetherFailure says why the exit code is not the command's own, such as that its server was killed; absent: it is. */
  tetherFailure?: string | null;
}

/** ProcessInfo is the entry of one process in a list. */
export interface ProcessInfo {
  /** public */
  sessionId: string;
  processId: string;
  argv: string[];
  /** path URI */
  cwd: string;
  pid: number;
  tty: boolean;
  /** Unix time */
  startedAtMs: number;
  state: string;
  exitCode?: number | null;
  /** as in ProcessExited */
  sandboxDenied?: boolean;
  /** of the terminal; absent: there is none, or it is not known */
  size?: TermSize | null;
  nextSeq: number;
  /** last event sent to the session's client */
  sentSeq: number;
  /** output that is kept, with some overhead for each event */
  heldBytes: number;
  /** output after SentSeq */
  unsentBytes: number;
  /** the part of HeldBytes that is on disk */
  spooledBytes: number;
  /** output that is no longer kept */
  droppedBytes?: number;
  /** its output is not being read, so that it waits */
  blocked: boolean;
  observers: number;
  /** the name of the connection that has taken control; absent: none has */
  controlledBy?: string | null;
  /** Usage of the process and all its descendants; absent if it is not known. */
  cpuMs?: number | null;
  /** resident; shared pages count for each process */
  memoryBytes?: number | null;
  /** The account of a process that has exited; absent if it is not known. */
  tetherUsage?: Usage | null;
  /** Survivors are processes of the command that were killed and are still there. */
  survivors?: Survivor[];
  /** What it is doing, without evidence; absent: it has ended, or was not observed. */
  stateDetail?: StateDetail | null;
}

/** ProcessKillParams name a command. */
export interface ProcessKillParams {
  processHandle: string;
}

/** ProcessOutput is the notification process/output. */
export interface ProcessOutput {
  processId: string;
  seq: number;
  stream: string;
  chunk: Base64;
}

/** ProcessOutputDelta is the notification process/outputDelta. The server writes it without this type. */
export interface ProcessOutputDelta {
  processHandle: string;
  /** StreamStdout or StreamStderr; a terminal has StreamStdout */
  stream: string;
  deltaBase64: Base64;
  /** no more output of the stream follows, although there may be more */
  capReached: boolean;
}

/** ProcessParams names a process of the session. */
export interface ProcessParams {
  processId: string;
}

/** ProcessResizePtyParams change the size of a command's terminal. */
export interface ProcessResizePtyParams {
  processHandle: string;
  size: ProcessTerminalSize;
}

/** ProcessSpawnParams start a command under a handle that the client chooses. */
export interface ProcessSpawnParams {
  command: string[];
  processHandle: string;
  cwd: AbsolutePath;
  tty?: boolean;
  streamStdin?: boolean;
  streamStdoutStderr?: boolean;
  outputBytesCap?: OutputCap;
  timeoutMs?: TimeoutMs;
  env?: EnvOverrides;
  size?: ProcessTerminalSize | null;
}

/** ProcessTerminalSize is the size of a terminal in characters. */
export interface ProcessTerminalSize {
  rows: Dimension;
  cols: Dimension;
}

/** ProcessWriteStdinParams write to a command's input, close it, or both. */
export interface ProcessWriteStdinParams {
  processHandle: string;
  /** decoded later: malformed base64 has its own error */
  deltaBase64?: string | null;
  closeStdin?: boolean;
}

/** ProxySettingsMode matters on Windows only. */
export type ProxySettingsMode =
  | "reconcile"
  | "preserve";

/**
 * ReadAnyParams asks for a page of the events of a process that the server still has, of any session. Reading
 * has no effect on the process or its client. At most one of AfterSeq and BeforeSeq is given; without both, the page begins with the oldest
 * event.
 */
export interface ReadAnyParams {
  processId: string;
  sessionId?: string | null;
  /** the oldest events after this number */
  afterSeq?: number | null;
  /** the newest events before this number, which may be larger than any */
  beforeSeq?: number | null;
  /** of all events; absent: DefaultPage. At least one event is returned */
  maxBytes?: number | null;
}

/** ReadAnyResult answers tether/process/read. */
export interface ReadAnyResult {
  /** in their order, without gaps */
  events: LogEvent[];
  /** the oldest event that the server still has */
  firstSeq: number;
  /** the next number the process will assign */
  nextSeq: number;
}

/** ReadBlockParams asks for a part of an open file. */
export interface ReadBlockParams {
  handleId: string;
  offset: number;
  len: number;
}

/** ReadBlockResult answers fs/readBlock. The server writes it without this type. */
export interface ReadBlockResult {
  chunk: Base64;
  eof: boolean;
}

/** ReadDirectoryParams asks for the names in a directory. */
export interface ReadDirectoryParams {
  path: PathURI;
  sandbox?: Sandbox | null;
}

/** ReadDirectoryResult answers fs/readDirectory. */
export interface ReadDirectoryResult {
  entries: DirectoryEntry[];
}

/** ReadFileParams asks for the content of a file. */
export interface ReadFileParams {
  path: PathURI;
  /** absent: true */
  followSymlinks?: boolean | null;
  sandbox?: Sandbox | null;
}

/** ReadFileResult answers fs/readFile. The server writes it without this type. */
export interface ReadFileResult {
  dataBase64: Base64;
}

/** ReadParams asks for output after a sequence number. */
export interface ReadParams {
  processId: string;
  afterSeq?: number | null;
  maxBytes?: number | null;
  waitMs?: number | null;
}

/**
 * ReadResult answers process/read. The server writes it without this type;
 * clients decode into it.
 */
export interface ReadResult {
  chunks: OutputChunk[];
  /** afterSeq of the next read is NextSeq - 1 */
  nextSeq: number;
  exited: boolean;
  exitCode?: number | null;
  closed: boolean;
  failure?: string | null;
  sandboxDenied?: boolean;
  tetherDenial?: DenialFact | null;
  /** as in ProcessExited */
  tetherLimit?: string | null;
  tetherFailure?: string | null;
  /** once exited */
  tetherUsage?: Usage | null;
  /** once closed */
  tetherSurvivors?: Survivor[];
}

/** RedirectPolicy says whether redirects are followed. */
export type RedirectPolicy =
  | "follow"
  | "stop";

/** ReloadResult answers tether/reload. */
export interface ReloadResult {
  settings: ReloadedSettings[];
  /** names of settings of the configuration file that have changed, and need a restart of the server */
  restart: string[];
}

/** ReloadedSettings says what has become of settings that were read again. */
export interface ReloadedSettings {
  kind: string;
  changed: boolean;
  /** why they cannot be used: the earlier ones stay in force. "": they can */
  error?: string;
}

/** RemoveParams removes a file or a directory. */
export interface RemoveParams {
  path: PathURI;
  /** absent: true */
  recursive?: boolean | null;
  /** absent: true */
  force?: boolean | null;
  /** absent: true */
  followSymlinks?: boolean | null;
  sandbox?: Sandbox | null;
}

/**
 * An ID names a request: a string or a signed 64-bit integer. IDs are
 * comparable; the string "1" and the number 1 differ. The zero ID is the
 * number 0.
 */
export type RequestId = string | number;

/** ResizeParams changes the size of a process's terminal. */
export interface ResizeParams {
  processId: string;
  sessionId?: string | null;
  rows: number;
  cols: number;
}

/** A Sandbox says how a process or a file operation is to be confined. */
export interface Sandbox {
  permissions: Permissions;
  windowsSandboxLevel: WindowsLevel;
  /**
   * Cwd is the directory that relative rules start from; absent: the cwd of the process.
   * WorkspaceRoots are the directories of SpecialProjectRoots. A PolicyContext replaces
   * both.
   */
  cwd?: PathURI | null;
  policyContext?: PolicyContext | null;
  workspaceRoots?: PathURI[];
  /** Facts about the executor, as its client knows them. */
  userHomeDir?: PathURI | null;
  temporaryDirectories?: PathURI[] | null;
  /** how the client arrived at this policy */
  sandboxOverride?: SandboxOverride | null;
  windowsSandboxProxySettingsMode?: ProxySettingsMode | null;
  useLegacyLandlock?: boolean;
}

/** A SandboxEntry is one access rule. */
export interface SandboxEntry {
  path: SandboxPath;
  access: Access;
  missing_path_behavior?: MissingPath | null;
}

/** SandboxFacts say what the sandbox of a process lets it do with files. */
export interface SandboxFacts {
  /** as in StartResult; "none": there is no sandbox, and the process has the rights of the server */
  type: string;
  fullRead: boolean;
  fullWrite: boolean;
  /** all other paths are hidden; nothing is listed if FullWrite */
  readable: SandboxPlace[];
  /** likewise, for changes */
  writable: SandboxPlace[];
  /** some places or exceptions are left out, or the rules are not kept any more */
  partial?: boolean;
}

/** SandboxOverride says how the client arrived at this policy. */
export type SandboxOverride =
  | "noOverride"
  | "escalatedSandboxWithRestrictions"
  | "bypassSandboxFirstAttempt";

/** SandboxPath is the path of an entry. It is a union; Type selects the variant. */
export type SandboxPath =
  /** a file or a directory with all below it */
  | {
      type: "path";
      path: PathURI;
    }
  /** only meaningful with AccessDeny */
  | {
      type: "glob_pattern";
      pattern: string;
    }
  | {
      type: "special";
      value: SpecialPath;
    };

/** A SandboxPlace is a directory or file with all that is below it. */
export interface SandboxPlace {
  /** in the form of the executor's system */
  path: string;
  except: SandboxRule[];
}

/** A SandboxRule is an exception in a place. */
export interface SandboxRule {
  path: string;
  /** deny, read or write */
  access: string;
  /** where it comes from, for people */
  rule: string;
}

/** A SearchLine is one line of output. */
export interface SearchLine {
  line: number;
  /** the event in which it begins */
  seq: number;
  stream: string;
  /** without the line end; bytes that are not UTF-8 are replaced */
  text: string;
  match: boolean;
  /** where in the line the text begins, in bytes */
  offset?: number;
  /** the line is longer than the text */
  cut?: boolean;
  /** the line has not ended yet */
  open?: boolean;
}

/**
 * SearchParams asks for lines of the output of a process: lines that match, or all lines.
 * Lines are counted from 1 in the order in which they began, all streams together; each line
 * consists of bytes of one stream.
 */
export interface SearchParams {
  processId: string;
  sessionId?: string | null;
  /** RE2; absent: every line */
  pattern?: string | null;
  ignoreCase?: boolean | null;
  /** only this stream */
  stream?: string | null;
  /** the first line to be searched */
  fromLine?: number | null;
  /** the last line to be searched */
  toLine?: number | null;
  /** absent: DefaultMatches */
  maxMatches?: number | null;
  /** lines of the same stream around a match */
  before?: number | null;
  after?: number | null;
}

/** SearchResult answers tether/process/search. */
export interface SearchResult {
  /** by number, each once */
  lines: SearchLine[];
  /** how many of them match */
  matches: number;
  /** number of the last line that began before the search ended */
  searched: number;
  /** the event after the last one that was searched */
  nextSeq: number;
  /** the oldest event that the server still had */
  firstSeq: number;
  /** events before FirstSeq are gone; lines are counted from there */
  evicted: boolean;
  truncated?: string | null;
  /** if truncated: the first line that was not searched */
  nextLine?: number | null;
  /** LongLines counts lines that are longer than MaxLineSearched and were not searched in full. */
  longLines?: number;
}

/** SessionEndParams ends a session and kills its processes. */
export interface SessionEndParams {
  sessionId?: string | null;
}

/** SessionEndResult answers tether/session/end. */
export interface SessionEndResult {
  /** Survivors are processes of the session that were killed and are still there. */
  survivors?: Survivor[];
}

/** SessionInfo is the entry of one session in a list. */
export interface SessionInfo {
  /** public */
  sessionId: string;
  clientName: string;
  /** the client's name for it */
  label?: string;
  attached: boolean;
  createdAtMs: number;
  /** detached sessions only */
  expiresInMs?: number | null;
  ttlMs: number;
  processes: number;
  /** to which it belongs; only administrators are told */
  principal?: string;
}

/** SessionListResult answers tether/session/list. */
export interface SessionListResult {
  sessions: SessionInfo[];
}

/** SetAttributesParams changes permissions and time of a file or directory. Links are followed. */
export interface SetAttributesParams {
  path: PathURI;
  /** permissions, at most MaxMode; absent: as they are */
  mode?: number | null;
  /** Unix time of the last change; absent: as it is */
  modifiedAtMs?: number | null;
  sandbox?: Sandbox | null;
}

/** ShellInfo names the user's shell. */
export interface ShellInfo {
  /** bash, zsh, sh, powershell or cmd */
  name: string;
  /** native */
  path: string;
}

/**
 * ShellSnapshotRequest lets a login shell start from the state of an earlier login shell of the
 * same scope.
 */
export interface ShellSnapshotRequest {
  scopeId: string;
  shell: ShellInfo;
}

/**
 * SignalAny is the name of a POSIX signal, like "SIGTERM". Peers may omit SIG and use lower case;
 * the value is always the full name.
 */
export type SignalAny =
  | "SIGABRT"
  | "SIGALRM"
  | "SIGBUS"
  | "SIGCHLD"
  | "SIGCONT"
  | "SIGFPE"
  | "SIGHUP"
  | "SIGILL"
  | "SIGINT"
  | "SIGKILL"
  | "SIGPIPE"
  | "SIGPOLL"
  | "SIGPROF"
  | "SIGQUIT"
  | "SIGSEGV"
  | "SIGSTOP"
  | "SIGSYS"
  | "SIGTERM"
  | "SIGTRAP"
  | "SIGTSTP"
  | "SIGTTIN"
  | "SIGTTOU"
  | "SIGURG"
  | "SIGUSR1"
  | "SIGUSR2"
  | "SIGVTALRM"
  | "SIGWINCH"
  | "SIGXCPU"
  | "SIGXFSZ";

/** SignalAnyParams sends any signal to a process. */
export interface SignalAnyParams {
  processId: string;
  sessionId?: string | null;
  signal: SignalAny;
  /** as in SignalParams */
  onceId?: string | null;
}

/** SignalNamed is a signal of process/signal. */
export type SignalNamed =
  | "interrupt"; // SignalInterrupt is the only SignalNamed; it stands for SIGINT.

/** SignalParams interrupts a process group. */
export interface SignalParams {
  processId: string;
  signal: SignalNamed;
  /**
   * tether: a request with the same id, of at most MaxOnceID bytes, has no further effect on the
   * same process.
   */
  onceId?: string | null;
}

/** SkillDependencies are the tools that a skill needs. */
export interface SkillDependencies {
  tools: SkillTool[];
}

/** SkillPolicy says when a skill may be used. */
export interface SkillPolicy {
  allowImplicitInvocation?: boolean | null;
  products: string[];
}

/** SkillRoot is a directory of skills. Skills of a plugin have none. */
export interface SkillRoot {
  id: string;
  /** a URI */
  path: string;
}

/** SkillTool is a tool that a skill uses. */
export interface SkillTool {
  type: string;
  value: string;
  description?: string | null;
  transport?: string | null;
  command?: string | null;
  url?: string | null;
  oauthCallbackPort?: number | null;
}

/** SocketAccess is the rule for a unix socket. */
export type SocketAccess =
  | "allow"
  | "deny";

/** SocketRules are paths of unix sockets. */
export type SocketRules = Record<string, SocketAccess>;

/** SpecialPath is a symbolic name for directories, which the executor resolves. */
export type SpecialPath =
  /** the whole file system */
  | {
      kind: "root";
    }
  /** system directories, to read */
  | {
      kind: "minimal";
    }
  /** another spelling of project_roots */
  | {
      kind: "current_working_directory";
      subpath?: string | null;
    }
  /** each workspace root; also spelled current_working_directory */
  | {
      kind: "project_roots";
      subpath?: string | null;
    }
  /** $TMPDIR of the child */
  | {
      kind: "tmpdir";
    }
  /** /tmp */
  | {
      kind: "slash_tmp";
    }
  /** something newer; to be ignored */
  | {
      kind: "unknown";
      path: string;
      subpath?: string | null;
    };

/** StartMetadata becomes variables of the child's environment. */
export interface StartMetadata {
  threadId?: string | null;
  toolCallId?: string | null;
}

/** StartParams starts a process. */
export interface StartParams {
  processId: string;
  metadata?: StartMetadata | null;
  argv: string[];
  cwd: Cwd;
  envPolicy?: EnvPolicy | null;
  env: Record<string, string>;
  tty: boolean;
  pipeStdin?: boolean;
  arg0?: string | null;
  sandbox?: Sandbox | null;
  enforceManagedNetwork?: boolean;
  managedNetwork?: ManagedNetwork | null;
  networkProxy?: NetworkProxy | null;
  shellSnapshot?: ShellSnapshotRequest | null;
  /** tether: this start is sent again; the server repeats its first answer */
  retry?: boolean | null;
  /** tether: initial size of the terminal */
  size?: TermSize | null;
  /**
   * KeepNewest (tether) drops the oldest output when there is too much unread output, instead
   * of blocking the process.
   */
  keepNewest?: boolean | null;
  /**
   * OneStream (tether) gives a process without terminal one pipe for standard output and
   * standard error. All of its output is StreamStdout.
   */
  oneStream?: boolean | null;
  /** tether */
  limits?: Limits | null;
}

/** StartResult answers process/start. */
export interface StartResult {
  processId: string;
  sandboxType: string;
  /** absent: there are none */
  tetherLimits?: LimitsInForce | null;
}

/**
 * StateDetail is an observation of a process and all its descendants at one moment, with the most
 * likely explanation.
 */
export interface StateDetail {
  activity: string;
  /** one line for people */
  text: string;
  /** where the facts come from */
  source: string;
  /** when it was observed; Unix time */
  asOfMs: number;
  /** since the last output, or the start */
  silentMs: number;
  pid?: number | null;
  /** name of the program of PID */
  command?: string | null;
  holderPid?: number | null;
  holderCommand?: string | null;
  /** not everything could be observed */
  partial?: boolean;
  /** Evidence has one line for each process, the decisive one first. Not in lists. */
  evidence?: StateEvidence[];
}

/** StateEvidence is the observation of one process. */
export interface StateEvidence {
  pid: number;
  command: string;
  saw: string;
}

/** StateParams asks what a process is doing at this moment. */
export interface StateParams {
  processId: string;
  sessionId?: string | null;
}

/** StateResult answers tether/process/state. */
export interface StateResult {
  /** as in ProcessInfo */
  state: string;
  exitCode?: number | null;
  stateDetail: StateDetail;
}

/** StatusResult answers environment/status. */
export interface StatusResult {
  /** "ready" */
  status: string;
}

/** A Survivor is a process that is still there after it was killed. */
export interface Survivor {
  pid: number;
  /** the letter of the system, such as "D": it waits in the kernel and cannot be interrupted */
  state: string;
  /** name of its program */
  command: string;
  /** for people: why it is still there */
  reason: string;
}

/** TermSize is the size of a terminal in characters. */
export interface TermSize {
  rows: number;
  cols: number;
}

/**
 * TerminateAnyParams ends a process of any session. The answer is a
 * TerminateResult.
 */
export interface TerminateAnyParams {
  processId: string;
  sessionId?: string | null;
}

/** TerminateResult answers process/terminate. */
export interface TerminateResult {
  running: boolean;
}

/** TetherInfo announces the server's additions to the reference. */
export interface TetherInfo {
  version: string;
  /** names the session in lists; not a secret */
  publicId: string;
  /** granted */
  ttlMs: number;
  features: string[];
  /** of the fleet, if the client has come through a gateway */
  host?: string;
  /** ReadOnly means that this connection may only look: its requests for anything else are refused with ErrorReadOnly. */
  readOnly?: boolean;
  /** Admin means that this connection may list and control the sessions of all principals. */
  admin?: boolean;
}

/** TimeoutMs is how long a client lets a command run. */
export type TimeoutMs = number | null;

/** UnobserveParams ends an observation. */
export interface UnobserveParams {
  observeId: number;
}

/** UpgradeParams asks for another program in place of the one that serves. */
export interface UpgradeParams {
  /** path on the machine of the server; absent: the file from which it was started */
  program?: string | null;
}

/**
 * UpgradeResult answers tether/keeper/upgrade: the new program has proved that it can take over. Whether it serves
 * is told by tether/keeper/state of the next worker.
 */
export interface UpgradeResult {
  /** number of the worker that is being replaced */
  worker: number;
}

/**
 * UploadCommitParams puts the file in its place if it is complete. After that, the same parameters
 * again succeed and do nothing.
 */
export interface UploadCommitParams {
  uploadId: string;
  /** of the whole file, 64 hexadecimal digits */
  sha256: string;
}

/**
 * UploadOpenParams starts an upload, or continues it: the same parameters again, at any time in
 * the same session, change nothing.
 */
export interface UploadOpenParams {
  /** 1 to 64 bytes that the client has not used before */
  uploadId: string;
  /** the file to make or replace; links are followed */
  path: PathURI;
  /** of the whole file, in bytes */
  size: number;
  /** permissions of a new file, regardless of the umask; absent: the default */
  mode?: number | null;
  sandbox?: Sandbox | null;
}

/** UploadOpenResult answers tether/upload/open. */
export interface UploadOpenResult {
  /** all bytes before it have arrived: continue here */
  offset: number;
  /** bytes of one tether/upload/write */
  maxBlock: number;
  /** the file is in its place */
  committed: boolean;
}

/** UploadParams names an upload, for tether/upload/status and tether/upload/abort. */
export interface UploadParams {
  uploadId: string;
}

/** UploadRange is a part of a file: from Start up to, but without, End. */
export interface UploadRange {
  start: number;
  end: number;
}

/** UploadStatusResult answers tether/upload/status. */
export interface UploadStatusResult {
  size: number;
  received: number;
  offset: number;
  /** the parts that have arrived, in order, with gaps between them */
  ranges: UploadRange[];
  committed: boolean;
}

/** UploadWriteParams sends a block. Blocks may be sent in any order and more than once. */
export interface UploadWriteParams {
  uploadId: string;
  offset: number;
  chunk: Base64;
}

/** UploadWriteResult answers tether/upload/write. */
export interface UploadWriteResult {
  /** number of bytes that have arrived */
  received: number;
  /** all bytes before it have arrived */
  offset: number;
}

/**
 * Usage is the account of a command: what it had used when it exited. It is the member "tetherUsage". A figure that is
 * not known is absent.
 */
export interface Usage {
  /** from the start to the exit */
  wallUs: number;
  /** the part of it in which the command's output was not read */
  blockedUs: number;
  /** CPU time */
  userUs?: number | null;
  systemUs?: number | null;
  /** OfTree or OfWaited */
  cpuOf?: string;
  memoryPeakBytes?: number | null;
  /** OfTree, OfLargest or OfBound */
  memoryOf?: string;
  /** from disks */
  readBytes?: number | null;
  writtenBytes?: number | null;
  /** OfTree or OfWaited */
  ioOf?: string;
  /** the most at the same time */
  processes?: number | null;
  memoryKill?: MemoryKill | null;
}

/** WalkEntry is a file or directory that was found. */
export interface WalkEntry {
  /** a URI */
  path: string;
  /** WalkFile or WalkDirectory */
  kind: string;
}

/** WalkError is a path that could not be read. */
export interface WalkError {
  /** a URI */
  path: string;
  message: string;
}

/** WalkOptions bound a walk. */
export interface WalkOptions {
  maxDepth: number;
  maxDirectories: number;
  maxEntries: number;
  followDirectorySymlinks: boolean;
  pruneHiddenDirectories?: boolean;
}

/** WalkParams asks for all files and directories below a directory. */
export interface WalkParams {
  path: PathURI;
  options: WalkOptions;
  sandbox?: Sandbox | null;
}

/** WalkResult answers fs/walk. */
export interface WalkResult {
  entries: WalkEntry[];
  errors: WalkError[];
  truncated: boolean;
}

/**
 * WatchMissingParams asks for a notification when one of the missing paths is created, or when
 * the present one changes.
 */
export interface WatchMissingParams {
  watchId: number;
  missing: PathURI[];
  present?: PathURI | null;
}

/** WatchMissingResult answers fs/watchMissing. */
export interface WatchMissingResult {
  watching: boolean;
}

/** WindowsLevel is required everywhere and matters on Windows only. */
export type WindowsLevel =
  | "disabled"
  | "restricted-token"
  | "elevated"
  | "mxc";

/**
 * WriteAnyParams is WriteParams for a process of any session. Write ids belong to the process: all
 * clients that write to it must choose different ones.
 */
export interface WriteAnyParams {
  processId: string;
  sessionId?: string | null;
  chunk: Base64;
  writeId: string;
}

/** WriteBlockParams writes a part of an open file. */
export interface WriteBlockParams {
  handleId: string;
  offset: number;
  chunk: Base64;
}

/**
 * WriteFileParams replaces the content of a file. The data stays encoded: the method decodes
 * it, and has its own errors for malformed data.
 */
export interface WriteFileParams {
  path: PathURI;
  dataBase64: string;
  /** absent: true */
  followSymlinks?: boolean | null;
  sandbox?: Sandbox | null;
}

/** WriteParams sends bytes to the standard input of a process, once per WriteID. */
export interface WriteParams {
  processId: string;
  chunk: Base64;
  writeId: string;
}

/** WriteResult answers process/write. */
export interface WriteResult {
  status: string;
}

/** Requests of a client to an exec-server. */
export interface ExecRequests {
  /** Opens a session, or resumes one. It is the first request of every connection. */
  "initialize": { params: InitializeParams; result: InitializeResult };
  /** Describes the executor. */
  "environment/info": { params: NoParams; result: EnvironmentInfo };
  /** Answers at once, so that a client can see that the server is there. */
  "environment/status": { params: NoParams; result: StatusResult };
  /** Reads selected keys of the Codex configuration files of the server's user. */
  "environmentConfig/read": { params: ConfigReadParams; result: ConfigReadResult };
  /** Finds plugins and skills below given directories. */
  "capabilityRoots/discoverV1": { params: DiscoverRootsParams; result: DiscoverRootsResult };
  /** Finds the plugins and skills of the server's user. */
  "capabilities/discoverV2": { params: DiscoverCapabilitiesParams; result: DiscoverCapabilitiesResult };
  /** Makes an HTTP request from the executor's network. */
  "http/request": { params: HTTPRequestParams; result: HTTPResponse };
  /** Starts a process. */
  "process/start": { params: StartParams; result: StartResult };
  /** Returns output after a sequence number, or waits for it. */
  "process/read": { params: ReadParams; result: ReadResult };
  /** Writes to the standard input of a process, once per write id. */
  "process/write": { params: WriteParams; result: WriteResult };
  /** Interrupts a process. */
  "process/signal": { params: SignalParams; result: Empty };
  /** Ends a process and all that it started. */
  "process/terminate": { params: ProcessParams; result: TerminateResult };
  /** Reads a whole file. */
  "fs/readFile": { params: ReadFileParams; result: ReadFileResult };
  /** Replaces the content of a file, or creates it. */
  "fs/writeFile": { params: WriteFileParams; result: Empty };
  /** Creates a directory. */
  "fs/createDirectory": { params: CreateDirectoryParams; result: Empty };
  /** Returns kind, size and times of a file. */
  "fs/getMetadata": { params: MetadataParams; result: MetadataResult };
  /** Returns the path of a file without links. */
  "fs/canonicalize": { params: CanonicalizeParams; result: CanonicalizeResult };
  /** Lists a directory. */
  "fs/readDirectory": { params: ReadDirectoryParams; result: ReadDirectoryResult };
  /** Lists all files and directories below a directory. */
  "fs/walk": { params: WalkParams; result: WalkResult };
  /** Removes a file or directory. */
  "fs/remove": { params: RemoveParams; result: Empty };
  /** Copies a file, a link or a directory. */
  "fs/copy": { params: CopyParams; result: Empty };
  /** Watches for one of several missing paths to be created. */
  "fs/watchMissing": { params: WatchMissingParams; result: WatchMissingResult };
  /** Opens a file under an id that the client chooses. */
  "fs/open": { params: OpenParams; result: HandleResult };
  /** Reads a part of an open file. */
  "fs/readBlock": { params: ReadBlockParams; result: ReadBlockResult };
  /** Writes a part of an open file. */
  "fs/writeBlock": { params: WriteBlockParams; result: Empty };
  /** Closes an open file. */
  "fs/close": { params: HandleParams; result: Empty };
  /** Sets permissions and time of a file or directory. Feature: fileAttributes. */
  "tether/fs/setAttributes": { params: SetAttributesParams; result: Empty };
  /** Begins an upload, or continues it. Feature: upload. */
  "tether/upload/open": { params: UploadOpenParams; result: UploadOpenResult };
  /** Sends a block of an upload. Feature: upload. */
  "tether/upload/write": { params: UploadWriteParams; result: UploadWriteResult };
  /** Says which parts of an upload have arrived. Feature: upload. */
  "tether/upload/status": { params: UploadParams; result: UploadStatusResult };
  /** Puts an uploaded file in its place. Feature: upload. */
  "tether/upload/commit": { params: UploadCommitParams; result: Empty };
  /** Gives an upload up. Feature: upload. */
  "tether/upload/abort": { params: UploadParams; result: Empty };
  /** Connects to a port for the client, or continues a forwarded connection. Feature: ports. */
  "tether/port/open": { params: PortOpenParams; result: PortOpenResult };
  /** Ends a forwarded connection. Feature: ports. */
  "tether/port/close": { params: PortCloseParams; result: Empty };
  /** Lists the TCP sockets on which processes wait for connections. Feature: portList. */
  "tether/port/list": { params: PortListParams; result: PortListResult };
  /** Listens on a port of the server's machine for the client. Feature: portListen. */
  "tether/port/listen": { params: PortListenParams; result: PortListenResult };
  /** Takes the next connection to such a port, or continues a forwarded connection. Feature: portListen. */
  "tether/port/accept": { params: PortAcceptParams; result: PortAcceptResult };
  /** Stops to listen on such a port. Feature: portListen. */
  "tether/port/unlisten": { params: PortUnlistenParams; result: Empty };
  /** Changes the size of a process's terminal. Feature: resize. */
  "tether/process/resize": { params: ResizeParams; result: Empty };
  /** Ends the standard input of a process after all earlier writes. Feature: closeStdin. */
  "tether/process/closeStdin": { params: CloseStdinParams; result: Empty };
  /** Sends any signal to a process. Feature: signal. */
  "tether/process/signal": { params: SignalAnyParams; result: Empty };
  /** Writes to the standard input of a process of any session. Feature: remoteControl. */
  "tether/process/write": { params: WriteAnyParams; result: WriteResult };
  /** Ends a process of any session. Feature: remoteControl. */
  "tether/process/terminate": { params: TerminateAnyParams; result: TerminateResult };
  /** Lists processes. Feature: list. */
  "tether/process/list": { params: ListParams; result: ListResult };
  /** Says what a process is doing at this moment, and why it is silent. Feature: state. */
  "tether/process/state": { params: StateParams; result: StateResult };
  /** Finds lines in the output of a process. Feature: search. */
  "tether/process/search": { params: SearchParams; result: SearchResult };
  /** Returns a page of the events of a process of any session. Feature: readAny. */
  "tether/process/read": { params: ReadAnyParams; result: ReadAnyResult };
  /** Watches a process of any session. Feature: observe. */
  "tether/process/observe": { params: ObserveParams; result: ObserveResult };
  /** Ends an observation. Feature: observe. */
  "tether/process/unobserve": { params: UnobserveParams; result: Empty };
  /** Tells the facts about a process: its command line, sandbox, network, limits and end. Feature: describe. */
  "tether/process/describe": { params: DescribeParams; result: DescribeResult };
  /** Shows to the observers of a process that this connection types. Feature: control. */
  "tether/process/takeControl": { params: ControlParams; result: Empty };
  /** Ends that. Feature: control. */
  "tether/process/giveControl": { params: ControlParams; result: Empty };
  /** Lists sessions. Feature: list. */
  "tether/session/list": { params: NoParams; result: SessionListResult };
  /** Ends a session and kills its processes. Feature: endSession. */
  "tether/session/end": { params: SessionEndParams; result: SessionEndResult };
  /** Describes the keeper and the worker of the server. Feature: keeper. */
  "tether/keeper/state": { params: NoParams; result: KeeperState };
  /** Lets one browser use the server's console as this client. Feature: console. */
  "tether/console/code": { params: Empty; result: ConsoleCode };
  /** Reads the settings of the server again. Feature: reload. */
  "tether/reload": { params: NoParams; result: ReloadResult };
  /** Lets the server go on with another program. Feature: keeper. */
  "tether/keeper/upgrade": { params: UpgradeParams; result: UpgradeResult };
}

/** Notifications of a client to an exec-server: the types of their parameters. */
export interface ExecClientNotifications {
  /** The client has read the answer to initialize. All other requests need it. */
  "initialized": Empty | null | undefined;
  /** All events of a process up to this number have arrived. Feature: ack. */
  "tether/ack": AckParams;
  /** Bytes for the target of a forwarded connection. Feature: ports. */
  "tether/port/write": PortData;
  /** The client has handed on bytes of the target. Feature: ports. */
  "tether/port/ack": PortAck;
}

/** Requests of an exec-server to its client. */
export interface ExecServerRequests {
  /** Asks the client whether a process may reach a host that no rule decides about. */
  "network/policyRequest": { params: NetworkPolicyParams; result: NetworkPolicyResult };
}

/** Notifications of an exec-server to its client: the types of their parameters. */
export interface ExecServerNotifications {
  /** A part of the body of a streamed response. */
  "http/request/bodyDelta": HTTPBodyDelta;
  /** Output of a process, in the order of the sequence numbers. */
  "process/output": ProcessOutput;
  /** A process has exited. Output that other processes hold open may follow. */
  "process/exited": ProcessExited;
  /** The output of a process has ended. It is the last notification about the process. */
  "process/closed": ProcessClosed;
  /** Reports a decision about a host that a process wanted to reach. */
  "network/policyDecision": NetworkDecision;
  /** A watched path was created or has changed. */
  "fs/missingChanged": MissingChanged;
  /** The server shuts down, and its sessions end with it. Feature: goodbye. */
  "tether/goodbye": Empty;
  /** Bytes of the target of a forwarded connection. Feature: ports. */
  "tether/port/data": PortData;
  /** The server has handed on bytes to the target. Feature: ports. */
  "tether/port/acked": PortAck;
  /** The connection to a target has failed. Its bytes were sent before. Feature: ports. */
  "tether/port/failed": PortFailed;
  /** Output of an observed process. Feature: observe. */
  "tether/process/output": ObservedOutput;
  /** An observed process has exited. Feature: observe. */
  "tether/process/exited": ObservedExited;
  /** The output of an observed process has ended, and the observation with it. Feature: observe. */
  "tether/process/closed": ObservedClosed;
  /** The observer was too slow: events that it has not seen are gone. Feature: observe. */
  "tether/process/evicted": ObservedEvicted;
  /** The session of the process has ended: nothing more will come. Feature: observe. */
  "tether/process/removed": ObservedRemoved;
  /** Another connection types to an observed process, or none does. Feature: control. */
  "tether/process/control": ObservedControl;
}

/** Requests of a client to an app-server. */
export interface AppRequests {
  /** Begins a connection. */
  "initialize": { params: AppInitializeParams; result: AppInitializeResult };
  /** Starts a command under a handle that the client chooses. */
  "process/spawn": { params: ProcessSpawnParams; result: Empty };
  /** Writes to the standard input of a command, closes it, or both. */
  "process/writeStdin": { params: ProcessWriteStdinParams; result: Empty };
  /** Changes the size of a command's terminal. */
  "process/resizePty": { params: ProcessResizePtyParams; result: Empty };
  /** Ends a command and all that it started. */
  "process/kill": { params: ProcessKillParams; result: Empty };
}

/** Notifications of a client to an app-server: the types of their parameters. */
export interface AppClientNotifications {
  /** The client has read the answer to initialize. */
  "initialized": Empty | null | undefined;
}

/** Notifications of an app-server to its client: the types of their parameters. */
export interface AppServerNotifications {
  /** Output of a command. */
  "process/outputDelta": ProcessOutputDelta;
  /** A command has ended. It is the last notification about the command. */
  "process/exited": ProcessEnded;
}
