package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// Shells start background jobs with SIGINT ignored, nohup does so with SIGHUP.
// Commands must not inherit that, or nothing could interrupt them.
func TestCommandsDoNotInheritIgnoredSignals(t *testing.T) {
	ignored := []os.Signal{syscall.SIGINT, syscall.SIGHUP}
	signal.Ignore(ignored...) // is inherited by the server
	p := startTether(t, "serve", "--listen", "stdio")
	signal.Reset(ignored...)
	tethertest.StopIgnoringSignals()

	const ask = `{"id":1,"method":"initialize","params":{"clientName":"t"}}
{"method":"initialized"}
{"id":2,"method":"process/start","params":{"processId":"p","argv":["/bin/grep","SigIgn","/proc/self/status"],"cwd":"/","env":{},"tty":false}}
`
	if _, err := p.stdin.Write([]byte(ask)); err != nil {
		t.Fatal(err)
	}
	var said []byte
	for {
		var m struct {
			Method string
			Params struct{ Chunk string }
		}
		if err := json.Unmarshal([]byte(p.line(t)), &m); err != nil {
			t.Fatal(err)
		}
		chunk, err := base64.StdEncoding.DecodeString(m.Params.Chunk)
		if err != nil {
			t.Fatal(err)
		}
		if said = append(said, chunk...); m.Method == "process/closed" {
			break
		}
	}
	// Bit n-1 is signal n: SIGHUP is 1, SIGINT is 2.
	if mask := strings.TrimSpace(strings.TrimPrefix(string(said), "SigIgn:")); mask == "" || mask[len(mask)-1] != '0' {
		t.Errorf("a command ignores signals: %q", said)
	}
	p.stdin.Close()
	p.endsWith(t, 0)
}
