package server

import (
	"os"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// A request to open a file is forgotten when it has failed or its file is closed.
func TestHandlesForgetClosedAndFailedOpens(t *testing.T) {
	var path wire.PathURI
	if err := wire.Decode([]byte(`"file:///f"`), &path); err != nil {
		t.Fatal(err)
	}
	var h handles
	first, second := &wire.OpenParams{HandleID: "h", Path: path}, &wire.OpenParams{HandleID: "h", Path: path}
	h.expect(first)
	h.expect(second)
	if n := len(h.paths("h", true)); n != 2 {
		t.Errorf("the handle may stand for %d files", n)
	}
	if err := h.reserve(first); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	h.set("h", file)
	if h.reserve(second) == nil {
		t.Error("the handle is open twice")
	}
	h.cancel(second)
	if got := h.paths("h", true); len(got) != 1 || got[0].Path != "/f" || !got[0].Change {
		t.Errorf("the handle stands for %v", got)
	}
	h.close("h")
	if len(h.pendingOpens) != 0 {
		t.Errorf("remembered: %v", h.pendingOpens)
	}
}
