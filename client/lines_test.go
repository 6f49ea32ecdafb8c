package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// linesServer is a server for one process on standard input and output, as a shell script. It
// starts no other programs, because they may be slow to start. more are the cases that a test
// adds.
func linesServer(more string) client.TransportCommand {
	return client.TransportCommand{Argv: []string{"/bin/sh", "-c", `
answer() { id=${line#*\"id\":}; printf '{"id":%s,"result":%s}\n' "${id%%[!0-9]*}" "$1"; }
while read -r line; do
	case $line in
	*'"initialize"'*) answer '{"sessionId":"S"}' ;;
	*'"process/start"'*) answer '{"processId":"P","sandboxType":"none"}' ;;
	` + more + `
	*'"environment/status"'*) answer '{"status":"ready"}' ;;
	esac
done`}}
}

// Over a transport without pings, the client waits for a slow answer as long as the server
// sends anything.
func TestSlowAnswerOverLines(t *testing.T) {
	t.Parallel()
	const read = `*'"process/read"'*) (sleep 5; answer '`
	slow := read + scripted.ReadAnswer(1, false, false) + `') & ;;`
	for name, try := range map[string]struct {
		more    string
		options client.Options
	}{
		"status is answered":        {slow, client.WithShortTimeouts(client.Options{})},
		"only output comes":         {`*'"environment/status"'*) ;;` + talking(slow), client.WithShortTimeouts(client.Options{})},
		"output comes all the time": {`*'"environment/status"'*) ;;` + talking(slow), client.Options{Silence: 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := client.DialCommand(tethertest.Within(t), linesServer(try.more), try.options)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P"})
			if _, err := p.Read(tethertest.Within(t), client.ReadOptions{}); err != nil {
				t.Error(err)
			}
			if n := c.Status().Connection; n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// talking makes a server send messages all the time from the first read on.
func talking(cases string) string {
	const note = `(while sleep 0.1; do echo '{"method":"new/thing","params":{}}'; done) & `
	return strings.Replace(cases, `*'"process/read"'*) `, `*'"process/read"'*) `+note, 1)
}
