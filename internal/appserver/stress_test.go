//go:build linux

package appserver

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A hundred processes at once, or five hundred in make soak, on one connection: some are killed, some get
// input, some have exited. Then the connection ends, and everything must be gone.
func TestStress(t *testing.T) {
	f := start(t, nil)
	warm := f.connect() // so that the server has allocated what it always needs
	for _, options := range []j{nil, {"tty": true}, {"streamStdoutStderr": true, "streamStdin": true}} {
		warm.spawn("w", options, "true")
		warm.exited("w")
	}
	warm.Close()
	nothingLeft := tethertest.NothingLeft(t)
	goroutines := runtime.NumGoroutine()

	count := tethertest.Scaled(100, 500)
	random := rand.New(rand.NewPCG(6, 500))
	mark := fmt.Sprintf("%d.%d", 1000+os.Getpid(), random.IntN(1e6)) // a number of seconds that no other process sleeps
	c := f.connect()
	scripts := []string{
		"exec sleep " + mark,
		"sleep " + mark + " & setsid sleep " + mark + " & wait",
		"head -c 300000 /dev/zero; exec sleep " + mark,
		"exec cat",
		"trap '' TERM; while :; do echo tick; sleep 0.2; done",
		"setsid sleep " + mark + " >/dev/null 2>&1 & exit 3",
		"head -c 200000 /dev/urandom; exit 4",
		"exec cat /dev/zero",
	}
	var spawns []int64
	for i := range count {
		options := j{"timeoutMs": []any{nil, 60_000, 1}[random.IntN(3)], "outputBytesCap": []any{nil, 0, 1000}[random.IntN(3)]}
		script := scripts[i%len(scripts)]
		if strings.Contains(script, "/dev/zero") && strings.Contains(script, "cat") {
			options["streamStdoutStderr"], options["outputBytesCap"] = true, 1<<20
		}
		switch random.IntN(4) {
		case 0:
			options["tty"] = true
		case 1:
			options["streamStdin"] = true
		case 2:
			options["streamStdin"], options["streamStdoutStderr"] = true, true
		}
		handle := fmt.Sprint(i)
		spawns = append(spawns, c.Ask("process/spawn", c.spawnParams(handle, options, "sh", "-c", script)))
		if random.IntN(3) == 0 {
			c.Ask("process/writeStdin", j{"processHandle": handle, "deltaBase64": base64.StdEncoding.EncodeToString(make([]byte, random.IntN(100_000))), "closeStdin": random.IntN(2) == 0})
		}
		if random.IntN(3) == 0 {
			c.Ask("process/kill", j{"processHandle": fmt.Sprint(random.IntN(i + 1))})
		}
		if random.IntN(5) == 0 {
			c.Ask("process/resizePty", j{"processHandle": handle, "size": j{"rows": 5, "cols": 5}})
		}
	}
	for _, id := range spawns {
		accepted(t, "spawn", c.Answer(id))
	}
	for range 100 {
		c.Ask("process/kill", j{"processHandle": fmt.Sprint(random.IntN(count))})
	}
	if sleepers(mark) == 0 {
		t.Error("no process sleeps: this tests nothing")
	}
	c.Close()

	tethertest.Eventually(t, func() error {
		if n := sleepers(mark); n > 0 {
			return fmt.Errorf("%d processes are left", n)
		}
		if n := runtime.NumGoroutine(); n > goroutines {
			return fmt.Errorf("%d goroutines, %d before", n, goroutines)
		}
		return nil
	})
	nothingLeft()
}

// sleepers counts the processes that sleep for this time.
func sleepers(seconds string) (n int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), seconds) {
			n++
		}
	}
	return n
}
