package client_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
)

func ExampleDial() {
	url, stop := tethertest.ExampleServer()
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
	url, stop := tethertest.ExampleServer()
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
	url, stop := tethertest.ExampleServer()
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

func ExampleLazy() {
	url, stop := tethertest.ExampleServer()
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
