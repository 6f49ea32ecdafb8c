package client_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
)

// exampleServer starts a server for an example.
func exampleServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "tether-example-")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cfg := server.Config{StateDir: dir}
	s, err := server.New(cfg)
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

func ExampleDial() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo hello; exit 3"}, Dir: "/"})
	if err != nil {
		log.Fatal(err)
	}
	exit, err := p.CopyOutput(ctx, os.Stdout, os.Stderr)
	fmt.Println(exit.Code, err)
	// Output:
	// hello
	// 3 <nil>
}

// Wait returns when the goroutine has printed everything.
func ExampleProcess_Wait() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", "echo hello; exit 3"}, Dir: "/"})
	if err != nil {
		log.Fatal(err)
	}
	go io.Copy(os.Stdout, p.Output())
	exit, err := p.Wait(ctx)
	fmt.Println(exit.Code, err)
	// Output:
	// hello
	// 3 <nil>
}

func ExampleProcess_Stdin() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	c, err := client.Dial(ctx, url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(ctx, client.Command{Argv: []string{"sort"}, Dir: "/", Stdin: true})
	if err != nil {
		log.Fatal(err)
	}
	in := p.Stdin()
	fmt.Fprintln(in, "pear")
	fmt.Fprintln(in, "apple")
	if err := in.Close(); err != nil {
		log.Fatal(err)
	}
	io.Copy(os.Stdout, p.Output())
	// Output:
	// apple
	// pear
}

func ExampleFiles_Upload() {
	url, stop := exampleServer()
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

	files := c.Files(nil)
	name := filepath.Join(dir, "greeting")
	const text = "hello\n"
	if err := files.Upload(ctx, name, strings.NewReader(text), int64(len(text)), client.UploadOptions{Mode: 0o600}); err != nil {
		log.Fatal(err)
	}
	if err := files.Download(ctx, name, os.Stdout, client.DownloadOptions{}); err != nil {
		log.Fatal(err)
	}
	// Output: hello
}

func ExampleClient_Transport() {
	url, stop := exampleServer()
	defer stop()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "you want", r.URL.Path)
	}))
	defer site.Close()

	c, err := client.Dial(context.Background(), url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	web := http.Client{Transport: c.Transport()}
	resp, err := web.Get(site.URL + "/page")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	io.Copy(os.Stdout, resp.Body)
	// Output: you want /page
}

func ExampleLazy() {
	url, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	executor := client.NewLazy(url, client.Options{})
	defer executor.Close()
	fmt.Println(executor.Status())
	c, err := executor.Get(ctx) // connects
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Ping(ctx))
	fmt.Println(executor.Status())
	// Output:
	// pending <nil>
	// <nil>
	// ready <nil>
}
