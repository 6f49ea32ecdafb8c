//go:build mcp || fleet || !split

package main

// namesOnly: this program has the flags and the help of all commands.
const namesOnly = false
