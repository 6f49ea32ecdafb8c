// Package deploy copies tether to a machine that is reached by ssh, into a directory of the user there.
//
// Where a change belongs: deploy.sh does the work on the machine, deploy.go talks with it, and program.go finds the program for the
// platform of the machine. Package internal/sshhost says where programs are, for the clients that use them.
package deploy

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/sshhost"
	"github.com/tetherexec/tether/internal/terminal"
)

//go:embed deploy.sh
var remoteScript string

const (
	// mark begins each line of the script. Other lines are those of the start-up files of the shell.
	mark = "tether-deploy: "
	// maxLine and maxForeign bound a line of the script, and the other text before its end.
	maxLine    = 4 << 10
	maxForeign = 64 << 10
	// maxSaid is how much of the end of the standard error of ssh is kept for the error.
	maxSaid = 2 << 10
	// maxFailures is how many connections in a row may end without a further byte of the program having arrived.
	maxFailures = 5
	// firstPause is the pause before the second of them; each next one is twice as long.
	firstPause = 100 * time.Millisecond
	// answerPatience is how long the script may take for a line: it computes a checksum at most.
	answerPatience = time.Minute
	// endPatience is how long ssh may take to end after it was told to.
	endPatience = 2 * time.Second
)

// A Deployment is one program for one machine.
type Deployment struct {
	SSH     []string // ssh, its options, and the host; the command for the login shell is added
	Host    string   // for messages
	Version string   // of this client
	Own     string   // the program for the platform of this machine; those for others are beside it
	File    string   // the program to copy instead; may be ""
	Say     func(text string)

	mark progress
}

// A progress is how far the present and the last transfer have come.
type progress struct {
	had     int64  // bytes that the machine had when the transfer began
	began   bool   // the machine waits for the rest
	lastHad int64  // of the last transfer
	failed  error  // the machine has said why it cannot go on
	told    string // the directory that the user was told last
}

// errCut means that the connection has ended before the program was there.
var errCut = errors.New("the connection was lost")

// Run copies the program, unless the machine has it, and returns its path there. copied says whether it was copied. If the connection is
// lost, Run connects again and continues.
func (d *Deployment) Run(ctx context.Context) (path string, copied bool, err error) {
	pause := firstPause
	for failures := 0; ; {
		path, copied, err = d.attempt(ctx)
		if !errors.Is(err, errCut) || ctx.Err() != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return path, copied, err
		}
		if failures++; d.mark.began && d.mark.had > d.mark.lastHad {
			failures, pause = 1, firstPause
		}
		if failures == maxFailures || !d.mark.began && failures == 1 {
			return "", false, err
		}
		d.Say("the connection to " + d.Host + " was lost while tether was copied; connecting again")
		d.mark.lastHad = max(d.mark.lastHad, d.mark.had)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", false, context.Cause(ctx)
		}
		pause *= 2
	}
}

// script is what the sh of the machine executes.
func (d *Deployment) script() string {
	return "v=" + sshhost.Dir(d.Version) + "\nu=$(id -u)\n" + sshhost.Safe + "\n" +
		`cache="` + sshhost.Cache + `"; runtime="` + sshhost.Runtime + `"; shared="` + sshhost.Shared + `"` + "\n" + remoteScript
}

// attempt makes one connection.
func (d *Deployment) attempt(ctx context.Context) (path string, copied bool, err error) {
	script := d.script()
	// The login shell gets a short command without characters that mean something to it, and sh reads the script from its standard input.
	login := sshhost.Command(fmt.Sprintf(`eval "$(dd bs=1 count=%d 2>/dev/null)"`, len(script)))
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	cmd := exec.CommandContext(ctx, d.SSH[0], append(d.SSH[1:len(d.SSH):len(d.SSH)], login)...)
	cmd.WaitDelay = endPatience
	said := &tail{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", false, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", false, err
	}
	if err := cmd.Start(); err != nil {
		return "", false, fmt.Errorf("start %s: %w", d.SSH[0], err)
	}
	c := &conversation{Deployment: d, in: in, out: bufio.NewReaderSize(out, maxLine), hangUp: hangUp}
	err = c.run(script)
	in.Close()
	if c.mark.failed != nil { // the rest of its output says nothing
		err = c.mark.failed
	}
	late := time.AfterFunc(answerPatience, hangUp) // if the machine ignores the end of its input
	defer late.Stop()
	io.Copy(io.Discard, io.LimitReader(out, maxForeign))
	if ended := cmd.Wait(); ended != nil && errors.Is(err, errCut) {
		err = fmt.Errorf("%w: `%s` has ended (%w)%s", errCut, d.SSH[0], ended, said.text())
	}
	if err != nil {
		return "", false, fmt.Errorf("copy tether to %s: %w", d.Host, err)
	}
	return c.dir + "/tether", c.copied, nil
}

// A conversation is one run of the script.
type conversation struct {
	*Deployment
	in     io.WriteCloser
	out    *bufio.Reader
	hangUp func() // ends ssh

	program *program
	target  platform
	dir     string
	copied  bool
}

// run sends the script and answers its questions until it has ended.
func (c *conversation) run(script string) error {
	c.mark.began, c.mark.failed = false, nil
	defer func() {
		if c.program != nil {
			c.program.Close()
		}
	}()
	if err := c.send(script); err != nil {
		return err
	}
	for {
		word, rest, err := c.next()
		if err != nil {
			return err
		}
		switch word {
		case "platform":
			err = c.choose(rest)
		case "dir":
			c.dir = rest
			if c.mark.told != rest {
				c.Say(fmt.Sprintf("copying tether %s for %s (%s) to %s, as %s/tether", c.Version, c.target, terminal.Bytes(uint64(c.program.size)), c.Host, rest))
			}
			c.mark.told = rest
			err = c.send("go\n")
		case "unusable":
			c.Say(c.Host + ": " + c.dir + " cannot be used: " + rest)
		case "present":
			c.dir = rest
		case "have":
			err = c.transfer(rest)
		case "copied":
			c.copied = true
		case "removing":
			c.Say(c.Host + ": removing " + rest + ", which no process executes")
		case "failed":
			c.mark.failed = errors.New(rest)
			return nil
		case "done":
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// next reads the next line of the script.
func (c *conversation) next() (word, rest string, err error) {
	late := time.AfterFunc(answerPatience, c.hangUp)
	defer late.Stop()
	for foreign := 0; ; {
		line, err := c.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", "", errCut
		}
		if text, ours := strings.CutPrefix(string(line), mark); ours && err == nil {
			word, rest, _ = strings.Cut(terminal.Printable(strings.ToValidUTF8(strings.TrimSuffix(text, "\n"), "?")), " ")
			return word, rest, nil
		}
		if foreign += len(line); foreign > maxForeign {
			return "", "", fmt.Errorf("the machine prints more than %d bytes that do not come from tether", maxForeign)
		}
	}
}

func (c *conversation) send(text string) error {
	if _, err := io.WriteString(c.in, text); err != nil {
		return errCut
	}
	return nil
}

// choose finds the program for the platform of the machine, and tells the machine its size and its checksum.
func (c *conversation) choose(uname string) (err error) {
	if c.target, err = platformOf(uname); err != nil && c.File == "" {
		return fmt.Errorf("%w; build it and name it with --executor-binary FILE", err)
	}
	if c.program, err = find(c.Deployment, c.target); err != nil {
		return err
	}
	return c.send(fmt.Sprintf("%d %s %s\n", c.program.size, c.program.sum, c.program.sum[:16]))
}

// transfer sends the rest of the program.
func (c *conversation) transfer(had string) error {
	if _, err := fmt.Sscan(had, &c.mark.had); err != nil || c.mark.had < 0 || c.mark.had > c.program.size {
		return fmt.Errorf("the machine says that it has %q bytes of the program", had)
	}
	c.mark.began = true
	if _, err := c.program.Seek(c.mark.had, io.SeekStart); err != nil {
		return err
	}
	// If the machine does not read on, it says why.
	_, _ = io.CopyN(c.in, c.program, c.program.size-c.mark.had)
	c.in.Close()
	return nil
}

// A tail keeps the end of what is written.
type tail struct{ kept []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-maxSaid):]
	return len(b), nil
}

// text is the last line, behind a colon.
func (t *tail) text() string {
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "")), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return ": " + terminal.Printable(last)
	}
	return ""
}
