package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Packages that only tether-mcp or only tether-fleet may have: Go initializes each package of a program at each start, and tether should be small.
func TestDependencies(t *testing.T) {
	t.Parallel()
	list := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"list", "-deps"}, args...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return "\n" + string(out)
	}
	tether, inMCP, inFleet := list("-tags", "split", "."), list("-tags", "mcp", "."), list("-tags", "fleet", ".")
	if strings.Contains(tether, "\ndebug/") {
		t.Error("tether needs a package of debug/, which is large and has tables to initialize")
	}
	const ours = "github.com/tetherexec/tether/"
	for _, name := range []string{
		"encoding/gob", "github.com/google/jsonschema-go/", "github.com/modelcontextprotocol/", "golang.org/x/oauth2",
		ours + "client/files\n", ours + "client/mcprelay\n", ours + "internal/cable\n", ours + "internal/cast\n", ours + "internal/copy\n", ours + "internal/deploy\n", ours + "internal/doctor\n", ours + "internal/otlp\n", ours + "internal/span\n",
		ours + "internal/sandbox/probe\n", ours + "unifiedexec\n",
	} {
		if strings.Contains(tether, "\n"+name) {
			t.Errorf("tether needs %s, which only tether-mcp should have", name)
		}
		if !strings.Contains(inMCP, "\n"+name) {
			t.Errorf("tether-mcp no longer needs %s: remove it from the list", name)
		}
	}
	untagged := list(".")
	for _, name := range []string{"github.com/nats-io/nats.go\n", "github.com/nats-io/nats-server/v2/server\n", "github.com/nats-io/", ours + "internal/fleet", "github.com/coreos/go-oidc/", "github.com/go-jose/", ours + "internal/oidc\n"} {
		for program, has := range map[string]string{"tether": tether, "tether-mcp": inMCP, "tether without a tag": untagged} {
			if strings.Contains(has, "\n"+name) {
				t.Errorf("%s needs %s, which only tether-fleet should have", program, name)
			}
		}
		if !strings.Contains(inFleet, "\n"+name) {
			t.Errorf("tether-fleet does not need %s", name)
		}
	}
}
