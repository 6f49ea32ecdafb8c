package statedir

import (
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/tetherexec/tether/internal/reexec"
)

func init() {
	reexec.Register(reexec.Left, func(args []string) int {
		if len(args) != 1 {
			return 2
		}
		(&Dir{Shared: args[0]}).sweepDurable(slog.New(slog.DiscardHandler))
		return 0
	})
}

// Desert ends this program, which is the durable server of a shared directory, without a further change to what it has
// recorded: it becomes a program that ends the commands of the server, so that they do not run until the next server
// comes. It returns only if that is not possible.
func Desert(shared string) error {
	err := syscall.Exec("/proc/self/exe", reexec.Argv("tether", reexec.Left, shared), os.Environ())
	return fmt.Errorf("end the commands of the server: %w", err)
}
