package console

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/tetherexec/tether/internal/console/web"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Every build has a page, if only the one that says how to get the other.
func TestEmbeddedFiles(t *testing.T) {
	files, err := web.Files()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAssets(files); err != nil {
		t.Error(err)
	}
	if _, err := readAssets(map[string][]byte{placeholder: files[placeholder]}); err != nil {
		t.Errorf("the placeholder: %v", err)
	}
	if _, err := readAssets(map[string][]byte{"app.js": nil}); err == nil {
		t.Error("a page without an index is taken")
	}
	if _, err := readAssets(map[string][]byte{index: make([]byte, maxPage+1)}); err == nil {
		t.Error("a page of any size is taken")
	}
}
