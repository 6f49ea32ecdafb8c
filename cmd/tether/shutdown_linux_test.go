package main

import (
	"bufio"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/client"
)

// When the server of a command is ended by a signal, tether run ends at once and says so,
// over each transport, instead of trying to reconnect for 9 minutes.
func TestRunEndsWithItsServer(t *testing.T) {
	t.Parallel()
	home := newBridgeHome(t)
	b := newTestEnv(t)
	for name, url := range map[string]string{
		"tcp":    startTether(t, "serve").line(t),
		"unix":   startTether(t, "serve", "--listen", "unix://"+b.tmp+"/s").line(t),
		"stdio":  "exec:" + b.self + " serve --listen stdio",
		"bridge": "exec:" + b.self + " bridge --socket " + home.socket,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr sharedBuffer
			cmd := b.command("run", "--keep", "20s", "--url", url, "--", "sh", "-c", "echo $PPID; exec sleep 1000")
			cmd.Stderr = &stderr
			_, out := piped(t, cmd)
			line, err := bufio.NewReader(out).ReadString('\n')
			server, perr := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || perr != nil {
				t.Fatalf("%q, %v: %s", line, err, stderr.String())
			}
			syscall.Kill(server, syscall.SIGTERM)
			cmd.Wait()
			if want := ": " + client.ErrServerStopped.Error() + "\n"; cmd.ProcessState.ExitCode() != exitLost || strings.Count(stderr.String(), "\n") != 1 || !strings.HasSuffix(stderr.String(), want) {
				t.Errorf("%v, %q, want %q", cmd.ProcessState, stderr.String(), want)
			}
		})
	}
}
