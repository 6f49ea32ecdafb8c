//go:build split && !mcp && !fleet

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
)

func newPs(*os.File) *cobra.Command                   { return newSecond(namePs, shortPs) }
func newLogs(*os.File) *cobra.Command                 { return newSecond(nameLogs, shortLogs) }
func newAttach(_, _ *os.File) *cobra.Command          { return newSecond(nameAttach, shortAttach) }
func newWhy() *cobra.Command                          { return newSecond(nameWhy, shortWhy) }
func newWait() *cobra.Command                         { return newSecond(nameWait, shortWait) }
func newKill() *cobra.Command                         { return newSecond(nameKill, shortKill) }
func newRm() *cobra.Command                           { return newSecond(nameRm, shortRm) }
func newSessions() *cobra.Command                     { return newSecond(nameSessions, shortSessions) }
func newCp() *cobra.Command                           { return newSecond(nameCp, shortCp) }
func newFs(*os.File) *cobra.Command                   { return newSecond(nameFs, shortFs) }
func newForward() *cobra.Command                      { return newSecond(nameForward, shortForward) }
func newPorts() *cobra.Command                        { return newSecond(namePorts, shortPorts) }
func newMCP(_ []string, _, _ *os.File) *cobra.Command { return newSecond(nameMCP, shortMCP) }
func newMCPRun(_, _ *os.File) *cobra.Command          { return newSecond(nameMCPRun, shortMCPRun) }
func newSandbox(_, _ *os.File) *cobra.Command         { return newSecond(nameSandbox, shortSandbox) }
func newDoctor() *cobra.Command                       { return newSecond(nameDoctor, shortDoctor) }
func newChaos([]string, *os.File) *cobra.Command      { return newSecond(nameChaos, shortChaos) }
func newAppServer([]string, *os.File, *os.File) *cobra.Command {
	return newSecond(nameAppServer, shortAppServer)
}
func newService(*os.File) *cobra.Command           { return newSecond(nameService, shortService) }
func newUpgradeHost() *cobra.Command               { return newSecond(nameUpgradeHost, shortUpgradeHost) }
func newUpgrade() *cobra.Command                   { return newSecond(nameUpgrade, shortUpgrade) }
func newToken() *cobra.Command                     { return newSecond(nameToken, shortToken) }
func newReload() *cobra.Command                    { return newSecond(nameReload, shortReload) }
func newSchema() *cobra.Command                    { return newSecond(nameSchema, shortSchema) }
func newConsole() *cobra.Command                   { return newSecond(nameConsole, shortConsole) }
func newRecord() *cobra.Command                    { return newSecond(nameRecord, shortRecord) }
func newPlay(*os.File) *cobra.Command              { return newSecond(namePlay, shortPlay) }
func newCompletion() *cobra.Command                { return newSecond(aboutCompletion, shortCompletion) }
func newHub([]string, *os.File) *cobra.Command     { return newSecond(nameHub, shortHub) }
func newGateway([]string, *os.File) *cobra.Command { return newSecond(nameGateway, shortGateway) }
func newHosts([]string, *os.File) *cobra.Command   { return newSecond(nameHosts, shortHosts) }

// A command whose ports are to be forwarded runs in a companion.
func canForwardPorts(*client.Client) error                                   { return nil }
func forwardPortsOf(*connection, string, *terminal.StatusLine) (stop func()) { return func() {} }

// namesOnly: of the commands in companions, this program has only the names.
const namesOnly = true

// complete answers a shell. handOver has left that to a companion.
func complete(root *cobra.Command) (*cobra.Command, error) {
	return root, noSuchCommand(root, []string{cobra.ShellCompRequestCmd})
}

// newSecond is a command of a companion in the list of commands. handOver executes it.
func newSecond(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short,
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return handOver(os.Args[1:]) },
	}
}
