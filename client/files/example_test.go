package files_test

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/tethertest"
)

func ExampleFiles_Upload() {
	url, stop := tethertest.ExampleServer()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	dir, err := os.MkdirTemp("", "tether-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	remote := files.Of(c)
	name := filepath.Join(dir, "greeting")
	const text = "hello\n"
	if err := remote.Upload(ctx, name, strings.NewReader(text), int64(len(text)), files.UploadOptions{Mode: 0o600}); err != nil {
		log.Fatal(err)
	}
	if err := remote.Download(ctx, name, os.Stdout, files.DownloadOptions{}); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}
