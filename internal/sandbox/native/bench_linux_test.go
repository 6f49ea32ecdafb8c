package native

import "testing"

// BenchmarkCompile measures what the server does for the script of one start.
func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"read-only", "workspace-write"} {
		b.Run(name, func(b *testing.B) {
			o := orderOf(readPlan(b, name+".plan"))
			o.LastCapability = 40
			b.ReportAllocs()
			for b.Loop() {
				script, err := Compile(o)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := script.Encode(); err != nil {
					b.Fatal(err)
				}
				script.Free()
			}
		})
	}
}
