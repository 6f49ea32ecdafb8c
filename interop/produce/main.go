// Command produce prints a known pattern at a given rate. Tests run it as the
// command whose output must not get lost.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

func main() {
	seed := flag.Uint64("seed", 1, "which pattern")
	total := flag.Int64("bytes", 0, "how much to print")
	over := flag.Duration("over", 0, "in how much time")
	step := flag.Duration("step", 5*time.Millisecond, "how often something is printed")
	exit := flag.Int("exit", 0, "exit code")
	gate := flag.String("gate", "", "print the last tenth only when this file exists")
	flag.Parse()
	if err := produce(os.Stdout, tethertest.Pattern(*seed, *total), *total, *over, *step, *gate); err != nil {
		fmt.Fprintln(os.Stderr, "produce:", err)
		os.Exit(1)
	}
	os.Exit(*exit)
}

func produce(w io.Writer, r io.Reader, total int64, over, step time.Duration, gate string) error {
	in := bufio.NewReaderSize(r, 64<<10)
	began := time.Now()
	open := gate == ""
	for sent := int64(0); sent < total || time.Since(began) < over; {
		due := total
		if over > 0 {
			due = min(total, int64(float64(total)*float64(time.Since(began))/float64(over)))
		}
		if !open {
			if _, err := os.Stat(gate); err == nil {
				open = true
			} else {
				due = max(sent, min(due, total-total/10))
			}
		}
		n, err := io.CopyN(w, in, due-sent)
		if err != nil {
			return err
		}
		sent += n
		if over > 0 {
			time.Sleep(step)
		}
	}
	return nil
}
