package shellword

import (
	"os/exec"
	"strings"
	"testing"
)

func TestJoinQuotesOnlyWhereNeeded(t *testing.T) {
	if got, want := Join([]string{"run", "--url=ws://a:1/", "it's", "", "a b"}), `run --url=ws://a:1/ 'it'\''s' '' 'a b'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestShellReadsWordsAsTheyAre(t *testing.T) {
	words := []string{"plain", "", "it's", "$HOME `id` \\", "*", "a\nb", "~", "ü", "#x", "!"}
	out, err := exec.Command("sh", "-c", `printf '%s|' `+Join(words)).Output()
	if want := strings.Join(words, "|") + "|"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}
