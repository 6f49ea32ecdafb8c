//go:build mcp || fleet || !split

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/service/unit"
)

// systemUnits is where an administrator puts unit files.
const systemUnits = "/etc/systemd/system"

// serviceFlags are the flags of the commands below `tether service`.
type serviceFlags struct {
	user    bool
	runAs   string
	listen  string
	noStart bool
}

// newService is `tether service`.
func newService(stdout *os.File) *cobra.Command {
	cmd := &cobra.Command{
		Use:   nameService + " COMMAND",
		Short: shortService,
		Long: "Let systemd run `tether serve`, for this user or for the system. systemd opens the socket, starts the\n" +
			"server when the first client connects, and starts it again if it dies.",
		Example: "  tether service install --user\n" +
			"  sudo tether service install --run-as build --listen wss://0.0.0.0:7443 -- \\\n" +
			"      --tls-cert /etc/tether/cert.pem --tls-key /etc/tether/key.pem --ws-auth capability-token \\\n" +
			"      --ws-token-file /etc/tether/token\n" +
			"  tether service status --user",
		Args:                  noSuchCommand,
		DisableFlagsInUseLine: true,
		RunE:                  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newServiceInstall(stdout), newServicePrint(stdout), newServiceStatus(stdout), newServiceUninstall(stdout))
	return cmd
}

func newServiceInstall(stdout *os.File) *cobra.Command {
	var flags serviceFlags
	cmd := &cobra.Command{
		Use:   "install [flags] [-- FLAGS OF SERVE]",
		Short: "Write the unit files, and start the service",
		Long: "Write tether.service, and tether.socket unless --listen is given, and let systemd start what they\n" +
			"describe, now and after each boot. Unit files that tether has not written are left alone.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return flags.install(cmd.Context(), args, stdout) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.defineUnit(fs)
	fs.BoolVar(&flags.noStart, "no-start", false, "write the files only")
	onlyOnce(fs)
	return cmd
}

func newServicePrint(stdout *os.File) *cobra.Command {
	var flags serviceFlags
	cmd := &cobra.Command{
		Use:   "print [flags] [-- FLAGS OF SERVE]",
		Short: "Print the unit files that install would write",
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := flags.options(args)
			if err != nil {
				return err
			}
			for i, file := range o.Files() {
				if _, err := fmt.Fprintf(stdout, "%s## %s\n%s", strings.Repeat("\n", min(i, 1)), file.Name, file.Text); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	flags.defineUnit(fs)
	onlyOnce(fs)
	return cmd
}

func newServiceStatus(stdout *os.File) *cobra.Command {
	var flags serviceFlags
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show what systemd knows about the service",
		Long:  "Show what systemd knows about the service. The exit code is 0 if its units are installed.",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.status(cmd.Context(), stdout, cmd.ErrOrStderr())
		},
	}
	flags.defineUser(cmd.Flags())
	onlyOnce(cmd.Flags())
	return cmd
}

func newServiceUninstall(stdout *os.File) *cobra.Command {
	var flags serviceFlags
	cmd := &cobra.Command{
		Use:   "uninstall [flags]",
		Short: "Stop the service, with all its commands, and remove the unit files",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return flags.uninstall(cmd.Context(), stdout) },
	}
	flags.defineUser(cmd.Flags())
	onlyOnce(cmd.Flags())
	return cmd
}

func (f *serviceFlags) defineUser(fs *pflag.FlagSet) {
	fs.BoolVar(&f.user, "user", false, "the service of this user, not of the system")
}

func (f *serviceFlags) defineUnit(fs *pflag.FlagSet) {
	f.defineUser(fs)
	fs.StringVar(&f.runAs, "run-as", "", "without --user: the `USER` of the server, whose rights all commands have\n(default the user who called sudo)")
	fs.StringVar(&f.listen, "listen", "", "`URL` to listen on (default a socket of systemd: tether/server.sock in\n/run, or with --user in $XDG_RUNTIME_DIR)")
}

// options checks the flags.
func (f *serviceFlags) options(args []string) (o unit.Options, err error) {
	o = unit.Options{User: f.user, RunAs: f.runAs, Listen: f.listen, Args: args}
	if f.listen != "" {
		e, err := listen.ParseURL(f.listen)
		if err == nil && (e.Transport == listen.Stdio || e.Transport == listen.Activated) {
			err = &listen.URLError{Problem: "unsupported", URL: f.listen, Expected: "`ws://IP:PORT`, `wss://IP:PORT` or `unix://PATH`"}
		}
		if err != nil {
			return o, usageError{withListenFlags(listen.Config{URL: f.listen}, err)}
		}
	}
	for _, word := range append(args, f.listen, f.runAs) {
		if strings.ContainsAny(word, "\n\r\x00") || !utf8.ValidString(word) { // systemd leaves out a line that is not UTF-8
			return o, usageError{errors.New("a unit file cannot have arguments with line breaks, or that are not UTF-8")}
		}
	}
	switch {
	case f.user && f.runAs != "":
		return o, usageError{errors.New("`--user` and `--run-as` exclude each other: a service of this user runs as this user")}
	case !f.user && f.runAs == "":
		if o.RunAs = os.Getenv("SUDO_USER"); o.RunAs == "" {
			return o, usageError{errors.New("say as which user the server runs, with `--run-as USER`: all commands have the rights of that user. " +
				"For a service of your own, use `--user`")}
		}
	}
	if o.RunAs != "" {
		if _, err := user.Lookup(o.RunAs); err != nil {
			return o, fmt.Errorf("`--run-as %s`: %w", o.RunAs, err)
		}
	}
	o.Program, err = tetherProgram()
	return o, err
}

// tetherProgram is the path of tether, also if this program is a companion.
func tetherProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, c := range []companion{withMCP, withFleet} {
		if filepath.Base(self) == c.program {
			return filepath.Join(filepath.Dir(self), "tether"), nil
		}
	}
	return self, nil
}

// directory is where the unit files are.
func (f *serviceFlags) directory() (string, error) {
	if !f.user {
		return systemUnits, nil
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(config, "systemd", "user"), nil
}

// systemctl runs systemctl for the user or the system.
func (f *serviceFlags) systemctl(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "systemctl", f.arguments(args)...)
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("systemctl is not in PATH: this machine does not seem to run systemd. docs/operations.md says how others run a server")
	case err != nil:
		text := strings.TrimSpace(string(out))
		if strings.Contains(text, "Failed to connect to bus") && f.user {
			text += "\nThe service manager of this user does not run. Log in as the user (not by su or sudo), or let it run always: loginctl enable-linger USER"
		}
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, text)
	}
	return nil
}

func (f *serviceFlags) arguments(args []string) []string {
	if f.user {
		return append([]string{"--user"}, args...)
	}
	return args
}

// install writes the unit files and starts the service.
func (f *serviceFlags) install(ctx context.Context, args []string, stdout *os.File) error {
	if err := onlyOnLinux(); err != nil {
		return err
	}
	o, err := f.options(args)
	if err != nil {
		return err
	}
	dir, err := f.directory()
	if err != nil {
		return err
	}
	if err := checkServe(ctx, o); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return asAdministrator(err)
	}
	written := map[string]bool{}
	for _, file := range o.Files() { // before any of them is written
		written[file.Name] = true
		if err := foreign(filepath.Join(dir, file.Name)); err != nil {
			return err
		}
	}
	for _, file := range o.Files() {
		path := filepath.Join(dir, file.Name)
		if err := os.WriteFile(path, []byte(file.Text), 0o644); err != nil {
			return asAdministrator(err)
		}
		fmt.Fprintln(stdout, "wrote "+path)
	}
	if path := filepath.Join(dir, unit.Socket); !written[unit.Socket] && foreign(path) == nil { // of an earlier installation
		_ = f.systemctl(ctx, "disable", "--now", unit.Socket) // fails if there is none
		if err := os.Remove(path); err == nil {
			fmt.Fprintln(stdout, "removed "+path)
		}
	}
	if f.noStart {
		return nil
	}
	if err := f.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if err := f.systemctl(ctx, "enable", "--now", o.Start()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "enabled and started %s\n", o.Start())
	return err
}

// checkServe lets tether check the flags of the server, so that mistakes are told now and not in the journal. A server with a socket
// of systemd is checked as if it listened on a file.
func checkServe(ctx context.Context, o unit.Options) error {
	at := o.Listen
	if at == "" {
		at = "unix:///run/tether/server.sock"
	}
	argv := append([]string{"serve", "--listen", at, "--" + flagCheckConfig}, o.Args...)
	cmd := exec.CommandContext(ctx, o.Program, argv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("these flags of serve are not possible: %s", strings.TrimPrefix(strings.TrimSpace(stderr.String()), prefix))
	}
	return nil
}

// foreign returns an error if a file exists that tether has not written.
func foreign(path string) error {
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return asAdministrator(err)
	case !bytes.HasPrefix(text, []byte(unit.Mark)):
		return fmt.Errorf("%s was not written by `tether service install`: remove it first, or change it yourself", path)
	}
	return nil
}

// asAdministrator says how to get the right that is missing.
func asAdministrator(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w. Use sudo for a service of the system, or --user for one of your own", err)
	}
	return err
}

// status shows what systemd knows.
func (f *serviceFlags) status(ctx context.Context, stdout, stderr io.Writer) error {
	installed, err := f.installed()
	if err != nil {
		return err
	}
	if len(installed) == 0 {
		return errors.New("the service is not installed" + f.elsewhere())
	}
	cmd := exec.CommandContext(ctx, "systemctl", f.arguments(append([]string{"status", "--no-pager"}, installed...))...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		if _, ran := errors.AsType[*exec.ExitError](err); !ran {
			return fmt.Errorf("run systemctl: %w", err)
		} // systemctl reports by its exit code that a unit is not active
	}
	return nil
}

// installed returns the names of the units that install has written.
func (f *serviceFlags) installed() (names []string, err error) {
	dir, err := f.directory()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{unit.Socket, unit.Service} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil && foreign(path) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

func (f *serviceFlags) elsewhere() string {
	other := serviceFlags{user: !f.user}
	if names, err := other.installed(); err != nil || len(names) == 0 {
		return "; `tether service install` does that"
	}
	if f.user {
		return " for this user, but for the system: leave out `--user`"
	}
	return " for the system, but for this user: add `--user`"
}

// uninstall stops the service and removes its files.
func (f *serviceFlags) uninstall(ctx context.Context, stdout *os.File) error {
	if err := onlyOnLinux(); err != nil {
		return err
	}
	names, err := f.installed()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errors.New("the service is not installed" + f.elsewhere())
	}
	dir, _ := f.directory()
	if err := f.systemctl(ctx, append([]string{"disable", "--now"}, names...)...); err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			return asAdministrator(err)
		}
		fmt.Fprintln(stdout, "removed "+path)
	}
	return f.systemctl(ctx, "daemon-reload")
}

func onlyOnLinux() error {
	if runtime.GOOS != "linux" {
		return errors.New("this system has no systemd; docs/operations.md says how launchd and others run a server")
	}
	return nil
}
