package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tetherexec/tether/schema"
)

func TestText(t *testing.T) {
	for format, want := range map[string]string{
		schema.JSONSchema: `"$schema": "https://json-schema.org/draft/2020-12/schema"`,
		schema.OpenRPC:    `"openrpc": "1.3.2"`,
		schema.TypeScript: "export interface StartParams {",
		schema.Python:     "class StartParams(TypedDict):",
	} {
		text, err := schema.Text(format)
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s has no %s: %v", format, want, err)
		}
		if strings.HasPrefix(text, "{") && !json.Valid([]byte(text)) {
			t.Errorf("%s is not JSON", format)
		}
	}
	const want = `there is no schema in the format "yaml": the formats are json-schema, openrpc, typescript, python`
	if _, err := schema.Text("yaml"); err == nil || err.Error() != want {
		t.Errorf("an unknown format: %v", err)
	}
}
