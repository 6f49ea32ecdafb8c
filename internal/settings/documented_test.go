package settings

import (
	"os"
	"strings"
	"testing"
)

// docs/cli.md names each key of the configuration file. The keys that are flags are those of docs/flags.md.
func TestKeysAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The configuration file\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for key := range new(Server).fields() {
		if !strings.Contains(section, "`"+key+"`") {
			t.Errorf("the key %s of a server is not documented", key)
		}
	}
	for _, word := range append([]string{"\n" + keyServer + " = ", "[" + keyServers + "."}, Commands...) {
		if !strings.Contains(section, word) {
			t.Errorf("%s is not documented", word)
		}
	}
}
