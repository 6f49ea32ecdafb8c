package tethertest

import (
	"context"
	"log"
	"os"
	"sync"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
)

// ExampleServer starts a server for an example, which has no testing.TB.
func ExampleServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "tether-example-")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := server.New(server.Config{StateDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	l, err := listen.Open(ctx, listen.Config{})
	if err != nil {
		log.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(ctx, l) })
	return l.URL, func() {
		cancel()
		serving.Wait()
		s.Close()
		os.RemoveAll(dir)
	}
}
