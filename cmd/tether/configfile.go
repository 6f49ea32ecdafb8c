package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/settings"
)

const (
	flagConfigFile  = "config-file"
	flagCheckConfig = "check-config"
	flagServer      = "server"
	flagStdio       = "stdio" // of the app-server: short for --listen stdio://

	// flagFromFile stands before the settings of the file on the command line of a worker.
	flagFromFile = "settings-of-file-follow"
)

// configFlags say where the settings of a server are that are not on its command line.
type configFlags struct {
	path  string
	check bool
	taken []string // flags that the file has set, for a command line
}

// define adds the flags.
func (f *configFlags) define(fs *pflag.FlagSet) {
	fs.StringVar(&f.path, flagConfigFile, "", "`PATH` of a configuration file with settings that are not given as\nflags; empty: none (default $"+settings.Variable+", else tether/tether.toml in\n$XDG_CONFIG_HOME or ~/.config, else /etc/tether/tether.toml)")
	fs.BoolVar(&f.check, flagCheckConfig, false, "check the flags and the configuration file, and end")
	fs.Bool(flagFromFile, false, "for the workers of a keeper")
	fs.Lookup(flagFromFile).Hidden = true
	group(fs, "Configuration", flagConfigFile, flagCheckConfig)
}

// apply gives the flags of a command the values of its table in the file, unless they are on the command line. A worker reads no file:
// it has the settings of its keeper on its command line, whatever the file has become.
func (f *configFlags) apply(cmd *cobra.Command, table string) error {
	if _, worker := reexec.WorkerArguments(os.Args); worker {
		return nil
	}
	return f.read(cmd.Flags(), table)
}

// read is apply, also in a worker.
func (f *configFlags) read(fs *pflag.FlagSet, table string) error {
	file, err := f.find(fs)
	if err != nil || file == nil {
		return err
	}
	for _, s := range file.Settings[table] {
		if err := f.set(fs, file, s); err != nil {
			return fmt.Errorf("%s: [%s] %w", file.Path, table, err)
		}
	}
	return nil
}

func (f *configFlags) find(fs *pflag.FlagSet) (*settings.File, error) {
	switch {
	case !fs.Changed(flagConfigFile):
		return settings.Find()
	case f.path == "":
		return nil, nil
	}
	path, err := filepath.Abs(f.path)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flagConfigFile, f.path, err)
	}
	return settings.Read(path)
}

// set gives a flag the value of the file, unless it has one.
func (f *configFlags) set(fs *pflag.FlagSet, file *settings.File, s settings.Setting) error {
	flag := fs.Lookup(s.Flag)
	if flag == nil || flag.Hidden || !configurable(flag.Name) {
		return settings.Unknown(s.Flag, configurableNames(fs))
	}
	_, takesList := flag.Value.(pflag.SliceValue)
	switch isBool := flag.Value.Type() == "bool"; {
	case s.List && !takesList:
		return fmt.Errorf("%s: expected one value, not a list", s.Flag)
	case isBool && !s.Bool:
		return fmt.Errorf("%s: expected true or false, without quotes", s.Flag)
	case !isBool && s.Bool:
		return fmt.Errorf("%s: expected a text in quotes or a number, not %s", s.Flag, s.Values[0])
	case flag.Changed:
		return nil
	}
	for _, value := range s.Values {
		if namesFile(flag, value) {
			value = file.Join(value)
		}
		if err := fs.Set(s.Flag, value); err != nil {
			return fmt.Errorf("%s: %w", s.Flag, reason(err))
		}
		f.taken = append(f.taken, "--"+s.Flag+"="+value)
	}
	return nil
}

// namesFile reports whether a value of a flag is the path of a file.
func namesFile(flag *pflag.Flag, value string) bool {
	switch kind, _ := pflag.UnquoteUsage(flag); {
	case flag.Name == flagAuditLog:
		return audit.Config{Target: value}.IsFile()
	default:
		return kind == "PATH" || kind == "FILE"
	}
}

// reason returns what a flag says about a value, without the name of the flag.
func reason(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok && invalid.Unwrap() != nil {
		return invalid.Unwrap()
	}
	return err
}

// arguments returns the command line together with the settings of the file, for workers.
func (f *configFlags) arguments(args []string) []string {
	return slices.Concat(args, []string{"--" + flagFromFile}, f.taken)
}

// done reports that the settings are right, if only that was asked.
func (f *configFlags) done(stdout io.Writer) (bool, error) {
	if !f.check {
		return false, nil
	}
	_, err := fmt.Fprintln(stdout, "the configuration is correct")
	return true, err
}

// configurable reports whether a flag may be in a file. --stdio may not: it would win over a --listen of the command line.
func configurable(name string) bool {
	_, without := ignored[name]
	return name != flagConfigFile && name != flagCheckConfig && name != flagStdio && name != "help" && (!without || name == "name")
}

func configurableNames(fs *pflag.FlagSet) (names []string) {
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && configurable(f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

// serverFirst moves --server from before the command to behind it: `tether --server build run …`.
func serverFirst(args []string) []string {
	switch {
	case len(args) > 2 && args[0] == "--"+flagServer:
		return append([]string{args[2], "--" + flagServer + "=" + args[1]}, args[3:]...)
	case len(args) > 1 && strings.HasPrefix(args[0], "--"+flagServer+"="):
		return append([]string{args[1], args[0]}, args[2:]...)
	}
	return args
}
