//go:build linux

package main

import (
	"bytes"
	"errors"
	"os/exec"
	"sync"
	"time"
)

// plainStarts is the machine's limit for starts: no server, no socket, only
// /bin/true with both outputs on pipes that are read to the end.
func plainStarts(work *workshop, r recorder) error {
	for range work.amount(100) {
		began := time.Now()
		if err := plainTrue(); err != nil {
			return err
		}
		took := time.Since(began)
		r.took("start", took, time.Millisecond)
		r.took("startq", took, time.Millisecond)
	}
	each := max(1, work.amount(320)/inFlight)
	errs := make([]error, inFlight)
	var workers sync.WaitGroup
	began := time.Now()
	for i := range inFlight {
		workers.Go(func() {
			for range each {
				errs[i] = errors.Join(errs[i], plainTrue())
			}
		})
	}
	workers.Wait()
	r.add("startrate", float64(inFlight*each)/time.Since(began).Seconds())
	return errors.Join(errs...)
}

func plainTrue() error {
	var stdout, stderr bytes.Buffer // two of them, or they would share a pipe
	cmd := exec.Command("/bin/true")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return cmd.Run()
}
