//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/copy"
	"github.com/tetherexec/tether/internal/terminal"
)

func newFs(stdin *os.File) *cobra.Command {
	cmd := &cobra.Command{
		Use:   nameFs,
		Short: shortFs,
		Long: "Read and change files on the server's machine. A PATH is an absolute path, ~/PATH below the home\n" +
			"directory, or a path below the server's directory. It may begin with a colon, as for `tether cp`.",
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFsLs(), newFsCat(), newFsPut(stdin), newFsGet(), newFsMkdir(), newFsRm(), newFsStat())
	return cmd
}

// needPaths refuses command lines with fewer than least paths.
func needPaths(least int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least {
			return usageError{errors.New("a PATH is missing")}
		}
		for _, a := range args {
			if a == "" || a == ":" {
				return usageError{errors.New("a path is empty")}
			}
		}
		return nil
	}
}

// A fileCommand is the connection and the output of a command for remote files.
type fileCommand struct {
	*connection
	ctx      context.Context
	files    *files.Files
	stderr   io.Writer
	failures int
}

// withFiles connects and calls do for each path. An error with one path does not stop the others.
func (f *serverFlags) withFiles(cmd *cobra.Command, args []string, do func(v *fileCommand, path string) error) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	err := f.withSession(ctx, cmd.ErrOrStderr(), func(conn *connection) error {
		v := &fileCommand{connection: conn, ctx: ctx, files: files.Of(conn.Client), stderr: cmd.ErrOrStderr()}
		for _, arg := range args {
			path, err := copy.RemotePath(conn.Info(), parseRemote(arg))
			if err == nil {
				err = do(v, path)
			}
			switch {
			case err == nil:
			case copy.IsFatal(err), ctx.Err() != nil, errors.Is(err, terminal.ErrOutput):
				return err
			default:
				v.printLine(arg, err)
			}
		}
		if v.failures > 0 {
			return codedError{code: exitError}
		}
		return nil
	})
	return orSignal(ctx, err)
}

func (v *fileCommand) printLine(path string, err error) {
	v.failures++
	printLine(v.stderr, terminal.Name(path)+": "+copy.Reason(err))
}

// parseRemote reads a path that is remote with and without a colon.
func parseRemote(arg string) string { return parseLocation(arg).Path }

// catBlock is how much of a file is read at a time.
const catBlock = 256 << 10

func newFsCat() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:                   "cat [flags] PATH...",
		Short:                 "Print files",
		Long:                  "Print files of the server's machine, one after the other.",
		Example:               "  tether fs cat /etc/os-release",
		Args:                  needPaths(1),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := terminal.OutputWriter{Writer: cmd.OutOrStdout()}
			return server.withFiles(cmd, args, func(v *fileCommand, path string) error {
				file, err := v.files.Open(v.ctx, path)
				if err != nil {
					return err
				}
				defer file.Close()
				defer context.AfterFunc(v.ctx, func() { file.Close() })()
				_, err = io.CopyBuffer(out, struct{ io.Reader }{file}, make([]byte, catBlock))
				return err
			})
		},
	}
	server.define(cmd.Flags(), ownServer)
	onlyOnce(cmd.Flags())
	return cmd
}

func newFsMkdir() *cobra.Command {
	var server serverFlags
	var parents bool
	cmd := &cobra.Command{
		Use:                   "mkdir [flags] PATH...",
		Short:                 "Make directories",
		Long:                  "Make directories. With -p, missing parents are made too, and a directory that exists is no error.",
		Example:               "  tether fs mkdir -p /srv/project/build",
		Args:                  needPaths(1),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return server.withFiles(cmd, args, func(v *fileCommand, path string) error {
				if parents {
					return copy.RetryIdempotent(func() error { return v.files.MkdirAll(v.ctx, path) })
				}
				return copy.Mkdir(v.ctx, v.files, path)
			})
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVarP(&parents, "parents", "p", false, "make missing parents too; a directory that exists is no error")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func newFsRm() *cobra.Command {
	var server serverFlags
	var recursive, force bool
	cmd := &cobra.Command{
		Use:                   "rm [flags] PATH...",
		Short:                 "Remove files and directories",
		Long:                  "Remove files and links, and with -r directories with their content.",
		Example:               "  tether fs rm -r /srv/project/build",
		Args:                  needPaths(1),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return server.withFiles(cmd, args, func(v *fileCommand, path string) error {
				err := copy.Remove(v.ctx, v.files, path, recursive)
				if force && errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if errors.Is(err, copy.ErrIsDirectory) {
					err = fmt.Errorf("%w; -r removes it", err)
				}
				return err
			})
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.BoolVarP(&recursive, "recursive", "r", false, "remove directories too, with their content")
	fs.BoolVarP(&force, "force", "f", false, "ignore files that do not exist")
	server.define(fs, ownServer)
	onlyOnce(fs)
	return cmd
}

func newFsPut(stdin *os.File) *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use:   "put [flags] LOCAL... PATH",
		Short: "Copy local files to another machine",
		Long: "Copy local files and directories to the server's machine, as `tether cp LOCAL... :PATH` does.\n" +
			"LOCAL may be - for standard input; then PATH is the name of the file.",
		Example:               "  tether fs put notes.txt /srv/\n  make-report | tether fs put - /srv/report.txt",
		Args:                  needPaths(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			destination := copy.Location{Remote: true, Path: parseRemote(args[last])}
			if args[0] == "-" && last == 1 {
				ctx, stop := interruptible(cmd.Context())
				defer stop()
				spool, err := spoolInput(ctx, stdin)
				if err != nil {
					return err
				}
				cmd.SetContext(ctx)
				defer os.Remove(spool)
				flags.stream = true
				return flags.copy(cmd, []copy.Location{{Path: spool}}, destination)
			}
			var sources []copy.Location
			for _, a := range args[:last] {
				sources = append(sources, copy.Location{Remote: false, Path: a})
			}
			return flags.copy(cmd, sources, destination)
		},
	}
	flags.define(cmd.Flags())
	return cmd
}

// spoolInput writes standard input to a temporary file, because an upload needs the size first.
func spoolInput(ctx context.Context, stdin *os.File) (name string, err error) {
	f, err := os.CreateTemp("", "tether-put-")
	if err != nil {
		return "", fmt.Errorf("make a temporary file for standard input: %w", err)
	}
	in := terminal.InterruptibleReader(stdin)
	defer context.AfterFunc(ctx, func() { in.Close() })()
	_, err = io.Copy(f, in)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", orSignal(ctx, fmt.Errorf("read standard input: %w", err))
	}
	return f.Name(), nil
}

func newFsGet() *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use:   "get [flags] PATH... LOCAL",
		Short: "Copy files from another machine",
		Long: "Copy files and directories from the server's machine, as `tether cp :PATH... LOCAL` does.\n" +
			"LOCAL may be - for standard output.",
		Example:               "  tether fs get /var/log/syslog .",
		Args:                  needPaths(2),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			if args[last] == "-" {
				return flags.print(cmd, args[:last])
			}
			var sources []copy.Location
			for _, a := range args[:last] {
				sources = append(sources, copy.Location{Remote: true, Path: parseRemote(a)})
			}
			return flags.copy(cmd, sources, copy.Location{Remote: false, Path: args[last]})
		},
	}
	flags.define(cmd.Flags())
	return cmd
}

// print copies files to standard output. A file that changes meanwhile is an error.
func (f *copyFlags) print(cmd *cobra.Command, args []string) error {
	if f.keep || len(f.exclude) > 0 {
		return usageError{errors.New("-p and --exclude cannot be used with standard output")}
	}
	out := terminal.OutputWriter{Writer: cmd.OutOrStdout()}
	return f.withFiles(cmd, args, func(v *fileCommand, path string) error {
		return v.files.Download(v.ctx, path, out, files.DownloadOptions{})
	})
}
