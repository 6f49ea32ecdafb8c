package scenario

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	for row, want := range map[string]string{
		"no id":    "no id",
		"exit-42":  "exit-42",
		"K10-net":  "K10-net: " + situations()["K10"],
		"CF36 new": "CF36 new: " + situations()["CF36"],
	} {
		if got := Name(row); got != want || strings.HasSuffix(got, ": ") {
			t.Errorf("the row %q is called %q, want %q", row, got, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an id that is not listed was accepted")
		}
	}()
	Name("Z" + "99")
}
