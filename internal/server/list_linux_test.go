package server_test

import (
	"fmt"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A list says what processes use, as long as they exist.
func TestListShowsUsage(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", `(x=$(head -c 10000000 /dev/zero | tr "\0" x); i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo ready; read y)`,
		map[string]any{"pipeStdin": true}))
	c.AwaitEvent("p")
	listed := func() wire.ProcessInfo {
		t.Helper()
		m := c.Call("tether/process/list", map[string]any{})
		var list wire.ListResult
		if err := wire.Decode(m.Result, &list); err != nil || len(list.Processes) != 1 {
			t.Fatalf("%s: %v", m.Raw, err)
		}
		return list.Processes[0]
	}
	p := listed()
	if p.CPUMs == nil || *p.CPUMs < 10 || p.MemoryBytes == nil || *p.MemoryBytes < 10_000_000 {
		t.Errorf("listed %+v", p)
	}
	c.Write("p", "1", "\n")
	c.Finish("p", 1)
	tethertest.Eventually(t, func() error {
		if p := listed(); p.CPUMs != nil || p.MemoryBytes != nil {
			return fmt.Errorf("a closed process uses %+v", p)
		}
		return nil
	})
}
