// Agent is an agent: a model chooses commands, the executor runs them, and the model sees what they print.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/examples/internal/executor"
)

// A step is a command that has run.
type step struct {
	command, output string
	code            int
}

// model chooses the next command; "": the task is done. This one follows a script. A real agent asks its language model here.
func model(history []step) string {
	if len(history) == 0 {
		return "mktemp -d"
	}
	directory := strings.TrimSpace(history[0].output)
	switch last := history[len(history)-1]; {
	case len(history) == 1:
		return "cd " + directory + " && echo 'echo 1 failed; exit 1' > test.sh && sh test.sh"
	case last.code != 0: // it mends the test
		return "cd " + directory + " && echo 'echo all passed' > test.sh && sh test.sh"
	case len(history) == 3:
		return "rm -r " + directory
	}
	return ""
}

func main() {
	ctx := context.Background()
	url, stop, err := executor.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	if err := run(ctx, url); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context, url string) error {
	c, err := client.Dial(ctx, url, client.Options{Name: "example"})
	if err != nil {
		return err
	}
	defer c.End(ctx)
	var history []step
	for command := model(history); command != ""; command = model(history) {
		fmt.Println("$", command)
		p, err := c.Start(ctx, client.Command{Argv: []string{"/bin/sh", "-c", command}})
		if err != nil {
			return err
		}
		var output bytes.Buffer
		show := io.MultiWriter(os.Stdout, &output)
		exit, err := p.CopyOutput(ctx, show, show)
		if err != nil {
			return err
		}
		fmt.Println("exit code", exit.Code)
		history = append(history, step{command, output.String(), exit.Code})
	}
	return nil
}
