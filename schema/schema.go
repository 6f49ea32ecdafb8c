// Package schema has the schema of the protocols: files for programs in other languages, generated from package wire. Run
// `make schema` after a change there.
package schema

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:generate go run -C .. ./schema/generate

var (
	//go:embed tether.json
	jsonSchema string
	//go:embed openrpc.json
	openRPC string
	//go:embed tether.ts
	typeScript string
	//go:embed tether.py
	python string
)

// The formats of the schema.
const (
	JSONSchema = "json-schema"
	OpenRPC    = "openrpc"
	TypeScript = "typescript"
	Python     = "python"
)

// Formats returns the names of all formats.
func Formats() []string { return []string{JSONSchema, OpenRPC, TypeScript, Python} }

// Text is the schema in one of the formats.
func Text(format string) (string, error) {
	texts := []string{jsonSchema, openRPC, typeScript, python} // in the order of Formats
	at := slices.Index(Formats(), format)
	if at < 0 {
		return "", fmt.Errorf("there is no schema in the format %q: the formats are %s", format, strings.Join(Formats(), ", "))
	}
	return texts[at], nil
}
