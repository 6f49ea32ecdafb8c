package main

// A companion is this program, built with another tag. Some commands are only in such a build, because the server and the everyday
// commands do not need them and the libraries for them are large (docs/adr/0006-mcp-in-a-second-program.md and
// docs/adr/0011-fleet-in-a-third-program.md). Which ones depends on how tether is built:
//   - scripts/build builds tether with -tags split. The commands below are in a companion, with their flags and their help; tether
//     has only their names (second_outside.go).
//   - Without a tag, as in tests, `tether mcp`, `tether chaos` and the commands of a fleet check their flags and start the companion
//     (mcp_outside.go, chaos_outside.go, fleet_outside.go). All other commands are inside.
//   - A companion does the same with the commands of the other companion.
type companion struct {
	program string // the name of its file
	tag     string // with which it is built
}

var (
	withMCP   = companion{"tether-mcp", "mcp"}
	withFleet = companion{"tether-fleet", "fleet"}
)

// prefixCompanion begins the arguments with which tether starts a companion; the version of tether follows, and then the
// arguments of tether.
const prefixCompanion = "be-companion"

// consoleFilesCommand, as the only argument, makes a companion print the files of the console's page.
const consoleFilesCommand = "print-console"

// packageFilesCommand, with a date as in 2026-01-31, makes a companion print the files of packages that are made from its commands: manual
// pages, completions, unit files. tools/release uses it.
const packageFilesCommand = "print-package"

// The names of the commands that are in companions, and what the list of commands says about them.
const (
	nameCp, shortCp           = "cp", "Copy files and directories to another machine, or from there"
	nameFs, shortFs           = "fs", "Read and change files on another machine"
	nameMCP, shortMCP         = "mcp", "Give an MCP client commands and files, here or on another machine"
	nameMCPRun, shortMCPRun   = "mcp-run", "Run an MCP server on another machine for a client on this one"
	nameSandbox, shortSandbox = "sandbox", "Run a command in a sandbox, or explain one"
	nameDoctor, shortDoctor   = "doctor", "Test that the sandbox works on this machine"
	nameChaos, shortChaos     = "chaos", "Put a bad network between a client and a server"
	nameRecord, shortRecord   = "record", "Record the output of a process with its times"
	namePlay, shortPlay       = "play", "Play a recording on this terminal"
)

const (
	namePs, shortPs             = "ps", "List the processes of a server"
	nameLogs, shortLogs         = "logs", "Print the output of a process"
	nameAttach, shortAttach     = "attach", "Attach this terminal to a running process"
	nameWhy, shortWhy           = "why", "Say what a process is doing, or waiting for"
	nameWait, shortWait         = "wait", "Wait until a process ends"
	nameKill, shortKill         = "kill", "End processes, or send them a signal"
	nameRm, shortRm             = "rm", "Remove detached commands that have ended"
	nameSessions, shortSessions = "sessions", "List the sessions of a server, or end some"
)

const aboutCompletion, shortCompletion = "completion", "Print a script that completes command lines of tether"

const nameService, shortService = "service", "Let systemd run a server"
const nameUpgradeHost, shortUpgradeHost = "upgrade-host", "Copy this version to a machine that is reached by ssh, for its server"

const (
	nameUpgrade, shortUpgrade = "upgrade", "Let a server go on with another version of its program"
	nameReload, shortReload   = "reload", "Let a server read its settings again"
	nameToken, shortToken     = "token", "Make a token file for a server and its clients"
)

const nameSchema, shortSchema = "schema", "Print the schema of the protocols"

const (
	nameForward, shortForward = "forward", "Forward ports of this machine through a server"
	namePorts, shortPorts     = "ports", "List the ports on which processes of a server listen"
)

const nameConsole, shortConsole = "console", "Watch and control a server in a browser"

const nameAppServer, shortAppServer = "app-server", "Serve the process API of the Codex app-server"

const (
	nameHub, shortHub         = "hub", "Run the hub of a fleet, through which gateways reach executors"
	nameGateway, shortGateway = "gateway", "Serve clients with the executors of a fleet"
	nameHosts, shortHosts     = "hosts", "List the executors of a fleet, or drain one"
)

// A companionCommand is a command that the released tether leaves to a companion.
type companionCommand struct {
	name string
	in   companion
	runs bool // it may end with the exit code of a command that it runs
}

var companionCommands = []companionCommand{
	{namePs, withMCP, false}, {nameLogs, withMCP, false}, {nameAttach, withMCP, true}, {nameWhy, withMCP, false}, {nameWait, withMCP, true},
	{nameKill, withMCP, false}, {nameRm, withMCP, false}, {nameSessions, withMCP, false},
	{nameCp, withMCP, false}, {nameFs, withMCP, false}, {nameForward, withMCP, false}, {namePorts, withMCP, false}, {nameDoctor, withMCP, false}, {nameChaos, withMCP, false},
	{nameAppServer, withMCP, false}, {nameService, withMCP, false}, {nameSchema, withMCP, false},
	{nameConsole, withMCP, false}, {nameRecord, withMCP, false}, {namePlay, withMCP, false},
	{nameMCP, withMCP, true}, {nameMCPRun, withMCP, true}, {nameSandbox, withMCP, true},
	{aboutCompletion, withMCP, false},
	{nameUpgradeHost, withMCP, false}, {nameUpgrade, withMCP, false}, {nameReload, withMCP, false}, {nameToken, withMCP, false},
	{nameHub, withFleet, false}, {nameGateway, withFleet, false}, {nameHosts, withFleet, false},
}
