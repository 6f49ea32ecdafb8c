package main

// mcpProgram is the second program of tether: this one, built with -tags mcp. Some commands are only in that build, because
// the server and the everyday commands do not need them (docs/adr/0006-mcp-in-a-second-program.md). Which ones depends on how
// tether is built:
//   - scripts/build builds tether with -tags split. The commands below are in the second program, with their flags and their help;
//     tether has only their names (second_outside.go).
//   - Without a tag, as in tests, `tether mcp` and `tether chaos` check their flags and start the second program
//     (mcp_outside.go, chaos_outside.go). All other commands are inside.
const mcpProgram = "tether-mcp"

// prefixMCP begins the arguments with which tether starts that program; the version of tether follows, and then the
// arguments of tether.
const prefixMCP = "be-mcp"

// The names of the commands that are in the second program, and what the list of commands says about them.
const (
	nameCp, shortCp           = "cp", "Copy files and directories to another machine, or from there"
	nameFs, shortFs           = "fs", "Read and change files on another machine"
	nameMCP, shortMCP         = "mcp", "Give an MCP client commands and files, here or on another machine"
	nameMCPRun, shortMCPRun   = "mcp-run", "Run an MCP server on another machine for a client on this one"
	nameSandbox, shortSandbox = "sandbox", "Run a command in a sandbox, or explain one"
	nameDoctor, shortDoctor   = "doctor", "Test that the sandbox works on this machine"
	nameChaos, shortChaos     = "chaos", "Put a bad network between a client and a server"
)
