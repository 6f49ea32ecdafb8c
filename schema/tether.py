# Generated from package wire by "make schema". Do not edit.
"""The exec-server protocol with tether's additions, and the process API of the app-server.

A NotRequired member may be absent; members that are not known must be ignored.
"""

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, Union

# The methods of the process API. MethodInitialize and MethodInitialized are
# shared with the exec server, by name only.
METHOD_SPAWN = "process/spawn"
METHOD_WRITE_STDIN = "process/writeStdin"
METHOD_RESIZE_PTY = "process/resizePty"
METHOD_KILL = "process/kill"

# The notifications of the process API. Exited has the name of an exec-server
# notification and other members.
NOTE_OUTPUT_DELTA = "process/outputDelta"
NOTE_EXITED = "process/exited"

# CodeOverloaded means that too many requests are under way; the client may try again later.
CODE_OVERLOADED = -32001

# InvalidAppRequest begins every answer to a request that cannot be decoded.
INVALID_APP_REQUEST = "Invalid request: "

# Limits of a description. Above them it is cut, and says so.
# bytes of argv
MAX_DESCRIBED_ARGV = 65536
# places of a sandbox and exceptions in them; patterns of hosts
MAX_DESCRIBED_RULES = 256
# different decisions about hosts
MAX_DESCRIBED_HOSTS = 256

# Values of NetworkFacts.Type.
NETWORK_OFF = "off"
NETWORK_OF_MACHINE = "machine"
# a proxy is offered to the process, which can reach other hosts without it
NETWORK_BY_PROXY = "proxy"
# proxies are the only way out
NETWORK_MANAGED = "managed"

# Methods by which a client asks about the executor.
METHOD_ENVIRONMENT_CONFIG_READ = "environmentConfig/read"
METHOD_DISCOVER_ROOTS = "capabilityRoots/discoverV1"
METHOD_DISCOVER_CAPABILITIES = "capabilities/discoverV2"

# Error codes of the protocol. A client decides by the code, and by the reason that errors of
# tether's own methods have. Errors of the reference's methods have no reason: where one code
# stands for several conditions, only the text tells them apart. So tether uses the reference's
# texts, and the Go client compares them in one file (client/refusal.go).
# malformed message, wrong state, refused input
CODE_INVALID_REQUEST = -32600
CODE_METHOD_NOT_FOUND = -32601
# parameters that cannot be decoded or are not valid
CODE_INVALID_PARAMS = -32602
# spawn failures and other errors of the operating system
CODE_INTERNAL = -32603
# a file or file handle that does not exist
CODE_NOT_FOUND = -32004
# the session has another live connection; worth retrying
CODE_SESSION_ATTACHED = -32010

# Reasons of errors of methods under tether/, for programs: the member "reason" of the error's data.
# They are never changed. For an error without a reason, the code is enough.
# the session has no such process
ERROR_UNKNOWN_PROCESS = "unknownProcess"
# the process takes no more input
ERROR_STDIN_CLOSED = "stdinClosed"
# the upload was opened with other parameters
ERROR_UPLOAD_DIFFERS = "uploadDiffers"
# the bytes that arrived do not have the digest of the commit
ERROR_DIGEST_MISMATCH = "digestMismatch"
# the session has no such forwarded connection (any more)
ERROR_UNKNOWN_PORT = "unknownPort"
# the session has no such listener (any more)
ERROR_UNKNOWN_LISTENER = "unknownListener"
# the server does not forward to this target, or does not listen there
ERROR_PORT_DENIED = "portDenied"
# the target cannot be reached, or the server cannot listen there
ERROR_PORT_REFUSED = "portRefused"
# the connection may only look; also for methods of the reference
ERROR_READ_ONLY = "readOnly"

# ReasonResumed is the reason of a server that closes a connection because another connection
# has resumed its session: in the close frame, and in answers.
REASON_RESUMED = "session has been resumed by another connection"

# ReasonStopping is the reason in the close frame, with code 1001, of a server that shuts down
# and ends its sessions.
REASON_STOPPING = "server is shutting down, and its sessions end with it"

# ReasonReplaced is the reason in the close frame, with code 1012, of a server that another process replaces. The
# session can be resumed at once. The server has answered all requests that it has carried out.
REASON_REPLACED = "server is being replaced, and its sessions go on"

# File methods of the reference protocol.
METHOD_FS_READ_FILE = "fs/readFile"
METHOD_FS_OPEN = "fs/open"
METHOD_FS_READ_BLOCK = "fs/readBlock"
METHOD_FS_WRITE_BLOCK = "fs/writeBlock"
METHOD_FS_CLOSE = "fs/close"
METHOD_FS_WRITE_FILE = "fs/writeFile"
METHOD_FS_CREATE_DIRECTORY = "fs/createDirectory"
METHOD_FS_GET_METADATA = "fs/getMetadata"
METHOD_FS_CANONICALIZE = "fs/canonicalize"
METHOD_FS_READ_DIRECTORY = "fs/readDirectory"
METHOD_FS_WALK = "fs/walk"
METHOD_FS_REMOVE = "fs/remove"
METHOD_FS_COPY = "fs/copy"
METHOD_FS_WATCH_MISSING = "fs/watchMissing"
# notification to the client
NOTE_FS_MISSING_CHANGED = "fs/missingChanged"

# MethodFsSetAttributes is tether's addition to the file methods.
METHOD_FS_SET_ATTRIBUTES = "tether/fs/setAttributes"

# MaxMode has all bits of permissions: a mode has no others.
MAX_MODE = 511

# Kinds of WalkEntry.
WALK_FILE = "file"
WALK_DIRECTORY = "directory"

# HostsPath is the page of a gateway, below the path of its URL, that lists the hosts of its fleet.
HOSTS_PATH = "/hosts"

# States of hosts.
HOST_REACHABLE = "reachable"
# reachable, and gets no new sessions, except with QueryDraining
HOST_DRAINING = "draining"
# not heard of for some seconds
HOST_UNREACHABLE = "unreachable"

# Parameters of the URL of a gateway.
# the name of the host for a new session
QUERY_HOST = "host"
# a label that the host has; can be repeated
QUERY_LABEL = "label"
# QueryDraining is "true" in the URL of a client that starts no commands: its session may be on a host that is draining.
QUERY_DRAINING = "draining"

# HTTP from the executor's network.
METHOD_HTTP_REQUEST = "http/request"
# notification to the client
NOTE_HTTP_BODY_DELTA = "http/request/bodyDelta"

# Values of StateDetail.Activity. Clients must accept others.
# nothing could be observed
ACTIVITY_UNKNOWN = "unknown"
# nothing was found that blocks it
ACTIVITY_RUNNING = "running"
# on a processor, or ready for it
ACTIVITY_USING_CPU = "usingCpu"
# on stdin or the terminal
ACTIVITY_WAITING_FOR_INPUT = "waitingForInput"
# blocked: the client does not read its output
ACTIVITY_OUTPUT_NOT_READ = "outputNotRead"
# whose other end HolderPID has
ACTIVITY_BLOCKED_ON_PIPE = "blockedOnPipe"
# by a signal or a debugger
ACTIVITY_STOPPED = "stopped"
# for a time
ACTIVITY_SLEEPING = "sleeping"
# cannot be interrupted
ACTIVITY_WAITING_FOR_DISK = "waitingForDisk"
# in a call about a socket
ACTIVITY_WAITING_ON_NETWORK = "waitingOnNetwork"
# of several files, or a timer
ACTIVITY_WAITING_FOR_EVENTS = "waitingForEvents"
# or another thread
ACTIVITY_WAITING_FOR_LOCK = "waitingForLock"
ACTIVITY_WAITING_FOR_SIGNAL = "waitingForSignal"
# HolderPID, about which nothing is known
ACTIVITY_WAITING_FOR_CHILD = "waitingForChild"
# in the kernel, for something else
ACTIVITY_WAITING = "waiting"
# exited, and its parent has not read its exit status
ACTIVITY_ZOMBIE = "zombie"
# exited, but HolderPID has its output open
ACTIVITY_OUTPUT_HELD = "outputHeld"
# exited, and its output has ended
ACTIVITY_ENDED = "ended"

# Values of StateDetail.Source.
# the operating system was asked
SOURCE_SYSTEM = "system"
# only facts of the server itself
SOURCE_SERVER = "server"

# Limits of a search. Larger numbers in the parameters are reduced to them; a longer pattern is
# refused.
# bytes
MAX_PATTERN = 1024
DEFAULT_MATCHES = 100
MAX_MATCHES = 1000
# lines before, and after
MAX_CONTEXT = 50
# bytes of a line that are returned
MAX_LINE_TEXT = 2048
# bytes of a line that are searched, from its beginning
MAX_LINE_SEARCHED = 65536
# bytes of all lines of an answer
MAX_SEARCH_TEXT = 1048576

# Values of SearchResult.Truncated.
# there are more than the maximum number of matches
TRUNCATED_MATCHES = "matches"
# the answer would be too large
TRUNCATED_SIZE = "size"
# it took too long
TRUNCATED_TIME = "time"

# Names of limits.
LIMIT_MEMORY_BYTES = "memoryBytes"
LIMIT_CP_US = "cpus"
LIMIT_PROCESSES = "processes"
LIMIT_OPEN_FILES = "openFiles"
LIMIT_DISK_BYTES = "diskBytes"
LIMIT_TIME_MS = "timeMs"

# Values of LimitInForce.By.
# the kernel, for all processes of the command together
BY_CGROUP2 = "cgroup2"
# likewise
BY_CGROUP1 = "cgroup1"
# the kernel, for each process
BY_RLIMIT = "rlimit"
# the server
BY_TIMER = "timer"
# it is not enforced
BY_NOTHING = "none"

# Sizes of pages. Each event counts its output and PagedEvent.
DEFAULT_PAGE = 262144
# a larger number in the parameters is reduced to it
MAX_PAGE = 1048576
PAGED_EVENT = 64

# Values of LogEvent.Kind. Absent: output.
EVENT_EXITED = "exited"
EVENT_CLOSED = "closed"

# Messages about the network of a process, to the client.
# a request: may it reach this host?
METHOD_NETWORK_POLICY_REQUEST = "network/policyRequest"
NOTE_NETWORK_POLICY_DECISION = "network/policyDecision"

# Methods of forwarded connections. A forwarded connection joins a TCP connection that the client has accepted with one that the server has made
# to a target, or one that the server has accepted with one that the client makes. It belongs to the session, and goes on after a lost connection between client
# and server.
#
# Each direction is a sequence of bytes with offsets from 0. The sender keeps the bytes that are not acknowledged, and sends no byte at or behind the limit of
# the receiver.
METHOD_PORT_OPEN = "tether/port/open"
METHOD_PORT_CLOSE = "tether/port/close"
METHOD_PORT_LIST = "tether/port/list"
METHOD_PORT_LISTEN = "tether/port/listen"
METHOD_PORT_ACCEPT = "tether/port/accept"
METHOD_PORT_UNLISTEN = "tether/port/unlisten"
# bytes for the target
NOTE_PORT_WRITE = "tether/port/write"
# the client has handed on bytes of the target
NOTE_PORT_ACK = "tether/port/ack"
# bytes of the target
NOTE_PORT_DATA = "tether/port/data"
# the server has handed on bytes to the target
NOTE_PORT_ACKED = "tether/port/acked"
# the connection to the target has failed
NOTE_PORT_FAILED = "tether/port/failed"

# Limits of forwarded connections.
# bytes of a connectionId or a listenerId
MAX_PORT_ID = 64
# bytes of one message
MAX_PORT_CHUNK = 65536
# PortAckEvery is how many bytes a receiver may have handed on without having acknowledged them. A sender that keeps fewer than twice as many
# could wait for ever.
PORT_ACK_EVERY = 32768

# PortDataOverhead is an upper bound for the size of a PortData message without its id and its chunk.
PORT_DATA_OVERHEAD = 128

# ReferenceVersion is the release of the reference whose protocol this is.
REFERENCE_VERSION = "0.166.0"

# Methods of the reference protocol.
METHOD_INITIALIZE = "initialize"
# notification from the client
METHOD_INITIALIZED = "initialized"
METHOD_ENVIRONMENT_INFO = "environment/info"
METHOD_ENVIRONMENT_STATUS = "environment/status"
METHOD_PROCESS_START = "process/start"
METHOD_PROCESS_READ = "process/read"
METHOD_PROCESS_WRITE = "process/write"
METHOD_PROCESS_SIGNAL = "process/signal"
METHOD_PROCESS_TERMINATE = "process/terminate"
# notifications to the client
NOTE_PROCESS_OUTPUT = "process/output"
NOTE_PROCESS_EXITED = "process/exited"
NOTE_PROCESS_CLOSED = "process/closed"

# Methods and notifications that only tether has. A reference client never sends the methods and
# ignores the notifications.
# notification from the client
METHOD_ACK = "tether/ack"
METHOD_PROCESS_RESIZE = "tether/process/resize"
METHOD_PROCESS_CLOSE_STDIN = "tether/process/closeStdin"
METHOD_PROCESS_LIST = "tether/process/list"
METHOD_PROCESS_SIGNAL_ANY = "tether/process/signal"
METHOD_PROCESS_OBSERVE = "tether/process/observe"
METHOD_PROCESS_UNOBSERVE = "tether/process/unobserve"
METHOD_PROCESS_WRITE_ANY = "tether/process/write"
METHOD_PROCESS_TERMINATE_ANY = "tether/process/terminate"
METHOD_PROCESS_STATE = "tether/process/state"
METHOD_PROCESS_SEARCH = "tether/process/search"
METHOD_PROCESS_READ_ANY = "tether/process/read"
METHOD_PROCESS_DESCRIBE = "tether/process/describe"
METHOD_PROCESS_TAKE_CONTROL = "tether/process/takeControl"
METHOD_PROCESS_GIVE_CONTROL = "tether/process/giveControl"
METHOD_SESSION_LIST = "tether/session/list"
METHOD_SESSION_END = "tether/session/end"
METHOD_KEEPER_STATE = "tether/keeper/state"
METHOD_KEEPER_UPGRADE = "tether/keeper/upgrade"
METHOD_RELOAD = "tether/reload"
METHOD_CONSOLE_CODE = "tether/console/code"
# NoteGoodbye is the last notification of a server that shuts down and ends its sessions,
# for clients that have asked for it in initialize. It has no parameters.
NOTE_GOODBYE = "tether/goodbye"
# notifications to an observer
NOTE_OBSERVED_OUTPUT = "tether/process/output"
NOTE_OBSERVED_EXITED = "tether/process/exited"
NOTE_OBSERVED_CLOSED = "tether/process/closed"
NOTE_OBSERVED_EVICTED = "tether/process/evicted"
NOTE_OBSERVED_REMOVED = "tether/process/removed"
NOTE_OBSERVED_CONTROL = "tether/process/control"

# Streams of process output.
STREAM_STDOUT = "stdout"
STREAM_STDERR = "stderr"
STREAM_PTY = "pty"

# Values of WriteResult.Status.
WRITE_ACCEPTED = "accepted"
WRITE_UNKNOWN_PROCESS = "unknownProcess"
WRITE_STARTING = "starting"
WRITE_STDIN_CLOSED = "stdinClosed"

# Types of Permissions.
# confined as FileSystem and Network say
PERMISSIONS_MANAGED = "managed"
# not confined
PERMISSIONS_DISABLED = "disabled"
# another sandbox confines files; the executor confines the network
PERMISSIONS_EXTERNAL = "external"

# Types of FileSystemPolicy.
FILE_SYSTEM_RESTRICTED = "restricted"
FILE_SYSTEM_UNRESTRICTED = "unrestricted"

# Types of SandboxPath.
# a file or a directory with all below it
SANDBOX_PATH_URI = "path"
# only meaningful with AccessDeny
SANDBOX_PATH_GLOB = "glob_pattern"
SANDBOX_PATH_SPECIAL = "special"

# Kinds of SpecialPath.
# the whole file system
SPECIAL_ROOT = "root"
# system directories, to read
SPECIAL_MINIMAL = "minimal"
# each workspace root; also spelled current_working_directory
SPECIAL_PROJECT_ROOTS = "project_roots"
# $TMPDIR of the child
SPECIAL_TMPDIR = "tmpdir"
# /tmp
SPECIAL_SLASH_TMP = "slash_tmp"
# something newer; to be ignored
SPECIAL_UNKNOWN = "unknown"

# Limits of one message. The reference client has the same limits for messages that it receives.
# containers inside each other, the message itself included
MAX_DEPTH = 127
# objects, arrays and scalars; keys do not count
MAX_VALUES = 262144

# Limits of names that a client chooses.
# bytes
MAX_ONCE_ID = 256
# bytes
MAX_LABEL = 128

# States of a process.
# not reaped yet
STATE_RUNNING = "running"
# reaped, but its output is still open
STATE_EXITED = "exited"
# its output has ended
STATE_CLOSED = "closed"

# The kinds of settings that a server can read again while it runs. Each is replaced as a whole, or not at all.
# it can be read, and its settings are possible
SETTINGS_FILE = "configurationFile"
SETTINGS_TOKENS = "tokens"
SETTINGS_CERTIFICATES = "certificates"
SETTINGS_LIMITS = "limits"
SETTINGS_LOG_LEVEL = "logLevel"

# DeniedNetwork is the Syscall of a DenialFact about a system call that would use the network.
DENIED_NETWORK = "network"

# Methods of uploads. An upload is a file that is sent in blocks, over any number of connections,
# and takes its place in one step. It belongs to the session.
METHOD_UPLOAD_OPEN = "tether/upload/open"
METHOD_UPLOAD_WRITE = "tether/upload/write"
METHOD_UPLOAD_STATUS = "tether/upload/status"
METHOD_UPLOAD_COMMIT = "tether/upload/commit"
METHOD_UPLOAD_ABORT = "tether/upload/abort"

# What a figure of a Usage covers. Clients must accept other words.
# the command and everything that it started
OF_TREE = "tree"
# the command and the descendants that their parents have waited for
OF_WAITED = "waited"
# the largest single process among those
OF_LARGEST = "largest"
# nothing, but the largest process had at most this much
OF_BOUND = "bound"

# Values of MemoryKill.Limit. Clients must accept other words.
# the limit of this command
LIMIT_COMMAND = "command"
# the limit of all commands of the server together
LIMIT_SERVER = "server"
# a limit for more than the server, or the memory of the machine
LIMIT_OUTER = "outer"

# MaxSurvivors is how many survivors of one command are named.
MAX_SURVIVORS = 16

# AbsolutePath is an absolute native path, cleaned lexically.
AbsolutePath: TypeAlias = str

# Access is what an entry allows. Peers may write "none" for AccessDeny.
Access: TypeAlias = Literal["read", "write", "deny"]


class AckParams(TypedDict):
    """AckParams is the notification tether/ack: the client has processed all events of the process up
    to and including Seq.
    """

    processId: "str"

    seq: "int"

# An Amount is a finite number that may have a fraction.
Amount: TypeAlias = float


class AppCapabilities(TypedDict):
    """AppCapabilities are what a client can do and wants."""

    # the process API is experimental
    experimentalApi: NotRequired["bool"]

    optOutNotificationMethods: NotRequired["list[str] | None"]


class AppClientInfo(TypedDict):
    """AppClientInfo names the client."""

    name: "str"

    title: NotRequired["str | None"]

    version: "str"


class AppInitializeParams(TypedDict):
    """AppInitializeParams begin a connection to an app-server."""

    clientInfo: "AppClientInfo"

    capabilities: NotRequired["AppCapabilities | None"]


class AppInitializeResult(TypedDict):
    """AppInitializeResult answers initialize."""

    userAgent: "str"

    codexHome: "str"

    # "unix" or "windows"
    platformFamily: "str"

    # "linux", "macos" or "windows"
    platformOs: "str"


class AuditMetadata(TypedDict):
    """AuditMetadata names the user and the program for which a process runs."""

    conversationId: NotRequired["str | None"]

    appVersion: NotRequired["str | None"]

    userAccountId: NotRequired["str | None"]

    authMode: NotRequired["str | None"]

    originator: NotRequired["str | None"]

    userEmail: NotRequired["str | None"]

    terminalType: NotRequired["str | None"]

    model: NotRequired["str | None"]

    slug: NotRequired["str | None"]

# Base64 is binary data. In JSON it is standard base64 with padding and zero trailing bits,
# without line breaks.
Base64: TypeAlias = str


class CanonicalizeParams(TypedDict):
    """CanonicalizeParams asks for the path of a file without links."""

    path: "PathURI"

    sandbox: NotRequired["Sandbox | None"]


class CanonicalizeResult(TypedDict):
    """CanonicalizeResult answers fs/canonicalize."""

    # a URI
    path: "str"


class Capabilities(TypedDict):
    """Capabilities are the reference's flags. If one is false, the client must not use that feature."""

    networkProxyLaunch: NotRequired["bool"]

    networkProxyReviewDomains: NotRequired["bool"]

    credentialMasking: NotRequired["bool"]

    credentialMaskingCustomProviders: NotRequired["bool"]

    capabilityDiscoverySandbox: NotRequired["bool"]

    fsWatchMissing: NotRequired["bool"]

    capabilityDiscoveryV2: NotRequired["bool"]

    environmentConfigRead: NotRequired["bool"]

    httpHeaderEnvVars: NotRequired["bool"]

    sandboxedFileStreaming: NotRequired["bool"]

    fileWriteStreaming: NotRequired["bool"]

    shellSnapshotV2: NotRequired["bool"]

    windowsMxc: NotRequired["bool"]

    linuxRootWritePreservesDevices: NotRequired["bool"]

    linuxApprovedRootWritePreservesRestrictions: NotRequired["bool"]


class CapabilityFile(TypedDict):
    """CapabilityFile is a file with its content."""

    # a URI
    path: "str"

    contents: "str"


class CloseStdinParams(TypedDict):
    """CloseStdinParams ends the input of a process."""

    processId: "str"

    sessionId: NotRequired["str | None"]

    # as in SignalParams
    onceId: NotRequired["str | None"]


class ConfigLayer(TypedDict):
    """ConfigLayer has the requested keys of one file."""

    source: "str"

    # a URI
    baseDir: NotRequired["str | None"]

    toml: "str"


class ConfigLayers(TypedDict):
    """ConfigLayers are configuration files, lowest precedence first."""

    layers: "list[ConfigLayer]"

    cloudInsertionIndex: "int"


class ConfigReadParams(TypedDict):
    """ConfigReadParams asks for parts of the configuration files of the executor's
    user. Each path is a list of keys.
    """

    cwd: "PathURI"

    configPaths: "list[list[str]]"

    requirementsPaths: "list[list[str]]"


class ConfigReadResult(TypedDict):
    """ConfigReadResult answers environmentConfig/read."""

    # URIs
    userHomeDir: NotRequired["str | None"]

    codexHomeDir: "str"

    hostname: NotRequired["str | None"]

    config: "ConfigLayers"

    requirements: "ConfigLayers"


class ConsoleCode(TypedDict):
    """ConsoleCode answers tether/console/code: a code with which a browser can use the console of the server, once, as the client that has asked
    for it.
    """

    code: "str"

    # how long the code can be used
    expiresMs: "int"

    # of the page; absent: the address of the server
    origin: NotRequired["str | None"]

    # the browser may only look
    readOnly: NotRequired["bool"]


class ControlParams(TypedDict):
    """ControlParams names a process of any session, for tether/process/takeControl and tether/process/giveControl."""

    processId: "str"

    sessionId: NotRequired["str | None"]


class CopyParams(TypedDict):
    """CopyParams copies a file, a link or a directory."""

    sourcePath: "PathURI"

    destinationPath: "PathURI"

    recursive: "bool"

    sandbox: NotRequired["Sandbox | None"]


class CreateDirectoryParams(TypedDict):
    """CreateDirectoryParams makes a directory."""

    path: "PathURI"

    # absent: true
    recursive: NotRequired["bool | None"]

    # absent: true
    followSymlinks: NotRequired["bool | None"]

    sandbox: NotRequired["Sandbox | None"]

# Cwd is the working directory of a process/start. Unlike every other path it
# may come as a plain absolute path instead of a path URI.
Cwd: TypeAlias = str


class DenialFact(TypedDict):
    """A DenialFact has the known details of a denial: the member "tetherDenial" beside
    "sandboxDenied".
    """

    # the denied path
    path: NotRequired["PathURI | None"]

    # the denied access: "read" or "write"
    access: NotRequired["str | None"]

    # the rule that decided about the path
    rule: NotRequired["str | None"]

    # the kind of the denied system call, such as DeniedNetwork
    syscall: NotRequired["str | None"]


class DescribeParams(TypedDict):
    """DescribeParams asks for facts about a process of any session."""

    processId: "str"

    sessionId: NotRequired["str | None"]


class DescribeResult(TypedDict):
    """DescribeResult answers tether/process/describe. It never has values of environment variables."""

    # as in a list without its usage, but with up to MaxDescribedArgv bytes of argv
    process: "ProcessInfo"

    arg0: NotRequired["str | None"]

    pipeStdin: "bool"

    oneStream: "bool"

    keepNewest: "bool"

    # as in StartParams
    metadata: NotRequired["StartMetadata | None"]

    sandbox: "SandboxFacts"

    network: "NetworkFacts"

    # sandbox and network for people, line by line, as `tether sandbox explain` prints them
    text: "list[str]"

    # about hosts so far, in the order in which they came first
    decisions: "list[HostDecision]"

    # decisions that are not among them
    moreDecisions: NotRequired["int"]

    # absent: there are none
    limits: NotRequired["LimitsInForce | None"]

    # from here on: as in ProcessExited
    sandboxDenied: NotRequired["bool"]

    tetherDenial: NotRequired["DenialFact | None"]

    tetherLimit: NotRequired["str | None"]

    tetherFailure: NotRequired["str | None"]

# Dimension is a number of rows or columns.
Dimension: TypeAlias = int


class DirectoryEntry(TypedDict):
    """DirectoryEntry is a name in a directory. Links are followed for the flags."""

    fileName: "str"

    isDirectory: "bool"

    isFile: "bool"


class DiscoverCapabilitiesParams(TypedDict):
    """DiscoverCapabilitiesParams asks for the plugins and skills of the executor's
    user.
    """

    cwd: "PathURI"

    sandbox: NotRequired["Sandbox | None"]


class DiscoverCapabilitiesResult(TypedDict):
    """DiscoverCapabilitiesResult answers capabilities/discoverV2."""

    plugins: "list[InstalledPlugin]"

    skills: "list[InstalledSkill]"

    warnings: "list[str]"


class DiscoverRoot(TypedDict):
    """DiscoverRoot is a directory to search."""

    id: "str"

    path: "PathURI"

    sandbox: NotRequired["Sandbox | None"]


class DiscoverRootsParams(TypedDict):
    """DiscoverRootsParams asks for the plugins and skills in some directories."""

    roots: "list[DiscoverRoot]"


class DiscoverRootsResult(TypedDict):
    """DiscoverRootsResult answers capabilityRoots/discoverV1."""

    roots: "list[DiscoveredRoot]"


class DiscoveredPlugin(TypedDict):
    """DiscoveredPlugin is the files of a plugin."""

    manifest: "CapabilityFile"

    mcpConfig: NotRequired["CapabilityFile | None"]

    appsConfig: NotRequired["CapabilityFile | None"]


class DiscoveredRoot(TypedDict):
    """DiscoveredRoot has the plugin and the skills of one directory."""

    id: "str"

    # a URI
    path: "str"

    plugin: NotRequired["DiscoveredPlugin | None"]

    skills: "list[DiscoveredSkill]"

    namespaceManifests: "list[CapabilityFile]"

    warnings: "list[str]"

    error: NotRequired["str | None"]


class DiscoveredSkill(TypedDict):
    """DiscoveredSkill is the files of a skill."""

    instructions: "CapabilityFile"

    metadata: NotRequired["CapabilityFile | None"]

# DomainAccess is the rule for the hosts that a pattern matches.
DomainAccess: TypeAlias = Literal["none", "allow", "deny"]

# DomainRules are patterns of hosts.
DomainRules: TypeAlias = dict[str, DomainAccess]


class Empty(TypedDict):
    """Empty is the result of methods that return nothing."""

# EnvOverrides are variables to set, and with null to remove.
EnvOverrides: TypeAlias = dict[str, str | None] | None


class EnvPolicy(TypedDict):
    """EnvPolicy says how the child's environment is built from the server's."""

    inherit: "Inherit"

    ignoreDefaultExcludes: "bool"

    exclude: "list[str]"

    set: "dict[str, str]"

    includeOnly: "list[str]"


class EnvironmentInfo(TypedDict):
    """EnvironmentInfo describes the executor. Older servers leave out all but the shell."""

    shell: "ShellInfo"

    # a semantic version, of the reference
    executorVersion: NotRequired["str"]

    providerId: NotRequired["str"]

    cwd: NotRequired["str | None"]

    userHomeDir: NotRequired["str | None"]

    platformOs: NotRequired["str"]

    prependPathDirs: NotRequired["list[str]"]

    temporaryDirectories: NotRequired["list[str]"]

    tempDir: NotRequired["str"]

    capabilities: NotRequired["Capabilities"]

# ErrorCode is the code of an error: one of the constants whose names begin with Code.
ErrorCode: TypeAlias = int


class ErrorData(TypedDict):
    """ErrorData is the data of an error with a reason."""

    reason: "ErrorReason"


class ErrorObject(TypedDict):
    """ErrorObject is the error member of an answer. Its data is an ErrorData if the error has a reason."""

    code: "ErrorCode"

    message: "str"

    data: NotRequired["Any"]

# ErrorReason is the reason of an error of a method under tether/, for programs.
ErrorReason: TypeAlias = Literal["unknownProcess", "stdinClosed", "uploadDiffers", "digestMismatch", "unknownPort", "unknownListener", "portDenied", "portRefused", "readOnly"]


class FileSystemPolicyRestricted(TypedDict):
    type: Literal["restricted"]

    entries: "list[SandboxEntry]"

    # absent: no limit
    glob_scan_max_depth: NotRequired["int | None"]


class FileSystemPolicyUnrestricted(TypedDict):
    type: Literal["unrestricted"]


# FileSystemPolicy is a union; Type selects the variant. When restricted, the most specific entry
# decides, and paths without an entry are denied.
FileSystemPolicy: TypeAlias = Union["FileSystemPolicyRestricted", "FileSystemPolicyUnrestricted"]


class FleetHost(TypedDict):
    """A FleetHost is an executor of a fleet."""

    name: "str"

    # HostReachable, HostDraining or HostUnreachable
    state: "str"

    labels: "list[str]"

    # commands
    running: "int"

    # how many commands the machine is made for
    capacity: "int"

    sessions: "int"

    # of the machine in the last minute, per processor
    load: "float"

    version: "str"

    # which backend confines commands; "none": they cannot be confined; "": not known yet
    sandbox: "str"


class FleetHosts(TypedDict):
    """FleetHosts is the content of the page."""

    # in the order of their names
    hosts: "list[FleetHost]"


class HTTPBodyDelta(TypedDict):
    """HTTPBodyDelta is the notification http/request/bodyDelta."""

    requestId: "str"

    seq: "int"

    deltaBase64: "Base64"

    done: "bool"

    error: NotRequired["str | None"]


class HTTPHeader(TypedDict):
    """HTTPHeader is one header line of a request. If ValueEnvVar is set, the value of that variable
    of the executor's environment is appended to Value.
    """

    name: "str"

    value: "str"

    valueEnvVar: NotRequired["str | None"]


class HTTPRequestParams(TypedDict):
    """HTTPRequestParams is a request that the executor makes."""

    method: "str"

    url: "str"

    headers: NotRequired["list[HTTPHeader]"]

    bodyBase64: NotRequired["Base64 | None"]

    timeoutMs: NotRequired["int | None"]

    # absent: RedirectFollow
    redirectPolicy: NotRequired["RedirectPolicy"]

    requestId: "str"

    streamResponse: NotRequired["bool"]


class HTTPResponse(TypedDict):
    """HTTPResponse answers http/request."""

    status: "int"

    headers: "list[HTTPResponseHeader]"

    # empty if the body is streamed
    bodyBase64: "Base64"


class HTTPResponseHeader(TypedDict):
    """HTTPResponseHeader is one header line of a response."""

    # lower case
    name: "str"

    value: "str"


class HandleParams(TypedDict):
    """HandleParams names an open file."""

    handleId: "str"


class HandleResult(TypedDict):
    """HandleResult answers fs/open."""

    handleId: "str"


class HostDecision(TypedDict):
    """A HostDecision is a decision about a host that a process wanted to reach, and how often it was made."""

    host: "str"

    port: "int"

    # as in NetworkQuestion
    protocol: "str"

    # allow, deny or ask
    decision: "str"

    # as in NetworkDecision, like the members below
    source: "str"

    reason: "str"

    rule: NotRequired["str | None"]

    address: NotRequired["str | None"]

    count: "int"

    # Unix time
    firstMs: "int"

    lastMs: "int"

# Inherit says which of the server's variables a child starts with.
Inherit: TypeAlias = Literal["core", "all", "none"]


class InitializeParams(TypedDict):
    """InitializeParams opens a session or resumes one."""

    clientName: "str"

    resumeSessionId: NotRequired["str | None"]

    tether: NotRequired["InitializeTether | None"]


class InitializeResult(TypedDict):
    """InitializeResult answers initialize."""

    sessionId: "str"

    environmentInfo: "EnvironmentInfo"

    tether: "TetherInfo"


class InitializeTether(TypedDict):
    """InitializeTether has the requests of a tether client."""

    # how long the server should keep the session while detached
    ttlMs: NotRequired["int | None"]

    # the client sends tether/ack; output is kept until then
    acks: NotRequired["bool | None"]

    # a name for lists: at most MaxLabel bytes, printable
    label: NotRequired["str | None"]

    # Goodbye asks for NoteGoodbye on this connection, also when it resumes a session.
    goodbye: NotRequired["bool | None"]


class InstalledPlugin(TypedDict):
    """InstalledPlugin is an installed plugin."""

    # NAME@MARKETPLACE
    id: "str"

    displayName: "str"

    remotePluginId: NotRequired["str | None"]

    version: "str"

    # a URI
    root: "str"

    files: "DiscoveredPlugin"

    skills: "list[InstalledSkill]"


class InstalledSkill(TypedDict):
    """InstalledSkill is the description of a skill by its own files."""

    name: "str"

    description: "str"

    shortDescription: NotRequired["str | None"]

    # a URI
    path: "str"

    discoveryRoot: NotRequired["SkillRoot | None"]

    dependencies: NotRequired["SkillDependencies | None"]

    policy: NotRequired["SkillPolicy | None"]


class KeeperState(TypedDict):
    """KeeperState answers tether/keeper/state."""

    # of the worker
    version: "str"

    # its number: 1 for the first
    worker: "int"

    workerPid: "int"

    keeperPid: "int"

    # the keeper runs the same program as the worker
    sameProgram: "bool"

    # workers that have died, and were not replaced by an upgrade
    deaths: "int"

    # how the worker before this one ended, for people; "": there was none
    lastEnd: NotRequired["str"]


class LimitInForce(TypedDict):
    """A LimitInForce is a limit, and how it is enforced."""

    limit: "Amount"

    by: "str"


class Limits(TypedDict):
    """Limits are those of a process with everything that it starts (tether). A limit that is absent is not asked for. An unknown
    member is an error, unlike in all other parameters: a limit that is not understood would not be enforced.
    """

    memoryBytes: NotRequired["int | None"]

    # processors; may be a fraction
    cpus: NotRequired["float | None"]

    # threads count
    processes: NotRequired["int | None"]

    # of each process
    openFiles: NotRequired["int | None"]

    # written
    diskBytes: NotRequired["int | None"]

    # from the start to the end
    timeMs: NotRequired["int | None"]

    # BestEffort lets the process start although a limit cannot be enforced, or only in part, or is above what the server
    # grants. The answer says what is in force.
    bestEffort: NotRequired["bool | None"]


class LimitsInForce(TypedDict):
    """LimitsInForce answers a start with limits: each one that was asked for, or that the server demands."""

    memoryBytes: NotRequired["LimitInForce | None"]

    cpus: NotRequired["LimitInForce | None"]

    processes: NotRequired["LimitInForce | None"]

    openFiles: NotRequired["LimitInForce | None"]

    diskBytes: NotRequired["LimitInForce | None"]

    timeMs: NotRequired["LimitInForce | None"]


class ListParams(TypedDict):
    """ListParams asks for processes."""

    # public; absent: all sessions of the client's principal
    sessionId: NotRequired["str | None"]


class ListResult(TypedDict):
    """ListResult answers tether/process/list."""

    processes: "list[ProcessInfo]"

    # Survivors are processes of sessions that have ended: they were killed and are still there. They are only in lists of
    # all sessions.
    survivors: NotRequired["list[Survivor]"]


class LogEvent(TypedDict):
    """A LogEvent is one event of a process."""

    seq: "int"

    # Unix time
    timeMs: "int"

    kind: NotRequired["str"]

    # Of output.
    stream: NotRequired["str"]

    chunk: NotRequired["Base64"]

    # Of the exit; as in ProcessExited.
    exitCode: NotRequired["int | None"]

    sandboxDenied: NotRequired["bool"]

    tetherDenial: NotRequired["DenialFact | None"]

    tetherLimit: NotRequired["str | None"]

    tetherUsage: NotRequired["Usage | None"]

    tetherFailure: NotRequired["str | None"]

    # Of the close; as in ProcessClosed.
    tetherSurvivors: NotRequired["list[Survivor]"]


class ManagedNetwork(TypedDict):
    """ManagedNetwork names ports and sockets that stay reachable when the sandbox blocks the network."""

    loopbackPorts: NotRequired["list[int]"]

    allowLocalBinding: NotRequired["bool"]

    dangerouslyAllowAllUnixSockets: NotRequired["bool"]


class MemoryKill(TypedDict):
    """MemoryKill says that the system has killed processes of a command because there was no memory for them."""

    # how many
    processes: "int"

    # which limit was reached
    limit: "str"

    bytes: NotRequired["int | None"]


class MetadataParams(TypedDict):
    """MetadataParams asks for the facts about a file."""

    path: "PathURI"

    # absent: true
    followSymlinks: NotRequired["bool | None"]

    sandbox: NotRequired["Sandbox | None"]

    # tether's addition: report the permissions
    tetherMode: NotRequired["bool | None"]


class MetadataResult(TypedDict):
    """MetadataResult answers fs/getMetadata. For a symbolic link, it has type, size and times of
    the target.
    """

    isDirectory: "bool"

    isFile: "bool"

    # the path itself is a link
    isSymlink: "bool"

    size: "int"

    # Unix time; 0: unknown
    createdAtMs: "int"

    modifiedAtMs: "int"

    # TetherMode is tether's addition: the nine bits of the permissions, if they were
    # requested.
    tetherMode: NotRequired["int | None"]


class MissingChanged(TypedDict):
    """MissingChanged is the notification fs/missingChanged."""

    watchId: "int"

# MissingPath says what a back end that marks paths on disk does with a missing path.
MissingPath: TypeAlias = Literal["skip"]

# NetworkAccess says whether the network is open to a confined process.
NetworkAccess: TypeAlias = Literal["restricted", "enabled"]


class NetworkAnswer(TypedDict):
    """A NetworkAnswer allows an attempt or not. For a proxy, "ask" is "deny"."""

    type: "NetworkAnswerType"

    # of all but "allow"
    reason: NotRequired["str | None"]

# NetworkAnswerType is the kind of an answer.
NetworkAnswerType: TypeAlias = Literal["allow", "deny", "ask"]


class NetworkDecision(TypedDict):
    """NetworkDecision reports a decision to the client."""

    processId: "str"

    # RFC 3339 with milliseconds, UTC
    timestamp: "str"

    # "domain" or "non_domain"
    scope: "str"

    # "allow" or "deny"
    decision: "str"

    # baseline_policy, mode_guard or decider
    source: "str"

    reason: "str"

    protocol: "str"

    host: "str"

    port: "int"

    method: NotRequired["str | None"]

    # the process's end of the connection
    client: NotRequired["str | None"]

    # the client has allowed it
    policyOverride: "bool"

    # tether: the pattern that decided and the address, where there is one.
    tetherRule: NotRequired["str | None"]

    tetherAddress: NotRequired["str | None"]


class NetworkFacts(TypedDict):
    """NetworkFacts say what the network of a process lets it reach."""

    type: "str"

    # of its proxy, see NetworkMode; absent: it has no proxy of the server
    mode: NotRequired["str | None"]

    # patterns of hosts
    allow: "list[str]"

    deny: "list[str]"

    # the client decides about hosts that no pattern matches
    asks: "bool"

    # some patterns are left out
    partial: NotRequired["bool"]

# NetworkMode restricts the requests to hosts that may be reached.
NetworkMode: TypeAlias = Literal["limited", "full"]


class NetworkPolicyParams(TypedDict):
    """NetworkPolicyParams asks the client about a host that no rule decides."""

    processId: "str"

    request: "NetworkQuestion"


class NetworkPolicyResult(TypedDict):
    """NetworkPolicyResult is the client's answer."""

    decision: "NetworkAnswer"


class NetworkProxy(TypedDict):
    """NetworkProxy asks for a proxy that serves the process alone."""

    proxy: "NetworkProxySettings"

    auditMetadata: NotRequired["AuditMetadata"]

    environmentId: NotRequired["str | None"]

    executionId: NotRequired["str | None"]

    # PolicyDecisionTimeoutMs: if it is not 0, the client is asked about hosts that no rule
    # decides, and has this long to answer.
    policyDecisionTimeoutMs: NotRequired["int | None"]


class NetworkProxySettings(TypedDict):
    """NetworkProxySettings are the rules of a proxy."""

    enabled: "bool"

    enableSocks5: "bool"

    enableSocks5Udp: "bool"

    allowUpstreamProxy: "bool"

    dangerouslyAllowAllUnixSockets: "bool"

    mode: "NetworkMode"

    # Domains says for each pattern whether the hosts that it matches may be reached.
    domains: NotRequired["DomainRules | None"]

    unixSockets: NotRequired["SocketRules | None"]

    allowLocalBinding: "bool"

    # ReviewDomains are patterns of hosts that the client decides about, even if Domains
    # allows them.
    reviewDomains: NotRequired["list[str]"]

    # TetherPorts: a pattern with a port matches only that port. Without TetherPorts, as in the
    # reference, the port is ignored.
    tetherPorts: NotRequired["bool | None"]


class NetworkQuestion(TypedDict):
    """A NetworkQuestion is about one attempt to reach a host."""

    # http, https_connect, socks5_tcp or socks5_udp
    protocol: "str"

    host: "str"

    port: "int"


class NoParams(TypedDict):
    """NoParams are the parameters of methods that have none: absent, null or {}."""


class ObserveParams(TypedDict):
    """ObserveParams starts an observation of a process of any session."""

    # public
    sessionId: "str"

    processId: "str"

    # absent: from the oldest event that is still held
    afterSeq: NotRequired["int | None"]


class ObserveResult(TypedDict):
    """ObserveResult answers tether/process/observe."""

    # names the observation on this connection
    observeId: "int"

    # the next number the process will assign
    nextSeq: "int"


class ObservedClosed(TypedDict):
    """ObservedClosed is the notification tether/process/closed, the last one of an
    observation.
    """

    observeId: "int"

    seq: "int"

    timeMs: "int"

    tetherSurvivors: NotRequired["list[Survivor]"]


class ObservedControl(TypedDict):
    """ObservedControl is the notification tether/process/control: another connection types to the process. An observer whose process is controlled gets it first."""

    observeId: "int"

    # its name, for people; absent: no connection has control
    holder: NotRequired["str | None"]

    # it is the observer's own connection
    mine: "bool"


class ObservedEvicted(TypedDict):
    """ObservedEvicted is the notification tether/process/evicted: the observer
    fell behind, and the events before FirstSeq are gone.
    """

    observeId: "int"

    # the oldest event that is still held
    firstSeq: "int"


class ObservedExited(TypedDict):
    """ObservedExited is the notification tether/process/exited."""

    observeId: "int"

    seq: "int"

    timeMs: "int"

    exitCode: "int"

    sandboxDenied: "bool"

    tetherDenial: NotRequired["DenialFact | None"]

    # as in ProcessExited
    tetherLimit: NotRequired["str | None"]

    tetherUsage: NotRequired["Usage | None"]

    # as in ProcessExited
    tetherFailure: NotRequired["str | None"]


class ObservedOutput(TypedDict):
    """ObservedOutput is the notification tether/process/output."""

    observeId: "int"

    seq: "int"

    # when it was read; Unix time
    timeMs: "int"

    stream: "str"

    chunk: "Base64"


class ObservedRemoved(TypedDict):
    """ObservedRemoved is the notification tether/process/removed: the process and its output are
    gone before the observer has got the close, because the session has ended.
    """

    observeId: "int"

# OpenMode is the purpose for which a file is opened.
OpenMode: TypeAlias = Literal["read", "replace"]


class OpenParams(TypedDict):
    """OpenParams opens a file under an id that the client chooses."""

    handleId: "str"

    path: "PathURI"

    # absent: OpenRead
    mode: NotRequired["OpenMode"]

    sandbox: NotRequired["Sandbox | None"]

# OutputCap is how much output of a stream a client wants.
OutputCap: TypeAlias = int | None


class OutputChunk(TypedDict):
    """OutputChunk is one piece of output."""

    seq: "int"

    stream: "str"

    chunk: "Base64"

# A PathURI is a path on the executor in the form of the protocol: a normalised file: URI.
# It follows the executor's own convention, so that both ends need not run the same system.
# PathURIs are comparable; the zero value is no path.
PathURI: TypeAlias = str


class PermissionsManaged(TypedDict):
    """confined as FileSystem and Network say"""

    type: Literal["managed"]

    file_system: "FileSystemPolicy"

    network: "NetworkAccess"


class PermissionsDisabled(TypedDict):
    """not confined"""

    type: Literal["disabled"]


class PermissionsExternal(TypedDict):
    """another sandbox confines files; the executor confines the network"""

    type: Literal["external"]

    network: "NetworkAccess"


# Permissions is what a process may do. It is a union; Type selects the variant. From here on,
# names of members are in snake_case.
Permissions: TypeAlias = Union["PermissionsManaged", "PermissionsDisabled", "PermissionsExternal"]


class PolicyContext(TypedDict):
    """PolicyContext replaces the cwd and workspace roots of its Sandbox."""

    cwd: NotRequired["PathURI | None"]

    workspaceRoots: NotRequired["list[PathURI]"]


class PortAcceptParams(TypedDict):
    """PortAcceptParams takes the next connection of a listener under an id, or continues it after a lost connection."""

    listenerId: "str"

    # see PortOpenParams
    connectionId: "str"

    # the client takes the bytes of the connection before this offset
    limit: "int"

    # see PortOpenParams
    received: NotRequired["int | None"]


class PortAcceptResult(TypedDict):
    """PortAcceptResult answers tether/port/accept when there is a connection. Without a peer there is none: the server is being replaced, and the client repeats the
    request on its next connection.
    """

    # see PortOpenResult
    received: "int"

    limit: "int"

    # the address and port of the program that has connected
    peer: "str"


class PortAck(TypedDict):
    """PortAck is the notification tether/port/ack or tether/port/acked."""

    connectionId: "str"

    # all bytes before it were handed on
    offset: "int"

    # bytes before it are taken
    limit: "int"


class PortCloseParams(TypedDict):
    """PortCloseParams ends a forwarded connection. A connection that is not known is closed already."""

    connectionId: "str"

    # true: the target sees a reset
    abort: NotRequired["bool | None"]


class PortData(TypedDict):
    """PortData is the notification tether/port/write or tether/port/data. Bytes that have arrived before are ignored."""

    connectionId: "str"

    # of the first byte of the chunk
    offset: "int"

    chunk: "Base64"

    # true: nothing follows the chunk in this direction
    end: NotRequired["bool | None"]


class PortFailed(TypedDict):
    """PortFailed is the notification tether/port/failed. The bytes that had come from the target before were sent. The client closes the connection."""

    connectionId: "str"

    message: "str"


class PortListParams(TypedDict):
    """PortListParams asks for the TCP sockets on which processes wait for connections."""

    # public; absent: all sessions of the client's principal
    sessionId: NotRequired["str | None"]

    # WaitMs asks for a version. If the list still has the version Seen, the answer waits for another one, at most that long.
    waitMs: NotRequired["int | None"]

    seen: NotRequired["str | None"]


class PortListResult(TypedDict):
    """PortListResult answers tether/port/list."""

    listeners: "list[PortListener]"

    # some may be missing: there are too many, or the system hides them
    partial: NotRequired["bool"]

    # of the list, if it was asked for
    version: NotRequired["str"]


class PortListenParams(TypedDict):
    """PortListenParams lets the server listen on its loopback for the client. If the listener exists already, because the answer was lost, the answer is the same."""

    # 1 to 64 bytes that the client has not used before in the session
    listenerId: "str"

    # a loopback address; absent: 127.0.0.1, and ::1 if the server's machine has it
    host: NotRequired["str | None"]

    # 0: any free one
    port: "int"


class PortListenResult(TypedDict):
    """PortListenResult answers tether/port/listen."""

    # IP
    addresses: "list[str]"

    port: "int"


class PortListener(TypedDict):
    """A PortListener is a TCP socket on which a process, or something that it has started, waits for connections."""

    # public
    sessionId: "str"

    processId: "str"

    # IP
    address: "str"

    port: "int"

    pid: "int"

    # of the program
    name: "str"

    # the process has a network of its own: see processId of PortOpenParams
    inside: NotRequired["bool"]


class PortOpenParams(TypedDict):
    """PortOpenParams opens a connection to a target, or continues it after a lost connection."""

    # 1 to 64 bytes that the client has not used before in the session
    connectionId: "str"

    # a name or an IP address; absent: the server's machine, by its loopback addresses
    host: NotRequired["str | None"]

    port: "int"

    # the client takes the bytes of the target before this offset
    limit: "int"

    # ProcessID names a process that listens on the port, or of which a descendant does, in a network of its own. Host is not used then.
    processId: NotRequired["str | None"]

    # public, of the process; absent: the client's own session
    sessionId: NotRequired["str | None"]

    # Received continues a connection: the client has all bytes of the target before this offset. Without it, a connection is opened; if
    # it exists already, because the answer was lost, the answer is the same.
    received: NotRequired["int | None"]


class PortOpenResult(TypedDict):
    """PortOpenResult answers tether/port/open."""

    # the server has all bytes of the client before this offset: continue here
    received: "int"

    # the server takes the bytes of the client before this offset
    limit: "int"


class PortUnlistenParams(TypedDict):
    """PortUnlistenParams ends a listener, not the connections that were taken. A listener that is not known has ended already."""

    listenerId: "str"


class ProcessClosed(TypedDict):
    """ProcessClosed is the notification process/closed."""

    processId: "str"

    seq: "int"

    # TetherSurvivors are processes of the command that were killed and are still there.
    tetherSurvivors: NotRequired["list[Survivor]"]


class ProcessEnded(TypedDict):
    """ProcessEnded is the notification process/exited of the process API, the last one about a command. The server
    writes it without this type.
    """

    processHandle: "str"

    exitCode: "int"

    # another process still had the output open, and some of it may be missing
    outputDrainTimedOut: "bool"

    # empty if it was streamed
    stdout: "str"

    stdoutCapReached: "bool"

    # empty if it was streamed
    stderr: "str"

    stderrCapReached: "bool"


class ProcessExited(TypedDict):
    """ProcessExited is the notification process/exited."""

    processId: "str"

    seq: "int"

    exitCode: "int"

    # absent: not known
    sandboxDenied: NotRequired["bool | None"]

    tetherDenial: NotRequired["DenialFact | None"]

    # the limit because of which the server has ended the process, such as LimitTimeMs
    tetherLimit: NotRequired["str | None"]

    tetherUsage: NotRequired["Usage | None"]

    # TetherFailure says why the exit code is not the command's own, such as that its server was killed; absent: it is.
    tetherFailure: NotRequired["str | None"]


class ProcessInfo(TypedDict):
    """ProcessInfo is the entry of one process in a list."""

    # public
    sessionId: "str"

    processId: "str"

    argv: "list[str]"

    # path URI
    cwd: "str"

    pid: "int"

    tty: "bool"

    # Unix time
    startedAtMs: "int"

    state: "str"

    exitCode: NotRequired["int | None"]

    # as in ProcessExited
    sandboxDenied: NotRequired["bool"]

    # of the terminal; absent: there is none, or it is not known
    size: NotRequired["TermSize | None"]

    nextSeq: "int"

    # last event sent to the session's client
    sentSeq: "int"

    # output that is kept, with some overhead for each event
    heldBytes: "int"

    # output after SentSeq
    unsentBytes: "int"

    # the part of HeldBytes that is on disk
    spooledBytes: "int"

    # output that is no longer kept
    droppedBytes: NotRequired["int"]

    # its output is not being read, so that it waits
    blocked: "bool"

    observers: "int"

    # the name of the connection that has taken control; absent: none has
    controlledBy: NotRequired["str | None"]

    # Usage of the process and all its descendants; absent if it is not known.
    cpuMs: NotRequired["int | None"]

    # resident; shared pages count for each process
    memoryBytes: NotRequired["int | None"]

    # The account of a process that has exited; absent if it is not known.
    tetherUsage: NotRequired["Usage | None"]

    # Survivors are processes of the command that were killed and are still there.
    survivors: NotRequired["list[Survivor]"]

    # What it is doing, without evidence; absent: it has ended, or was not observed.
    stateDetail: NotRequired["StateDetail | None"]


class ProcessKillParams(TypedDict):
    """ProcessKillParams name a command."""

    processHandle: "str"


class ProcessOutput(TypedDict):
    """ProcessOutput is the notification process/output."""

    processId: "str"

    seq: "int"

    stream: "str"

    chunk: "Base64"


class ProcessOutputDelta(TypedDict):
    """ProcessOutputDelta is the notification process/outputDelta. The server writes it without this type."""

    processHandle: "str"

    # StreamStdout or StreamStderr; a terminal has StreamStdout
    stream: "str"

    deltaBase64: "Base64"

    # no more output of the stream follows, although there may be more
    capReached: "bool"


class ProcessParams(TypedDict):
    """ProcessParams names a process of the session."""

    processId: "str"


class ProcessResizePtyParams(TypedDict):
    """ProcessResizePtyParams change the size of a command's terminal."""

    processHandle: "str"

    size: "ProcessTerminalSize"


class ProcessSpawnParams(TypedDict):
    """ProcessSpawnParams start a command under a handle that the client chooses."""

    command: "list[str]"

    processHandle: "str"

    cwd: "AbsolutePath"

    tty: NotRequired["bool"]

    streamStdin: NotRequired["bool"]

    streamStdoutStderr: NotRequired["bool"]

    outputBytesCap: NotRequired["OutputCap"]

    timeoutMs: NotRequired["TimeoutMs"]

    env: NotRequired["EnvOverrides"]

    size: NotRequired["ProcessTerminalSize | None"]


class ProcessTerminalSize(TypedDict):
    """ProcessTerminalSize is the size of a terminal in characters."""

    rows: "Dimension"

    cols: "Dimension"


class ProcessWriteStdinParams(TypedDict):
    """ProcessWriteStdinParams write to a command's input, close it, or both."""

    processHandle: "str"

    # decoded later: malformed base64 has its own error
    deltaBase64: NotRequired["str | None"]

    closeStdin: NotRequired["bool"]

# ProxySettingsMode matters on Windows only.
ProxySettingsMode: TypeAlias = Literal["reconcile", "preserve"]


class ReadAnyParams(TypedDict):
    """ReadAnyParams asks for a page of the events of a process that the server still has, of any session. Reading
    has no effect on the process or its client. At most one of AfterSeq and BeforeSeq is given; without both, the page begins with the oldest
    event.
    """

    processId: "str"

    sessionId: NotRequired["str | None"]

    # the oldest events after this number
    afterSeq: NotRequired["int | None"]

    # the newest events before this number, which may be larger than any
    beforeSeq: NotRequired["int | None"]

    # of all events; absent: DefaultPage. At least one event is returned
    maxBytes: NotRequired["int | None"]


class ReadAnyResult(TypedDict):
    """ReadAnyResult answers tether/process/read."""

    # in their order, without gaps
    events: "list[LogEvent]"

    # the oldest event that the server still has
    firstSeq: "int"

    # the next number the process will assign
    nextSeq: "int"


class ReadBlockParams(TypedDict):
    """ReadBlockParams asks for a part of an open file."""

    handleId: "str"

    offset: "int"

    len: "int"


class ReadBlockResult(TypedDict):
    """ReadBlockResult answers fs/readBlock. The server writes it without this type."""

    chunk: "Base64"

    eof: "bool"


class ReadDirectoryParams(TypedDict):
    """ReadDirectoryParams asks for the names in a directory."""

    path: "PathURI"

    sandbox: NotRequired["Sandbox | None"]


class ReadDirectoryResult(TypedDict):
    """ReadDirectoryResult answers fs/readDirectory."""

    entries: "list[DirectoryEntry]"


class ReadFileParams(TypedDict):
    """ReadFileParams asks for the content of a file."""

    path: "PathURI"

    # absent: true
    followSymlinks: NotRequired["bool | None"]

    sandbox: NotRequired["Sandbox | None"]


class ReadFileResult(TypedDict):
    """ReadFileResult answers fs/readFile. The server writes it without this type."""

    dataBase64: "Base64"


class ReadParams(TypedDict):
    """ReadParams asks for output after a sequence number."""

    processId: "str"

    afterSeq: NotRequired["int | None"]

    maxBytes: NotRequired["int | None"]

    waitMs: NotRequired["int | None"]


class ReadResult(TypedDict):
    """ReadResult answers process/read. The server writes it without this type;
    clients decode into it.
    """

    chunks: "list[OutputChunk]"

    # afterSeq of the next read is NextSeq - 1
    nextSeq: "int"

    exited: "bool"

    exitCode: NotRequired["int | None"]

    closed: "bool"

    failure: NotRequired["str | None"]

    sandboxDenied: NotRequired["bool"]

    tetherDenial: NotRequired["DenialFact | None"]

    # as in ProcessExited
    tetherLimit: NotRequired["str | None"]

    tetherFailure: NotRequired["str | None"]

    # once exited
    tetherUsage: NotRequired["Usage | None"]

    # once closed
    tetherSurvivors: NotRequired["list[Survivor]"]

# RedirectPolicy says whether redirects are followed.
RedirectPolicy: TypeAlias = Literal["follow", "stop"]


class ReloadResult(TypedDict):
    """ReloadResult answers tether/reload."""

    settings: "list[ReloadedSettings]"

    # names of settings of the configuration file that have changed, and need a restart of the server
    restart: "list[str]"


class ReloadedSettings(TypedDict):
    """ReloadedSettings says what has become of settings that were read again."""

    kind: "str"

    changed: "bool"

    # why they cannot be used: the earlier ones stay in force. "": they can
    error: NotRequired["str"]


class RemoveParams(TypedDict):
    """RemoveParams removes a file or a directory."""

    path: "PathURI"

    # absent: true
    recursive: NotRequired["bool | None"]

    # absent: true
    force: NotRequired["bool | None"]

    # absent: true
    followSymlinks: NotRequired["bool | None"]

    sandbox: NotRequired["Sandbox | None"]

# An ID names a request: a string or a signed 64-bit integer. IDs are
# comparable; the string "1" and the number 1 differ. The zero ID is the
# number 0.
RequestId: TypeAlias = str | int


class ResizeParams(TypedDict):
    """ResizeParams changes the size of a process's terminal."""

    processId: "str"

    sessionId: NotRequired["str | None"]

    rows: "int"

    cols: "int"


class Sandbox(TypedDict):
    """A Sandbox says how a process or a file operation is to be confined."""

    permissions: "Permissions"

    windowsSandboxLevel: "WindowsLevel"

    # Cwd is the directory that relative rules start from; absent: the cwd of the process.
    # WorkspaceRoots are the directories of SpecialProjectRoots. A PolicyContext replaces
    # both.
    cwd: NotRequired["PathURI | None"]

    policyContext: NotRequired["PolicyContext | None"]

    workspaceRoots: NotRequired["list[PathURI]"]

    # Facts about the executor, as its client knows them.
    userHomeDir: NotRequired["PathURI | None"]

    temporaryDirectories: NotRequired["list[PathURI] | None"]

    # how the client arrived at this policy
    sandboxOverride: NotRequired["SandboxOverride | None"]

    windowsSandboxProxySettingsMode: NotRequired["ProxySettingsMode | None"]

    useLegacyLandlock: NotRequired["bool"]


class SandboxEntry(TypedDict):
    """A SandboxEntry is one access rule."""

    path: "SandboxPath"

    access: "Access"

    missing_path_behavior: NotRequired["MissingPath | None"]


class SandboxFacts(TypedDict):
    """SandboxFacts say what the sandbox of a process lets it do with files."""

    # as in StartResult; "none": there is no sandbox, and the process has the rights of the server
    type: "str"

    fullRead: "bool"

    fullWrite: "bool"

    # all other paths are hidden; nothing is listed if FullWrite
    readable: "list[SandboxPlace]"

    # likewise, for changes
    writable: "list[SandboxPlace]"

    # some places or exceptions are left out, or the rules are not kept any more
    partial: NotRequired["bool"]

# SandboxOverride says how the client arrived at this policy.
SandboxOverride: TypeAlias = Literal["noOverride", "escalatedSandboxWithRestrictions", "bypassSandboxFirstAttempt"]


class SandboxPathPath(TypedDict):
    """a file or a directory with all below it"""

    type: Literal["path"]

    path: "PathURI"


class SandboxPathGlobPattern(TypedDict):
    """only meaningful with AccessDeny"""

    type: Literal["glob_pattern"]

    pattern: "str"


class SandboxPathSpecial(TypedDict):
    type: Literal["special"]

    value: "SpecialPath"


# SandboxPath is the path of an entry. It is a union; Type selects the variant.
SandboxPath: TypeAlias = Union["SandboxPathPath", "SandboxPathGlobPattern", "SandboxPathSpecial"]


# A SandboxPlace is a directory or file with all that is below it.
SandboxPlace = TypedDict(
    "SandboxPlace",
    {
        # in the form of the executor's system
        "path": "str",
        "except": "list[SandboxRule]",
    },
)


class SandboxRule(TypedDict):
    """A SandboxRule is an exception in a place."""

    path: "str"

    # deny, read or write
    access: "str"

    # where it comes from, for people
    rule: "str"


class SearchLine(TypedDict):
    """A SearchLine is one line of output."""

    line: "int"

    # the event in which it begins
    seq: "int"

    stream: "str"

    # without the line end; bytes that are not UTF-8 are replaced
    text: "str"

    match: "bool"

    # where in the line the text begins, in bytes
    offset: NotRequired["int"]

    # the line is longer than the text
    cut: NotRequired["bool"]

    # the line has not ended yet
    open: NotRequired["bool"]


class SearchParams(TypedDict):
    """SearchParams asks for lines of the output of a process: lines that match, or all lines.
    Lines are counted from 1 in the order in which they began, all streams together; each line
    consists of bytes of one stream.
    """

    processId: "str"

    sessionId: NotRequired["str | None"]

    # RE2; absent: every line
    pattern: NotRequired["str | None"]

    ignoreCase: NotRequired["bool | None"]

    # only this stream
    stream: NotRequired["str | None"]

    # the first line to be searched
    fromLine: NotRequired["int | None"]

    # the last line to be searched
    toLine: NotRequired["int | None"]

    # absent: DefaultMatches
    maxMatches: NotRequired["int | None"]

    # lines of the same stream around a match
    before: NotRequired["int | None"]

    after: NotRequired["int | None"]


class SearchResult(TypedDict):
    """SearchResult answers tether/process/search."""

    # by number, each once
    lines: "list[SearchLine]"

    # how many of them match
    matches: "int"

    # number of the last line that began before the search ended
    searched: "int"

    # the event after the last one that was searched
    nextSeq: "int"

    # the oldest event that the server still had
    firstSeq: "int"

    # events before FirstSeq are gone; lines are counted from there
    evicted: "bool"

    truncated: NotRequired["str | None"]

    # if truncated: the first line that was not searched
    nextLine: NotRequired["int | None"]

    # LongLines counts lines that are longer than MaxLineSearched and were not searched in full.
    longLines: NotRequired["int"]


class SessionEndParams(TypedDict):
    """SessionEndParams ends a session and kills its processes."""

    sessionId: NotRequired["str | None"]


class SessionEndResult(TypedDict):
    """SessionEndResult answers tether/session/end."""

    # Survivors are processes of the session that were killed and are still there.
    survivors: NotRequired["list[Survivor]"]


class SessionInfo(TypedDict):
    """SessionInfo is the entry of one session in a list."""

    # public
    sessionId: "str"

    clientName: "str"

    # the client's name for it
    label: NotRequired["str"]

    attached: "bool"

    createdAtMs: "int"

    # detached sessions only
    expiresInMs: NotRequired["int | None"]

    ttlMs: "int"

    processes: "int"

    # to which it belongs; only administrators are told
    principal: NotRequired["str"]


class SessionListResult(TypedDict):
    """SessionListResult answers tether/session/list."""

    sessions: "list[SessionInfo]"


class SetAttributesParams(TypedDict):
    """SetAttributesParams changes permissions and time of a file or directory. Links are followed."""

    path: "PathURI"

    # permissions, at most MaxMode; absent: as they are
    mode: NotRequired["int | None"]

    # Unix time of the last change; absent: as it is
    modifiedAtMs: NotRequired["int | None"]

    sandbox: NotRequired["Sandbox | None"]


class ShellInfo(TypedDict):
    """ShellInfo names the user's shell."""

    # bash, zsh, sh, powershell or cmd
    name: "str"

    # native
    path: "str"


class ShellSnapshotRequest(TypedDict):
    """ShellSnapshotRequest lets a login shell start from the state of an earlier login shell of the
    same scope.
    """

    scopeId: "str"

    shell: "ShellInfo"

# SignalAny is the name of a POSIX signal, like "SIGTERM". Peers may omit SIG and use lower case;
# the value is always the full name.
SignalAny: TypeAlias = Literal["SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGQUIT", "SIGSEGV", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ"]


class SignalAnyParams(TypedDict):
    """SignalAnyParams sends any signal to a process."""

    processId: "str"

    sessionId: NotRequired["str | None"]

    signal: "SignalAny"

    # as in SignalParams
    onceId: NotRequired["str | None"]

# SignalNamed is a signal of process/signal.
SignalNamed: TypeAlias = Literal["interrupt"]


class SignalParams(TypedDict):
    """SignalParams interrupts a process group."""

    processId: "str"

    signal: "SignalNamed"

    # tether: a request with the same id, of at most MaxOnceID bytes, has no further effect on the
    # same process.
    onceId: NotRequired["str | None"]


class SkillDependencies(TypedDict):
    """SkillDependencies are the tools that a skill needs."""

    tools: "list[SkillTool]"


class SkillPolicy(TypedDict):
    """SkillPolicy says when a skill may be used."""

    allowImplicitInvocation: NotRequired["bool | None"]

    products: "list[str]"


class SkillRoot(TypedDict):
    """SkillRoot is a directory of skills. Skills of a plugin have none."""

    id: "str"

    # a URI
    path: "str"


class SkillTool(TypedDict):
    """SkillTool is a tool that a skill uses."""

    type: "str"

    value: "str"

    description: NotRequired["str | None"]

    transport: NotRequired["str | None"]

    command: NotRequired["str | None"]

    url: NotRequired["str | None"]

    oauthCallbackPort: NotRequired["int | None"]

# SocketAccess is the rule for a unix socket.
SocketAccess: TypeAlias = Literal["allow", "deny"]

# SocketRules are paths of unix sockets.
SocketRules: TypeAlias = dict[str, SocketAccess]


class SpecialPathRoot(TypedDict):
    """the whole file system"""

    kind: Literal["root"]


class SpecialPathMinimal(TypedDict):
    """system directories, to read"""

    kind: Literal["minimal"]


class SpecialPathCurrentWorkingDirectory(TypedDict):
    """another spelling of project_roots"""

    kind: Literal["current_working_directory"]

    subpath: NotRequired["str | None"]


class SpecialPathProjectRoots(TypedDict):
    """each workspace root; also spelled current_working_directory"""

    kind: Literal["project_roots"]

    subpath: NotRequired["str | None"]


class SpecialPathTmpdir(TypedDict):
    """$TMPDIR of the child"""

    kind: Literal["tmpdir"]


class SpecialPathSlashTmp(TypedDict):
    """/tmp"""

    kind: Literal["slash_tmp"]


class SpecialPathUnknown(TypedDict):
    """something newer; to be ignored"""

    kind: Literal["unknown"]

    path: "str"

    subpath: NotRequired["str | None"]


# SpecialPath is a symbolic name for directories, which the executor resolves.
SpecialPath: TypeAlias = Union["SpecialPathRoot", "SpecialPathMinimal", "SpecialPathCurrentWorkingDirectory", "SpecialPathProjectRoots", "SpecialPathTmpdir", "SpecialPathSlashTmp", "SpecialPathUnknown"]


class StartMetadata(TypedDict):
    """StartMetadata becomes variables of the child's environment."""

    threadId: NotRequired["str | None"]

    toolCallId: NotRequired["str | None"]


class StartParams(TypedDict):
    """StartParams starts a process."""

    processId: "str"

    metadata: NotRequired["StartMetadata | None"]

    argv: "list[str]"

    cwd: "Cwd"

    envPolicy: NotRequired["EnvPolicy | None"]

    env: "dict[str, str]"

    tty: "bool"

    pipeStdin: NotRequired["bool"]

    arg0: NotRequired["str | None"]

    sandbox: NotRequired["Sandbox | None"]

    enforceManagedNetwork: NotRequired["bool"]

    managedNetwork: NotRequired["ManagedNetwork | None"]

    networkProxy: NotRequired["NetworkProxy | None"]

    shellSnapshot: NotRequired["ShellSnapshotRequest | None"]

    # tether: this start is sent again; the server repeats its first answer
    retry: NotRequired["bool | None"]

    # tether: initial size of the terminal
    size: NotRequired["TermSize | None"]

    # KeepNewest (tether) drops the oldest output when there is too much unread output, instead
    # of blocking the process.
    keepNewest: NotRequired["bool | None"]

    # OneStream (tether) gives a process without terminal one pipe for standard output and
    # standard error. All of its output is StreamStdout.
    oneStream: NotRequired["bool | None"]

    # tether
    limits: NotRequired["Limits | None"]


class StartResult(TypedDict):
    """StartResult answers process/start."""

    processId: "str"

    sandboxType: "str"

    # absent: there are none
    tetherLimits: NotRequired["LimitsInForce | None"]


class StateDetail(TypedDict):
    """StateDetail is an observation of a process and all its descendants at one moment, with the most
    likely explanation.
    """

    activity: "str"

    # one line for people
    text: "str"

    # where the facts come from
    source: "str"

    # when it was observed; Unix time
    asOfMs: "int"

    # since the last output, or the start
    silentMs: "int"

    pid: NotRequired["int | None"]

    # name of the program of PID
    command: NotRequired["str | None"]

    holderPid: NotRequired["int | None"]

    holderCommand: NotRequired["str | None"]

    # not everything could be observed
    partial: NotRequired["bool"]

    # Evidence has one line for each process, the decisive one first. Not in lists.
    evidence: NotRequired["list[StateEvidence]"]


class StateEvidence(TypedDict):
    """StateEvidence is the observation of one process."""

    pid: "int"

    command: "str"

    saw: "str"


class StateParams(TypedDict):
    """StateParams asks what a process is doing at this moment."""

    processId: "str"

    sessionId: NotRequired["str | None"]


class StateResult(TypedDict):
    """StateResult answers tether/process/state."""

    # as in ProcessInfo
    state: "str"

    exitCode: NotRequired["int | None"]

    stateDetail: "StateDetail"


class StatusResult(TypedDict):
    """StatusResult answers environment/status."""

    # "ready"
    status: "str"


class Survivor(TypedDict):
    """A Survivor is a process that is still there after it was killed."""

    pid: "int"

    # the letter of the system, such as "D": it waits in the kernel and cannot be interrupted
    state: "str"

    # name of its program
    command: "str"

    # for people: why it is still there
    reason: "str"


class TermSize(TypedDict):
    """TermSize is the size of a terminal in characters."""

    rows: "int"

    cols: "int"


class TerminateAnyParams(TypedDict):
    """TerminateAnyParams ends a process of any session. The answer is a
    TerminateResult.
    """

    processId: "str"

    sessionId: NotRequired["str | None"]


class TerminateResult(TypedDict):
    """TerminateResult answers process/terminate."""

    running: "bool"


class TetherInfo(TypedDict):
    """TetherInfo announces the server's additions to the reference."""

    version: "str"

    # names the session in lists; not a secret
    publicId: "str"

    # granted
    ttlMs: "int"

    features: "list[str]"

    # of the fleet, if the client has come through a gateway
    host: NotRequired["str"]

    # ReadOnly means that this connection may only look: its requests for anything else are refused with ErrorReadOnly.
    readOnly: NotRequired["bool"]

    # Admin means that this connection may list and control the sessions of all principals.
    admin: NotRequired["bool"]

# TimeoutMs is how long a client lets a command run.
TimeoutMs: TypeAlias = int | None


class UnobserveParams(TypedDict):
    """UnobserveParams ends an observation."""

    observeId: "int"


class UpgradeParams(TypedDict):
    """UpgradeParams asks for another program in place of the one that serves."""

    # path on the machine of the server; absent: the file from which it was started
    program: NotRequired["str | None"]


class UpgradeResult(TypedDict):
    """UpgradeResult answers tether/keeper/upgrade: the new program has proved that it can take over. Whether it serves
    is told by tether/keeper/state of the next worker.
    """

    # number of the worker that is being replaced
    worker: "int"


class UploadCommitParams(TypedDict):
    """UploadCommitParams puts the file in its place if it is complete. After that, the same parameters
    again succeed and do nothing.
    """

    uploadId: "str"

    # of the whole file, 64 hexadecimal digits
    sha256: "str"


class UploadOpenParams(TypedDict):
    """UploadOpenParams starts an upload, or continues it: the same parameters again, at any time in
    the same session, change nothing.
    """

    # 1 to 64 bytes that the client has not used before
    uploadId: "str"

    # the file to make or replace; links are followed
    path: "PathURI"

    # of the whole file, in bytes
    size: "int"

    # permissions of a new file, regardless of the umask; absent: the default
    mode: NotRequired["int | None"]

    sandbox: NotRequired["Sandbox | None"]


class UploadOpenResult(TypedDict):
    """UploadOpenResult answers tether/upload/open."""

    # all bytes before it have arrived: continue here
    offset: "int"

    # bytes of one tether/upload/write
    maxBlock: "int"

    # the file is in its place
    committed: "bool"


class UploadParams(TypedDict):
    """UploadParams names an upload, for tether/upload/status and tether/upload/abort."""

    uploadId: "str"


class UploadRange(TypedDict):
    """UploadRange is a part of a file: from Start up to, but without, End."""

    start: "int"

    end: "int"


class UploadStatusResult(TypedDict):
    """UploadStatusResult answers tether/upload/status."""

    size: "int"

    received: "int"

    offset: "int"

    # the parts that have arrived, in order, with gaps between them
    ranges: "list[UploadRange]"

    committed: "bool"


class UploadWriteParams(TypedDict):
    """UploadWriteParams sends a block. Blocks may be sent in any order and more than once."""

    uploadId: "str"

    offset: "int"

    chunk: "Base64"


class UploadWriteResult(TypedDict):
    """UploadWriteResult answers tether/upload/write."""

    # number of bytes that have arrived
    received: "int"

    # all bytes before it have arrived
    offset: "int"


class Usage(TypedDict):
    """Usage is the account of a command: what it had used when it exited. It is the member "tetherUsage". A figure that is
    not known is absent.
    """

    # from the start to the exit
    wallUs: "int"

    # the part of it in which the command's output was not read
    blockedUs: "int"

    # CPU time
    userUs: NotRequired["int | None"]

    systemUs: NotRequired["int | None"]

    # OfTree or OfWaited
    cpuOf: NotRequired["str"]

    memoryPeakBytes: NotRequired["int | None"]

    # OfTree, OfLargest or OfBound
    memoryOf: NotRequired["str"]

    # from disks
    readBytes: NotRequired["int | None"]

    writtenBytes: NotRequired["int | None"]

    # OfTree or OfWaited
    ioOf: NotRequired["str"]

    # the most at the same time
    processes: NotRequired["int | None"]

    memoryKill: NotRequired["MemoryKill | None"]


class WalkEntry(TypedDict):
    """WalkEntry is a file or directory that was found."""

    # a URI
    path: "str"

    # WalkFile or WalkDirectory
    kind: "str"


class WalkError(TypedDict):
    """WalkError is a path that could not be read."""

    # a URI
    path: "str"

    message: "str"


class WalkOptions(TypedDict):
    """WalkOptions bound a walk."""

    maxDepth: "int"

    maxDirectories: "int"

    maxEntries: "int"

    followDirectorySymlinks: "bool"

    pruneHiddenDirectories: NotRequired["bool"]


class WalkParams(TypedDict):
    """WalkParams asks for all files and directories below a directory."""

    path: "PathURI"

    options: "WalkOptions"

    sandbox: NotRequired["Sandbox | None"]


class WalkResult(TypedDict):
    """WalkResult answers fs/walk."""

    entries: "list[WalkEntry]"

    errors: "list[WalkError]"

    truncated: "bool"


class WatchMissingParams(TypedDict):
    """WatchMissingParams asks for a notification when one of the missing paths is created, or when
    the present one changes.
    """

    watchId: "int"

    missing: "list[PathURI]"

    present: NotRequired["PathURI | None"]


class WatchMissingResult(TypedDict):
    """WatchMissingResult answers fs/watchMissing."""

    watching: "bool"

# WindowsLevel is required everywhere and matters on Windows only.
WindowsLevel: TypeAlias = Literal["disabled", "restricted-token", "elevated", "mxc"]


class WriteAnyParams(TypedDict):
    """WriteAnyParams is WriteParams for a process of any session. Write ids belong to the process: all
    clients that write to it must choose different ones.
    """

    processId: "str"

    sessionId: NotRequired["str | None"]

    chunk: "Base64"

    writeId: "str"


class WriteBlockParams(TypedDict):
    """WriteBlockParams writes a part of an open file."""

    handleId: "str"

    offset: "int"

    chunk: "Base64"


class WriteFileParams(TypedDict):
    """WriteFileParams replaces the content of a file. The data stays encoded: the method decodes
    it, and has its own errors for malformed data.
    """

    path: "PathURI"

    dataBase64: "str"

    # absent: true
    followSymlinks: NotRequired["bool | None"]

    sandbox: NotRequired["Sandbox | None"]


class WriteParams(TypedDict):
    """WriteParams sends bytes to the standard input of a process, once per WriteID."""

    processId: "str"

    chunk: "Base64"

    writeId: "str"


class WriteResult(TypedDict):
    """WriteResult answers process/write."""

    status: "str"


# The requests and notifications between an exec-server and its client: for each the sender, the type of the
# parameters, the type of the result (None: it is a notification), and the feature by which a server announces it.
EXEC_CALLS: dict[str, tuple[str, Any, Any, str]] = {
    "initialize": ("client", InitializeParams, InitializeResult, ""),
    "initialized": ("client", None, None, ""),
    "environment/info": ("client", NoParams, EnvironmentInfo, ""),
    "environment/status": ("client", NoParams, StatusResult, ""),
    "environmentConfig/read": ("client", ConfigReadParams, ConfigReadResult, ""),
    "capabilityRoots/discoverV1": ("client", DiscoverRootsParams, DiscoverRootsResult, ""),
    "capabilities/discoverV2": ("client", DiscoverCapabilitiesParams, DiscoverCapabilitiesResult, ""),
    "http/request": ("client", HTTPRequestParams, HTTPResponse, ""),
    "http/request/bodyDelta": ("server", HTTPBodyDelta, None, ""),
    "process/start": ("client", StartParams, StartResult, ""),
    "process/read": ("client", ReadParams, ReadResult, ""),
    "process/write": ("client", WriteParams, WriteResult, ""),
    "process/signal": ("client", SignalParams, Empty, ""),
    "process/terminate": ("client", ProcessParams, TerminateResult, ""),
    "process/output": ("server", ProcessOutput, None, ""),
    "process/exited": ("server", ProcessExited, None, ""),
    "process/closed": ("server", ProcessClosed, None, ""),
    "network/policyRequest": ("server", NetworkPolicyParams, NetworkPolicyResult, ""),
    "network/policyDecision": ("server", NetworkDecision, None, ""),
    "fs/readFile": ("client", ReadFileParams, ReadFileResult, ""),
    "fs/writeFile": ("client", WriteFileParams, Empty, ""),
    "fs/createDirectory": ("client", CreateDirectoryParams, Empty, ""),
    "fs/getMetadata": ("client", MetadataParams, MetadataResult, ""),
    "fs/canonicalize": ("client", CanonicalizeParams, CanonicalizeResult, ""),
    "fs/readDirectory": ("client", ReadDirectoryParams, ReadDirectoryResult, ""),
    "fs/walk": ("client", WalkParams, WalkResult, ""),
    "fs/remove": ("client", RemoveParams, Empty, ""),
    "fs/copy": ("client", CopyParams, Empty, ""),
    "fs/watchMissing": ("client", WatchMissingParams, WatchMissingResult, ""),
    "fs/missingChanged": ("server", MissingChanged, None, ""),
    "fs/open": ("client", OpenParams, HandleResult, ""),
    "fs/readBlock": ("client", ReadBlockParams, ReadBlockResult, ""),
    "fs/writeBlock": ("client", WriteBlockParams, Empty, ""),
    "fs/close": ("client", HandleParams, Empty, ""),
    "tether/ack": ("client", AckParams, None, "ack"),
    "tether/goodbye": ("server", Empty, None, "goodbye"),
    "tether/fs/setAttributes": ("client", SetAttributesParams, Empty, "fileAttributes"),
    "tether/upload/open": ("client", UploadOpenParams, UploadOpenResult, "upload"),
    "tether/upload/write": ("client", UploadWriteParams, UploadWriteResult, "upload"),
    "tether/upload/status": ("client", UploadParams, UploadStatusResult, "upload"),
    "tether/upload/commit": ("client", UploadCommitParams, Empty, "upload"),
    "tether/upload/abort": ("client", UploadParams, Empty, "upload"),
    "tether/port/open": ("client", PortOpenParams, PortOpenResult, "ports"),
    "tether/port/close": ("client", PortCloseParams, Empty, "ports"),
    "tether/port/list": ("client", PortListParams, PortListResult, "portList"),
    "tether/port/listen": ("client", PortListenParams, PortListenResult, "portListen"),
    "tether/port/accept": ("client", PortAcceptParams, PortAcceptResult, "portListen"),
    "tether/port/unlisten": ("client", PortUnlistenParams, Empty, "portListen"),
    "tether/port/write": ("client", PortData, None, "ports"),
    "tether/port/ack": ("client", PortAck, None, "ports"),
    "tether/port/data": ("server", PortData, None, "ports"),
    "tether/port/acked": ("server", PortAck, None, "ports"),
    "tether/port/failed": ("server", PortFailed, None, "ports"),
    "tether/process/resize": ("client", ResizeParams, Empty, "resize"),
    "tether/process/closeStdin": ("client", CloseStdinParams, Empty, "closeStdin"),
    "tether/process/signal": ("client", SignalAnyParams, Empty, "signal"),
    "tether/process/write": ("client", WriteAnyParams, WriteResult, "remoteControl"),
    "tether/process/terminate": ("client", TerminateAnyParams, TerminateResult, "remoteControl"),
    "tether/process/list": ("client", ListParams, ListResult, "list"),
    "tether/process/state": ("client", StateParams, StateResult, "state"),
    "tether/process/search": ("client", SearchParams, SearchResult, "search"),
    "tether/process/read": ("client", ReadAnyParams, ReadAnyResult, "readAny"),
    "tether/process/observe": ("client", ObserveParams, ObserveResult, "observe"),
    "tether/process/unobserve": ("client", UnobserveParams, Empty, "observe"),
    "tether/process/output": ("server", ObservedOutput, None, "observe"),
    "tether/process/exited": ("server", ObservedExited, None, "observe"),
    "tether/process/closed": ("server", ObservedClosed, None, "observe"),
    "tether/process/evicted": ("server", ObservedEvicted, None, "observe"),
    "tether/process/removed": ("server", ObservedRemoved, None, "observe"),
    "tether/process/describe": ("client", DescribeParams, DescribeResult, "describe"),
    "tether/process/takeControl": ("client", ControlParams, Empty, "control"),
    "tether/process/giveControl": ("client", ControlParams, Empty, "control"),
    "tether/process/control": ("server", ObservedControl, None, "control"),
    "tether/session/list": ("client", NoParams, SessionListResult, "list"),
    "tether/session/end": ("client", SessionEndParams, SessionEndResult, "endSession"),
    "tether/keeper/state": ("client", NoParams, KeeperState, "keeper"),
    "tether/console/code": ("client", Empty, ConsoleCode, "console"),
    "tether/reload": ("client", NoParams, ReloadResult, "reload"),
    "tether/keeper/upgrade": ("client", UpgradeParams, UpgradeResult, "keeper"),
}


# The requests and notifications between an app-server and its client: for each the sender, the type of the
# parameters, the type of the result (None: it is a notification), and the feature by which a server announces it.
APP_CALLS: dict[str, tuple[str, Any, Any, str]] = {
    "initialize": ("client", AppInitializeParams, AppInitializeResult, ""),
    "initialized": ("client", None, None, ""),
    "process/spawn": ("client", ProcessSpawnParams, Empty, ""),
    "process/writeStdin": ("client", ProcessWriteStdinParams, Empty, ""),
    "process/resizePty": ("client", ProcessResizePtyParams, Empty, ""),
    "process/kill": ("client", ProcessKillParams, Empty, ""),
    "process/outputDelta": ("server", ProcessOutputDelta, None, ""),
    "process/exited": ("server", ProcessEnded, None, ""),
}
