package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// Input and output pass unchanged through a cable that is cut again and again.
func TestRunThroughCuts(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	data := make([]byte, 24<<20)
	rand.Read(data)
	cmd := b.command("run", "--url", cable.URL(), "--", "cat")
	var out, stderr bytes.Buffer
	connected := make(chan struct{}) // a first connection is not tried again
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), &firstWrite{to: &out, tell: sync.OnceFunc(func() { close(connected) })}, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done, cutting := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cutting)
		select {
		case <-connected:
		case <-done:
			return
		}
		for pause := 100 * time.Millisecond; ; pause += pause / 10 { // on a slow machine, too, it gets on
			select {
			case <-done:
				return
			case <-time.After(pause):
				cable.CutFor(10 * time.Millisecond)
			}
		}
	}()
	err := cmd.Wait()
	close(done)
	<-cutting
	if err != nil || sha256.Sum256(out.Bytes()) != sha256.Sum256(data) || cable.Links() < 2 {
		t.Errorf("%v, %d bytes of %d, %d connections, standard error %q", err, out.Len(), len(data), cable.Links(), stderr.String())
	}
}

// A firstWrite reports the first write.
type firstWrite struct {
	to   io.Writer
	tell func()
}

func (w *firstWrite) Write(b []byte) (int, error) {
	w.tell()
	return w.to.Write(b)
}

// If standard error is a file, the beginning and the end of a longer outage are a line each; --quiet
// leaves them out.
func TestOutageIsReportedInLines(t *testing.T) {
	t.Parallel()
	for _, quiet := range []bool{false, true} {
		b := newTestEnv(t)
		cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
		args := []string{"run", "--url", cable.URL(), "--", "cat"}
		if quiet {
			args = append(args[:1:1], append([]string{"-q"}, args[1:]...)...)
		}
		cmd := b.command(args...)
		var stderr sharedBuffer
		cmd.Stderr = &stderr
		in, out := piped(t, cmd)
		echo := func(text string) {
			io.WriteString(in, text)
			got := make([]byte, len(text))
			if _, err := io.ReadFull(out, got); err != nil || string(got) != text {
				t.Fatalf("%q, %v", got, err)
			}
		}
		echo("one")
		lost := regexp.MustCompile(`^tether: connection lost, reconnecting(: [^\n]+)?\n`)
		if quiet {
			cable.CutFor(time.Second) // longer than a connection may be lost without a word
		} else {
			cable.Cut()
			tethertest.Eventually(t, func() error {
				if !lost.MatchString(stderr.String()) {
					return fmt.Errorf("standard error %q", stderr.String())
				}
				return nil
			})
			cable.Mend()
		}
		echo("two")
		in.Close()
		if cmd.Wait(); !quiet && !strings.HasPrefix(lost.ReplaceAllString(stderr.String(), ""), "tether: connected again after ") || quiet && stderr.String() != "" {
			t.Errorf("quiet %t: %v, %q", quiet, cmd.ProcessState, stderr.String())
		}
	}
}

// On a terminal the status is a line below the output, and removed when output continues.
func TestOutageOnATerminal(t *testing.T) {
	t.Parallel()
	b, s := newTestEnv(t), newTestTerminal(t)
	t.Cleanup(s.leave)
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	cmd := b.start(s, "run", "-te", "PS1", "-e", "ENV", "--url", cable.URL(), "--", "sh", "-i")
	s.until("$ ")
	cable.Cut()
	const makeRoom, save, below, restore = "\x1bD\x1b[A", "\x1b7", "\x1b[B\r\x1b[2K", "\x1b8"
	if drawn := s.until("lost, reconnecting ("); !strings.HasSuffix(drawn, makeRoom+save+below+"tether: connection ") {
		t.Errorf("drawn %q", drawn)
	}
	s.until("s): ") // and why
	s.typing("echo o''k\r")
	cable.Mend()
	if drawn := s.until("ok\r\n"); !strings.Contains(drawn, restore+save+below+restore) {
		t.Errorf("drawn until the output: %q", drawn)
	}
	s.typing("exit\r")
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

func TestSessionLost(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	cmd := b.command("run", "--keep", "1s", "--url", cable.URL(), "--", "sh", "-c", "echo here; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, len("here\n")))
	cable.Cut()
	cmd.Wait()
	lost := regexp.MustCompile("\ntether: the connection was lost(: connection reset by peer)?; the session could not be resumed: the server did not come back within 833ms; last attempt: ")
	if cmd.ProcessState.ExitCode() != exitLost || !lost.MatchString(stderr.String()) { // a reset, if the client was just sending
		t.Errorf("%v, %q", cmd.ProcessState, stderr.String())
	}
}

// A second Ctrl-C while the connection is lost ends tether.
func TestSecondInterruptWhileConnectionIsLost(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	cmd := b.command("run", "--url", cable.URL(), "--", "sh", "-c", "echo here; exec sleep 1000")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s := &testTerminal{t: t, read: make(chan []byte)}
	go func() { // ends with the program
		defer close(s.read)
		for {
			buf := make([]byte, 4096)
			n, err := r.Read(buf)
			if err != nil {
				return
			}
			s.read <- buf[:n]
		}
	}()
	s.until("here\n")
	cable.Cut()
	s.until("reconnecting")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	deadline := time.Now().Add(patience)
	for waiting := true; waiting; { // tether may get several of these signals as one
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
			waiting = false
		case <-time.After(50 * time.Millisecond):
			if time.Now().After(deadline) {
				t.Fatal("tether does not end")
			}
		}
	}
	s.until("tether: the server cannot be reached; the command may run on until the server ends this session\n")
	for range s.read {
	}
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}
