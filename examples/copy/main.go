// Copy copies a file to an executor and back.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/examples/internal/executor"
)

func main() {
	name := os.Args[0] // this program
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := run(context.Background(), name); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name string) error {
	url, stop, err := executor.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	c, err := client.Dial(ctx, url, client.Options{Name: "example"})
	if err != nil {
		return err
	}
	defer c.Close()
	there := files.Of(c)

	local, err := os.Open(name)
	if err != nil {
		return err
	}
	defer local.Close()
	info, err := local.Stat()
	if err != nil {
		return err
	}
	remote := fmt.Sprintf("/tmp/tether-example-%d", os.Getpid())
	// The file appears when it is complete, or not at all.
	err = there.Upload(ctx, remote, local, info.Size(), files.UploadOptions{
		Progress: func(done, total int64) { fmt.Printf("\rsent %d of %d bytes", done, total) },
	})
	fmt.Println()
	if err != nil {
		return err
	}
	defer there.Remove(ctx, remote)

	back, err := os.CreateTemp("", "tether-example-")
	if err != nil {
		return err
	}
	defer os.Remove(back.Name())
	err = there.Download(ctx, remote, back, files.DownloadOptions{
		Progress: func(done, total int64) { fmt.Printf("\rreceived %d of %d bytes", done, total) },
	})
	fmt.Println()
	return errors.Join(err, back.Close())
}
