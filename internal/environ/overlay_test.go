package environ

import (
	"slices"
	"testing"
)

func TestOverlay(t *testing.T) {
	over, empty := "over", ""
	got := Overlay([]string{"A=1", "B=2", "API_KEY=k", "NODE_REPL_AUTH_TOKEN=s", "CODEX_TOOL_CALL_ID=kept", "junk"}, map[string]*string{
		"A": nil, "B": &over, "C": &empty, "openai_identity_token_file": &over, "NODE_REPL_AUTH_TOKEN=x": &over, "missing": nil,
	})
	want := []string{"API_KEY=k", "B=over", "C=", "CODEX_TOOL_CALL_ID=kept"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
