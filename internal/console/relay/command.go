package relay

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
)

// commandPatience is how long a command may take to end after its input has.
const commandPatience = 2 * time.Second

// Command connects to a server by a command that speaks the protocol on its standard input and output, one message per line. Its standard
// error goes to stderr. skipText skips what it prints before the first message.
func Command(argv []string, skipText bool, stderr io.Writer) func(context.Context) (Messages, error) {
	return func(ctx context.Context) (Messages, error) {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stderr, cmd.WaitDelay = stderr, commandPatience
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("start %s: %w", argv[0], err)
		}
		lines := rpc.NewLines(out, in)
		if skipText {
			lines.SkipForeignText()
		}
		return &commandMessages{Lines: lines, cmd: cmd}, nil
	}
}

// commandMessages are the messages of a command.
type commandMessages struct {
	*rpc.Lines
	cmd  *exec.Cmd
	once sync.Once
}

// Close ends the command.
func (m *commandMessages) Close() error {
	var err error
	m.once.Do(func() {
		late := time.AfterFunc(commandPatience, func() { m.cmd.Process.Kill() })
		defer late.Stop()
		err = m.Lines.Close()
		_ = m.cmd.Wait() // it ends because its input has ended
	})
	return err
}
