//go:build interop

package interop_test

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	execserver "github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// An upload of two gigabytes (in make test: 64 MiB) over a connection that is cut ten times arrives complete, and the server needs no
// more memory for it than for two megabytes.
func TestUploadOfTwoGigabytes(t *testing.T) {
	program(t, tether)
	size := tethertest.Scaled[int64](64<<20, 2<<30)
	s := tethertest.StartServer(t, execserver.Config{})
	dir, err := os.MkdirTemp(suite.dir, "upload-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	target := filepath.Join(dir, "target")
	var before, after runtime.MemStats // of client and server, and of all tests before
	runtime.ReadMemStats(&before)
	want := tethertest.Upload(t, s.URL, target, 7, size, 4<<20, 10)
	f, err := os.Open(target)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, f); err != nil || n != size || [sha256.Size]byte(sum.Sum(nil)) != want {
		t.Errorf("%d bytes arrived, and they differ: %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.Sys) - int64(before.Sys); grown > 1<<30 {
		t.Errorf("client and server have allocated %d MiB more", grown>>20)
	}
}
