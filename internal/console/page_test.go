package console

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
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

// A slowReader notes the most that a handler has in memory for it at a time.
type slowReader struct {
	*httptest.ResponseRecorder
	most int
}

func (w *slowReader) Write(b []byte) (int, error) {
	w.most = max(w.most, len(b))
	return w.ResponseRecorder.Write(b)
}

// A client that is not logged in cannot make the server hold whole files that it has decompressed.
func TestFilesAreDecompressedInParts(t *testing.T) {
	text := strings.Repeat("tether ", 1<<20)
	p := page{files: func() (map[string][]byte, error) { return map[string][]byte{index + ".gz": gzipped(t, text)}, nil }}
	w := &slowReader{ResponseRecorder: httptest.NewRecorder()}
	p.serve(w, httptest.NewRequest(http.MethodGet, Path, nil), "")
	if w.Body.String() != text || w.most > 64<<10 {
		t.Errorf("%d bytes of %d, at most %d at a time", w.Body.Len(), len(text), w.most)
	}
}
