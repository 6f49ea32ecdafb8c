package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/sshhost"
)

// deployCommand, followed by an address and by a file or "", makes a companion copy tether to a machine (docs/ssh.md). If that fails, it prints
// the reason on standard output.
const deployCommand = "copy-to-host"

// deployFlags say whether tether may be copied to a machine that is reached by ssh and has none.
type deployFlags struct {
	no   bool
	file string
}

func (f *deployFlags) define(fs *pflag.FlagSet) {
	fs.BoolVar(&f.no, "no-deploy", false, "copy no tether to an ssh:// machine that has none")
	f.defineFile(fs)
	group(fs, "Server", "no-deploy", "executor-binary")
}

func (f *deployFlags) defineFile(fs *pflag.FlagSet) {
	fs.StringVar(&f.file, "executor-binary", "", "the tether `FILE` to copy there (default: that of its platform, beside\nthis program)")
}

// dialCommand is client.DialCommand. If there is no tether on a machine that is reached by ssh, dialCommand copies it there and connects again.
func (c *connection) dialCommand(ctx context.Context, a address, o client.Options) (*client.Client, error) {
	for deployed := false; ; deployed = true {
		notes := &transportNotes{to: os.Stderr}
		if o.Wait > 0 {
			notes.to = io.Discard // the command would print the same with each attempt
		}
		connected, err := client.DialCommand(ctx, a.transport(notes), o)
		notes.silence(err)
		if !a.ssh || deployed || c.flags.deploy.no || !isMissing(err) {
			return connected, err
		}
		if _, _, err := copyToHost(ctx, a, c.flags.deploy.file); err != nil {
			return nil, err
		}
	}
}

// isMissing reports whether ssh has found no tether on its machine.
func isMissing(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == sshhost.Missing
}
