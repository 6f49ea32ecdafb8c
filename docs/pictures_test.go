package docs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
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
