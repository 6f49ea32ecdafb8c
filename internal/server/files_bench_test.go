package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// BenchmarkReadFile is a small file over a WebSocket, the client's part included.
func BenchmarkReadFile(b *testing.B) {
	s := tethertest.StartServer(b, server.Config{})
	name := filepath.Join(b.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 1<<10), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, row := range []struct{ name, method, params string }{
		{"status", wire.MethodEnvironmentStatus, "null"},
		{"metadata", wire.MethodFsGetMetadata, `{"path":"` + wire.PathToURI(name) + `"}`},
		{"1KiB", wire.MethodFsReadFile, `{"path":"` + wire.PathToURI(name) + `"}`},
	} {
		b.Run(row.name, func(b *testing.B) {
			c := tethertest.Connect(b, s.URL)
			ws := c.WS()
			id := 1000
			for b.Loop() {
				id++
				ws.WriteText(fmt.Appendf(nil, `{"id":%d,"method":"%s","params":%s}`, id, row.method, row.params))
				c.Answer(int64(id))
			}
			c.Close()
		})
	}
}
