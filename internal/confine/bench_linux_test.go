package confine

import (
	"testing"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// BenchmarkPrepare measures the server's work for a sandboxed start before it
// forks, and the cleaning up.
func BenchmarkPrepare(b *testing.B) {
	procs := proc.New(proc.Config{})
	defer procs.Close()
	c := New(Config{Procs: procs, Shared: b.TempDir(), Own: b.TempDir()})
	defer c.Close()
	ws := b.TempDir()
	for _, row := range []struct {
		name    string
		network wire.NetworkAccess
		entries string
	}{
		{"read-only", wire.NetworkRestricted, "read :root"},
		{"workspace-write", wire.NetworkRestricted, "read :root, write " + ws + ", write :slash_tmp"},
		{"network", wire.NetworkEnabled, "read :root, write " + ws + ", write :slash_tmp"},
	} {
		b.Run(row.name, func(b *testing.B) {
			r := Request{Intent: intent(b, row.network, row.entries), Spec: proc.Spec{Argv: []string{"true"}, Dir: ws}}
			for b.Loop() {
				p, err := c.Prepare(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				p.Abandon()
			}
		})
	}
}
