// Pipe sends data through a remote command while the connection is cut again and again,
// and shows that nothing is lost.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/examples/internal/executor"
	"github.com/tetherexec/tether/internal/cable"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	url, stop, err := executor.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()

	// A cable that cuts the connection again and again.
	bad, err := cable.Lay(ctx, cable.Config{Target: url})
	if err != nil {
		return err
	}
	defer bad.Close()

	c, err := client.Dial(ctx, bad.URL(), client.Options{Name: "example"})
	if err != nil {
		return err
	}
	defer c.End(ctx)
	p, err := c.Start(ctx, client.Command{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		return err
	}
	output := p.Output()

	data := make([]byte, 16<<20)
	rand.Read(data)
	wrote := make(chan error, 1)
	go func() {
		in := p.Stdin()
		_, err := io.Copy(in, bytes.NewReader(data))
		wrote <- errors.Join(err, in.Close())
	}()
	cutting, enough := context.WithCancel(ctx)
	cut := make(chan int, 1)
	go func() { cut <- cutAgainAndAgain(cutting, bad) }()

	back, err := io.ReadAll(output)
	enough()
	cuts := <-cut
	if err := errors.Join(err, <-wrote); err != nil {
		return err
	}
	fmt.Printf("%d MiB went there and came back through %d cuts; the same: %t\n", len(back)>>20, cuts, bytes.Equal(data, back))
	return nil
}

func cutAgainAndAgain(ctx context.Context, bad *cable.Cable) (cuts int) {
	for {
		bad.Sever()
		cuts++
		select {
		case <-time.After(40 * time.Millisecond):
		case <-ctx.Done():
			return cuts
		}
	}
}
