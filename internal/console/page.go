package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	index       = "index.html"
	placeholder = "placeholder.html" // is shown if there is no index

	// maxPage limits the files of a page together.
	maxPage = 8 << 20

	// pageTime is how long an answer with a file may take, also if another program has to be started for the files.
	pageTime = 30 * time.Second
)

// policy allows a page its own files and its own server, and nothing else. There is no code and no style in the page's HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// secure adds the headers that all answers of the console have.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache") // ask each time: the answer is 304 if nothing has changed
}

// types are the content types of the files that a page can have.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".json": "application/json",
	".txt": "text/plain; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png", ".woff2": "font/woff2",
}

// A page is the files of the console.
type page struct {
	files func() (map[string][]byte, error)

	mu     sync.Mutex
	loaded map[string]*asset // nil: not yet
}

// An asset is one file of a page.
type asset struct {
	kind    string // its content type
	etag    string // weak: the content has two encodings
	content []byte
	gzipped bool // content is compressed
}

// load returns the files.
func (p *page) load() (map[string]*asset, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded != nil {
		return p.loaded, nil
	}
	if p.files == nil {
		return nil, errors.New("this server has no page")
	}
	files, err := p.files()
	if err != nil {
		return nil, err
	}
	p.loaded, err = readAssets(files)
	return p.loaded, err
}

// readAssets makes the files of a page ready to be sent. Files with other names than those of types are left out.
func readAssets(files map[string][]byte) (map[string]*asset, error) {
	assets := map[string]*asset{}
	total := 0
	for name, content := range files {
		plain, gzipped := strings.CutSuffix(name, ".gz")
		kind, known := types[path.Ext(plain)]
		if !known || !gzipped && files[name+".gz"] != nil {
			continue
		}
		total += len(content)
		sum := sha256.Sum256(content)
		assets[plain] = &asset{kind, `W/"` + hex.EncodeToString(sum[:16]) + `"`, content, gzipped}
	}
	if assets[index] == nil {
		assets[index] = assets[placeholder]
	}
	switch {
	case assets[index] == nil:
		return nil, errors.New("the page has no file " + index)
	case total > maxPage:
		return nil, fmt.Errorf("the files of the page have %d bytes, more than %d", total, maxPage)
	}
	return assets, nil
}

// serve sends a file of the page.
func (p *page) serve(w http.ResponseWriter, r *http.Request, name string) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(pageTime)) // without it, that of the listener counts
	assets, err := p.load()
	if err != nil {
		w.Header().Set("Content-Type", types[".txt"])
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, "The console's page cannot be shown: %v\n", err)
		return
	}
	if name == "" {
		name = index
	}
	a := assets[name]
	if a == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("ETag", a.etag)
	if a.gzipped {
		h.Set("Vary", "Accept-Encoding")
	}
	if slices.ContainsFunc(strings.Split(r.Header.Get("If-None-Match"), ","), func(tag string) bool { return strings.TrimSpace(tag) == a.etag }) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.kind)
	switch {
	case !a.gzipped:
		w.Write(a.content) // an error only concerns the browser
	case acceptsGzip(r):
		h.Set("Content-Encoding", "gzip")
		w.Write(a.content)
	default:
		decompress(w, a.content)
	}
}

// acceptsGzip reports whether a client can read gzip. Every browser says so in this form.
func acceptsGzip(r *http.Request) bool {
	return slices.ContainsFunc(strings.Split(r.Header.Get("Accept-Encoding"), ","), func(coding string) bool { return strings.TrimSpace(coding) == "gzip" })
}

// decompress sends a compressed file as it was before. It holds a small part of the file at a time: any number of clients that are not logged
// in may ask for it and read it slowly.
func decompress(w http.ResponseWriter, content []byte) {
	in, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	if _, err := io.Copy(w, in); err != nil {
		panic(http.ErrAbortHandler) // the client must not take the part that it has for the whole
	}
}
