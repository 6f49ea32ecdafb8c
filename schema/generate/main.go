// Generate writes the schema of the protocols from the Go source of package wire: run `go run ./schema/generate` in the root
// of the repository, or `make schema`. With -check it writes nothing, and fails if a file is not as it should be.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// outputs are the generated files, and what writes each. The clients have copies, because they are packages of their own.
var outputs = []struct {
	name  string
	write func(*model) []byte
}{
	{"schema/tether.json", writeJSONSchema},
	{"schema/openrpc.json", writeOpenRPC},
	{"schema/tether.ts", writeTypeScript},
	{"schema/tether.py", writePython},
	{"clients/python/tetherexec/protocol.py", writePython},
	{"clients/typescript/src/protocol.ts", writeTypeScript},
}

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if a file is not up to date")
	flag.Parse()
	if err := generate(".", *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes the files into the repository at root, or compares them.
func generate(root string, check bool) error {
	m, err := readModel(filepath.Join(root, "wire"))
	if err != nil {
		return err
	}
	for _, out := range outputs {
		name := filepath.Join(root, filepath.FromSlash(out.name))
		want := out.write(m)
		if !check {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				return err
			}
			continue
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%s does not describe package wire as it is now: run `make schema`, and commit the result", out.name)
		}
	}
	return nil
}
