// Package workload has commands whose output, input and exit codes are known to the byte. Tests run them while they disturb the
// server, and learn of everything that was lost, or has happened twice.
package workload

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// A Runner runs commands.
type Runner struct {
	Dir     string        // for the files in which commands count their starts
	Marker  string        // NAME=VALUE in the environment of each command
	Sandbox *wire.Sandbox // nil: no command is sandboxed
	Steps   atomic.Int64  // grows whenever a command gets something done
}

// A Kind is a kind of commands. Two commands of a kind differ in their lengths.
type Kind struct {
	Name string
	task func(*Runner) task
}

// A task is a command, and what it has to do.
type task struct {
	script         string // of a shell
	command        client.Command
	input          []byte
	stdout, stderr []byte // what it prints; on a terminal, lines end as in a file
	code           int
	ready          string // its first line; input, or the termination, comes behind that
	terminate      bool   // it is terminated, and its code is at least 128
	unread         bool   // its output is not read before it was written
}

// Kinds are all kinds of commands.
var Kinds = []Kind{
	{"pipes", func(*Runner) task { return printing() }},
	{"terminal", func(*Runner) task {
		lines, text := numberedText(200_000)
		return task{script: printer(lines), command: client.Command{TTY: true}, stdout: text}
	}},
	{"input", func(*Runner) task {
		_, text := numberedText(300_000)
		return task{script: "cat", command: client.Command{Stdin: true}, input: text, stdout: text}
	}},
	{"input of a terminal", func(*Runner) task {
		_, text := numberedText(30_000)
		return task{
			script: fmt.Sprintf("stty raw -echo; echo ready; head -c %d", len(text)), ready: "ready\n",
			command: client.Command{TTY: true}, input: text, stdout: text,
		}
	}},
	{"sandbox", func(r *Runner) task {
		p := printing()
		p.command.Sandbox, p.command.Dir = r.Sandbox, r.Dir
		return p
	}},
	{"spool", func(*Runner) task {
		lines, text := numberedText(longestText)
		return task{script: fmt.Sprintf("seq %d; : >$COUNT.written", lines), stdout: text, unread: true}
	}},
	{"output after the exit", func(*Runner) task {
		lines, text := numberedText(100_000)
		return task{script: fmt.Sprintf("(sleep 0.1; seq %d) &", lines), stdout: text}
	}},
	{"termination", func(*Runner) task {
		return task{script: "sleep 1000 & echo ready; sleep 1000", ready: "ready\n", terminate: true}
	}},
}

// longestText is the longest output or input of a task.
const longestText = 4 << 20

// allLines are numbered lines, with at least longestText bytes. Each task has the first part of them.
var allLines = sync.OnceValue(func() (text []byte) {
	for n := int64(1); len(text) < longestText; n++ {
		text = append(strconv.AppendInt(text, n, 10), '\n')
	}
	return text
})

// numberedText returns a random number of lines, with about the given size at most, and their text.
func numberedText(most int) (lines int, text []byte) {
	all := allLines()
	size := rand.IntN(1 + rand.IntN(most))
	text = all[:size+1+bytes.IndexByte(all[size:], '\n')]
	last := text[bytes.LastIndexByte(text[:len(text)-1], '\n')+1 : len(text)-1]
	lines, _ = strconv.Atoi(string(last))
	return lines, text
}

// printer is a script that prints numbered lines, in writes of 1 byte to 64 KiB.
func printer(lines int) string {
	size := 1 << rand.IntN(17)
	if lines > 10_000 {
		size = max(size, 1<<10) // a million tiny writes take too long
	}
	return fmt.Sprintf("seq %d | dd ibs=64k iflag=fullblock obs=%d status=none", lines, size)
}

// printing prints on both streams at the same time.
func printing() task {
	n, out := numberedText(400_000)
	m, errs := numberedText(100_000)
	return task{script: printer(m) + " >&2 & " + printer(n) + "; wait", stdout: out, stderr: errs, code: rand.IntN(100)}
}

// Run runs a command, and checks all that it does. name is its id, and that of a file: no other command of the Runner may have it.
func (r *Runner) Run(ctx context.Context, c *client.Client, name string, kind Kind) error {
	t := kind.task(r)
	count := filepath.Join(r.Dir, name)
	cmd := t.command
	key, value, _ := strings.Cut(r.Marker, "=")
	cmd.ID, cmd.Env = name, map[string]string{key: value, "COUNT": count}
	cmd.Argv = []string{"sh", "-c", fmt.Sprintf("echo once in $$ >>$COUNT\n%s\nexit %d", t.script, t.code)}
	p, err := c.Start(ctx, cmd)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	r.Steps.Add(1)
	out := &collector{steps: &r.Steps, terminal: cmd.TTY, first: len(t.ready), ready: make(chan struct{}), want: [2][]byte{[]byte(t.ready), t.stdout}}
	errs := &collector{steps: &r.Steps, want: [2][]byte{t.stderr}}
	if t.unread {
		out.open = make(chan struct{})
	}
	var feeding sync.WaitGroup
	var fed error
	feeding.Go(func() {
		if fed = r.feed(ctx, p, t, out.ready, count); fed != nil {
			ran, _ := os.ReadFile(count)
			fed = fmt.Errorf("input: %w; it has run %q", fed, ran)
		}
		if out.open != nil {
			close(out.open)
		}
		if fed != nil {
			p.Abandon()
		}
	})
	exit, err := p.CopyOutput(ctx, out, errs)
	feeding.Wait()
	switch {
	case fed != nil:
		return fed
	case err != nil:
		return fmt.Errorf("output: %w", err)
	case t.terminate && exit.Code < 128, !t.terminate && exit.Code != t.code:
		ran, _ := os.ReadFile(count)
		return fmt.Errorf("exit code %d instead of %d; it has run %q", exit.Code, t.code, ran)
	}
	for name, c := range map[string]*collector{"stdout": out, "stderr": errs} {
		if want := len(c.want[0]) + len(c.want[1]); c.got != want || c.wrong {
			return fmt.Errorf("%d bytes on %s instead of %d, %d of them equal", c.got, name, want, c.equal)
		}
	}
	return checkCount(count)
}

// checkCount checks that a command has run once.
func checkCount(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte("\n")); n != 1 {
		return fmt.Errorf("it has run %d times: %q", n, text)
	}
	os.Remove(name + ".written")
	return os.Remove(name)
}

// feed does to a process what its task says, while its output is read.
func (r *Runner) feed(ctx context.Context, p *client.Process, t task, ready <-chan struct{}, count string) error {
	if t.ready != "" {
		select {
		case <-ready:
		case <-p.Done():
			exit, err := p.Wait(ctx)
			return fmt.Errorf("it has ended before it was ready: %+v, %w", exit, err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for rest := t.input; len(rest) > 0; {
		n := min(len(rest), 1<<rand.IntN(17))
		if err := p.Write(ctx, rest[:n]); err != nil {
			return fmt.Errorf("%d bytes were written: %w", len(t.input)-len(rest), err)
		}
		rest = rest[n:]
		r.Steps.Add(1)
	}
	switch {
	case t.terminate:
		_, err := p.Terminate(ctx)
		return err
	case t.command.Stdin:
		return p.CloseStdin(ctx)
	}
	for t.unread && ctx.Err() == nil { // until the command has written all, which nothing reads
		if _, err := os.Stat(count + ".written"); err == nil {
			break
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.Done():
			return nil
		}
	}
	return nil
}

// A collector compares output with what it should be. It may block its reader for a time.
type collector struct {
	steps    *atomic.Int64
	terminal bool      // its lines end with two characters
	want     [2][]byte // two parts, without the character that a terminal adds
	got      int       // bytes so far, without that character
	equal    int       // of them, up to the first that is wrong
	wrong    bool
	first    int           // how long the first line is; 0: it does not matter
	ready    chan struct{} // closed when the first line has come
	once     sync.Once
	open     chan struct{} // nothing is taken before it is closed; nil: all is taken at once
}

// Write implements io.Writer.
func (c *collector) Write(p []byte) (int, error) {
	if c.open != nil {
		<-c.open
	}
	c.steps.Add(1)
	n := len(p)
	if c.terminal {
		p = bytes.ReplaceAll(p, []byte("\r"), nil)
	}
	c.compare(p)
	if c.first > 0 && c.got >= c.first {
		c.once.Do(func() { close(c.ready) })
	}
	return n, nil
}

// compare compares the next part.
func (c *collector) compare(p []byte) {
	for len(p) > 0 {
		rest := c.want[1]
		if at := c.got - len(c.want[0]); at < 0 {
			rest = c.want[0][c.got:]
		} else {
			rest = rest[min(at, len(rest)):]
		}
		n := min(len(p), len(rest))
		if n == 0 { // there is more than there should be
			c.got, c.wrong = c.got+len(p), true
			return
		}
		if !c.wrong && !bytes.Equal(p[:n], rest[:n]) {
			c.wrong = true
			for i := 0; p[i] == rest[i]; i++ {
				c.equal++
			}
		}
		if !c.wrong {
			c.equal += n
		}
		c.got, p = c.got+n, p[n:]
	}
}
