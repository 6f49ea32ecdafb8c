//go:build unix

package client_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A transport command that is silent is ended, and started again to resume the session.
func TestSilentTransportCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	script := `
answer() { id=${line#*\"id\":}; printf '{"id":%s,"result":%s}\n' "${id%%[!0-9]*}" "$1"; }
while read -r line; do
	case $line in
	*'"initialize"'*) answer '{"sessionId":"S"}' ;;
	*'"environment/status"'*)
		if ! test -e FILE; then
			echo $$ >FILE
			exec sleep 60 >/dev/null # the network is gone
		fi
		answer '{"status":"ready"}' ;;
	esac
done`
	c, err := client.DialCommand(tethertest.Within(t),
		client.TransportCommand{Argv: []string{"/bin/sh", "-c", strings.ReplaceAll(script, "FILE", file)}},
		client.Options{Silence: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tethertest.Eventually(t, func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("the silent command still runs: %v", err)
		}
		if s := c.Status(); s.State != client.Connected || s.Connection < 2 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
}
