package docs

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/soak"
)

// maxPicture is the largest size of a picture: clones have all of them.
const maxPicture = 100 << 10

// Each picture is shown by a page, and small.
func TestPictures(t *testing.T) {
	t.Parallel()
	pictures, err := filepath.Glob("console/*")
	if err != nil || len(pictures) == 0 {
		t.Fatalf("pictures: %v, %v", pictures, err)
	}
	shown := links(t, "console.md")
	for _, picture := range pictures {
		info, err := os.Stat(picture)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxPicture {
			t.Errorf("%s has %d bytes, more than %d", picture, info.Size(), maxPicture)
		}
		if !slices.Contains(shown, filepath.ToSlash(picture)) {
			t.Errorf("no page shows %s", picture)
		}
	}
}

// maxDemo is the largest size of the moving picture, which each reader of the README loads.
const maxDemo = 200 << 10

// The README shows the moving picture, and that is well-formed.
func TestDemo(t *testing.T) {
	t.Parallel()
	if !slices.Contains(links(t, "../README.md"), "docs/demo.svg") {
		t.Error("README.md does not show docs/demo.svg")
	}
	checkDemo(t, "demo.svg")
}

// `make demo` makes such a picture from a run of the real programs.
func TestDemoIsMade(t *testing.T) {
	t.Parallel()
	if !soak.Full() {
		t.Skip("only in make soak: it builds and runs tests of other packages, and needs bin/tether")
	}
	picture := filepath.Join(t.TempDir(), "demo.svg")
	if text, err := exec.CommandContext(t.Context(), "../scripts/demo", picture).CombinedOutput(); err != nil {
		t.Fatalf("scripts/demo: %v\n%s", err, text)
	}
	checkDemo(t, picture)
}

// checkDemo reports a picture that is malformed, too large, or loads or runs something, which GitHub would not do.
func checkDemo(t *testing.T, name string) {
	t.Helper()
	picture := read(t, name)
	if len(picture) > maxDemo {
		t.Errorf("%s has %d bytes, more than %d", name, len(picture), maxDemo)
	}
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e, ok := token.(xml.StartElement); ok && !slices.Contains([]string{"svg", "title", "style", "g", "rect", "path", "circle", "clipPath", "text"}, e.Name.Local) {
			t.Errorf("%s has an element %s", name, e.Name.Local)
		}
	}
	if link := regexp.MustCompile(`href|@import|url\([^#]`).FindString(picture); link != "" {
		t.Errorf("%s refers to something outside: %s", name, link)
	}
	for _, want := range []string{"the cable is pulled out", " lines are here, each once", "@keyframes", "prefers-color-scheme:dark", "prefers-reduced-motion:reduce"} {
		if !strings.Contains(picture, want) {
			t.Errorf("%s does not have %q", name, want)
		}
	}
}
