// Run runs a command on an executor, shows its output and ends with its exit code.
package main

import (
	"context"
	"log"
	"os"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/examples/internal/executor"
)

func main() {
	argv := os.Args[1:]
	if len(argv) == 0 {
		argv = []string{"sh", "-c", "echo this is $(uname -s); echo and this is an error >&2"}
	}
	code, err := run(context.Background(), argv)
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

func run(ctx context.Context, argv []string) (code int, err error) {
	url, stop, err := executor.Start(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()

	c, err := client.Dial(ctx, url, client.Options{Name: "example"})
	if err != nil {
		return 0, err
	}
	defer c.End(ctx)

	p, err := c.Start(ctx, client.Command{Argv: argv})
	if err != nil {
		return 0, err
	}
	exit, err := p.CopyOutput(ctx, os.Stdout, os.Stderr)
	return exit.Code, err
}
