package mcpserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// referenceShapes are the arguments of the reference's tools of the same name, as the
// Codex CLI 0.166.0 publishes them with all that can be asked for: the required ones
// with a star, a nested object in braces, and nothing else allowed in any. It calls every
// number a number, but takes only whole ones.
var referenceShapes = map[string]string{
	"exec_command": "{additional_permissions {file_system {read [string], write [string]}, network {enabled boolean}}, cmd* string, " +
		"justification string, login boolean, max_output_tokens integer, prefix_rule [string], " +
		"sandbox_permissions (require_escalated use_default with_additional_permissions), shell string, tty boolean, workdir string, yield_time_ms integer}",
	"write_stdin": "{chars string, max_output_tokens integer, session_id* integer, yield_time_ms integer}",
}

// The tools that the reference has, too, take the same arguments.
func TestShapesOfTheReference(t *testing.T) {
	list, err := newRig(t, confined(granular), says("decline", "")).session.ListTools(tethertest.Within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, tool := range list.Tools {
		want, found := referenceShapes[tool.Name]
		if !found {
			continue
		}
		seen++
		var schema map[string]any
		raw, err := json.Marshal(tool.InputSchema)
		if err == nil {
			err = json.Unmarshal(raw, &schema)
		}
		if got := shape(schema); got != want || err != nil {
			t.Errorf("%s has %s\nwant %s (%v)", tool.Name, got, want, err)
		}
	}
	if seen != len(referenceShapes) {
		t.Errorf("%d tools", seen)
	}
}

// shape returns a JSON schema without its descriptions.
func shape(schema map[string]any) string {
	kind := fmt.Sprint(schema["type"])
	switch {
	case schema["enum"] != nil:
		var values []string
		for _, v := range schema["enum"].([]any) {
			values = append(values, v.(string))
		}
		slices.Sort(values)
		return "(" + strings.Join(values, " ") + ")"
	case kind == "array":
		return "[" + shape(schema["items"].(map[string]any)) + "]"
	case kind != "object":
		return kind
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	var members []string
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		star := ""
		if slices.Contains(required, any(name)) {
			star = "*"
		}
		members = append(members, name+star+" "+shape(properties[name].(map[string]any)))
	}
	text := "{" + strings.Join(members, ", ") + "}"
	if closed, said := schema["additionalProperties"]; !said || closed != false && fmt.Sprint(closed) != "map[not:map[]]" {
		return "open " + text
	}
	return text
}
