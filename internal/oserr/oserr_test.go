package oserr

import (
	"errors"
	"os"
	"testing"
)

func TestText(t *testing.T) {
	_, missing := os.Open("/nonexistent/file")
	for err, want := range map[error]string{
		missing:                  "No such file or directory (os error 2)",
		errors.New("out of ink"): "out of ink",
	} {
		if got := Text(err); got != want {
			t.Errorf("Text(%v) = %q, want %q", err, got, want)
		}
	}
}
