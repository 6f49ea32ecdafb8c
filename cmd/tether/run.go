package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/sandboxhost"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// How long a server keeps a session without a connection.
const (
	keepAttended = 10 * time.Minute
	keepDetached = 24 * time.Hour
)

// A runCommand starts a command on a server and connects it with the standard streams of tether.
type runCommand struct {
	serverFlags
	sandbox sandboxFlags
	tty     bool
	login   bool // the user's shell, instead of argv
	timeout lifetime
	keep    lifetime
	env     []string
	cwd     string
	name    string
	detach  bool
	openIn  bool // keep the input of a detached command open
	noInput bool // the command gets an empty input
	escape  string
	explain bool // explain a denial, also if standard error is not a terminal
	limits  limitFlags
	stats   bool // print what the command has used
	forward bool // forward the ports on which the command listens

	argv          []string
	stdin, stdout *os.File
	stderr        io.Writer
}

func newRun(stdin, stdout *os.File) *cobra.Command {
	r := runCommand{stdin: stdin, stdout: stdout}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command, here or on another machine",
		Long: "Run a command as if it ran here: standard input, output and error, signals and the exit code\n" +
			"pass through, also when the connection is lost for a while. Without a server the command runs on\n" +
			"this machine. Processes that it leaves in the background end with it. With --detach the command\n" +
			"runs on after tether has ended.\n\n" +
			"The exit code is that of the command, 128+N if signal N ended it. Else it is 124 after --timeout\n" +
			"and --time, 125 if tether failed, 126 if the command cannot be executed, 127 if it is not found, and 255 if\n" +
			"the session with the server was lost.",
		Example: "  tether run -- uname -a\n" +
			"  tar c . | tether run --url ssh://build -- tar x -C /srv/project\n" +
			"  tether run --sandbox workspace-write --timeout 10m -- make test\n" +
			"  tether run --allow-host example.com --allow-host '*.internal:443' -- make deps\n" +
			"  tether run --detach --name web -- python3 -m http.server",
		Args:                  needCommand,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.forward && namesOnly {
				return failed(withMCP.become("run --forward-ports", os.Args[1:]))
			}
			r.argv, r.stderr = args, cmd.ErrOrStderr()
			return failed(r.run(cmd.Context()))
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.SetInterspersed(false) // flags behind the command belong to it
	fs.BoolVarP(&r.tty, "tty", "t", false, "give the command a terminal; if tether has one itself, it passes on\neach key and the size")
	fs.Var(&r.timeout, "timeout", "end the command after this time")
	r.defineCommand(fs)
	fs.BoolVarP(&r.detach, "detach", "d", false, "print the name of the command and leave it running; without an address\nit runs in a background server of this user, which is started if\nnecessary")
	fs.BoolVarP(&r.openIn, "stdin", "i", false, "with --detach: keep standard input open for 'tether attach'")
	fs.BoolVarP(&r.noInput, "no-stdin", "n", false, "do not read standard input; that of the command is empty")
	fs.BoolVar(&r.forward, "forward-ports", false, "forward the ports on which the command listens, and print where they\nare on this machine")
	defineExplainDenial(fs, &r.explain)
	defineStats(fs, &r.stats)
	group(fs, "Command", "tty", "timeout", "detach", "stdin", "no-stdin", "forward-ports", explainDenial, showStats)
	r.define(fs, "the command runs on this machine")
	r.defineKeeping(fs)
	onlyOnce(fs)
	ownFailures(cmd)
	return cmd
}

// needCommand is for commands whose arguments are a command.
func needCommand(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return codedError{exitRefused, usageError{errors.New("a command to run is missing")}}
	}
	return nil
}

// ownFailures gives errors of the command line the exit code of an error of tether, so that
// they are not taken for those of the command that was to run.
func ownFailures(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return codedError{exitRefused, usageError{err}}
	})
}

// defineCommand adds the flags that say how a command runs.
func (r *runCommand) defineCommand(fs *pflag.FlagSet) {
	r.sandbox.flag = "--sandbox"
	fs.StringVar(&r.sandbox.profile, "sandbox", "", "a `PROFILE` to enforce: read-only, workspace-write, full (no sandbox),\nor a JSON file, as for 'tether sandbox run'")
	fs.BoolVar(&r.sandbox.network, "network", false, "with --sandbox: allow the network")
	r.sandbox.machine.define(fs)
	r.sandbox.hosts.define(fs)
	fs.StringArrayVarP(&r.env, "env", "e", nil, "set a variable of the environment, as `NAME[=VALUE]`; without a value\nit has the local value; can be repeated")
	fs.StringVar(&r.cwd, "cwd", "", "`DIR` to start in (default: here, or the server's own)")
	fs.StringVar(&r.name, "name", "", "`NAME` of the command for 'tether ps' and others")
	group(fs, "Command", "sandbox", "network", userSockets, "allow-host", "deny-host", sandboxBackend, "env", "cwd", "name")
	r.limits.define(fs)
}

// defineKeeping adds the flags about lost and closed connections.
func (r *runCommand) defineKeeping(fs *pflag.FlagSet) {
	fs.Var(&r.keep, "keep", "how long the server keeps the command without a connection\n(default 10m; 24h for --detach)")
	fs.StringVar(&r.escape, "escape", terminal.DefaultEscape, "`CHAR` that ends the session when it is typed on a terminal at the\nbeginning of a line, followed by a full stop; or none")
	group(fs, "Server", "keep", "escape")
}

// run starts the command and waits for its end, except with --detach.
func (r *runCommand) run(ctx context.Context) (err error) {
	keys, err := r.check()
	if err != nil {
		return err
	}
	if r.noInput {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer null.Close()
		r.stdin = null
	}
	session := terminal.NewSession(r.stdin, r.stdout, r.stderr, r.tty, !r.detach, terminal.NewStatusLine(r.stderr, r.quiet))
	session.Timeout = time.Duration(r.timeout)
	signals, ignore := terminal.CatchSignals()
	defer ignore()
	defer brokenPipeIsError()() // EPIPE ends the command with SIGPIPE
	starting, stop := untilSignal(ctx)
	defer stop()

	refusals := sandboxhost.NewRefusals(session.Status)
	conn, err := r.open(starting, session.Status, refusals)
	if err != nil {
		return orSignal(starting, err)
	}
	defer func() {
		if cerr := conn.end(); cerr != nil && err == nil {
			err = cerr
		}
	}()
	if !conn.Has(client.FeatureHostPorts) {
		refusals.WithoutPorts()
	}
	if r.forward {
		if err := canForwardPorts(conn.Client); err != nil {
			return err
		}
	}
	p, err := r.start(starting, conn, session)
	if err != nil {
		return orSignal(starting, err)
	}
	stop()
	for _, text := range p.Limits().Shortfalls(r.limits.limits()) {
		fmt.Fprintln(r.stderr, prefix+text)
	}
	if r.detach {
		if _, err := fmt.Fprintln(r.stdout, p.ID()); err != nil {
			return err
		}
		if host := conn.Host(); host != "" && !r.quiet && !r.namesHost() {
			printLine(r.stderr, "it runs on the host "+host)
		}
		return conn.leave()
	}
	if conn.server.kind == kindEmbedded {
		keys = nil // without a connection that can be lost, no escape key is needed
	}
	if r.forward {
		defer forwardPortsOf(conn, p.ID(), session.Status)()
	}
	return r.stream(conn, p, session, keys, signals)
}

// check refuses flags that do not fit each other.
func (r *runCommand) check() (keys *terminal.Escape, err error) {
	refuse := func(text string) (*terminal.Escape, error) { return nil, usageError{errors.New(text)} }
	switch {
	case r.detach && r.timeout > 0:
		return refuse("--timeout cannot be used with --detach: tether ends before the command does")
	case r.openIn && !r.detach:
		return refuse("--stdin needs --detach; without --detach, standard input is always open")
	case r.openIn && r.noInput:
		return refuse("--stdin and --no-stdin cannot be used together")
	case r.sandbox.network && r.sandbox.profile == "" && !r.sandbox.hosts.given():
		return refuse("--network needs --sandbox; without a sandbox, the network is open")
	case r.sandbox.machine.sockets && r.sandbox.profile == "":
		return refuse("--user-sockets needs --sandbox; without a sandbox, the sockets are open")
	case r.explain && r.detach:
		return refuse("--explain-denial cannot be used with --detach: the command fails after tether has ended")
	case r.stats && r.detach:
		return refuse("--stats cannot be used with --detach: tether ends before the command does; `tether ps` shows what it has used")
	case r.forward && r.detach:
		return refuse("--forward-ports cannot be used with --detach: tether ends before the command does; `tether forward NAME` forwards its port")
	case r.forward && !r.remote() && !r.sandbox.hosts.given():
		return refuse("--forward-ports needs a server or --allow-host; other commands on this machine listen on its own ports")
	case r.explain && r.sandbox.profile == "" && !r.sandbox.hosts.given():
		return refuse("--explain-denial needs --sandbox; without a sandbox, nothing is denied")
	case strings.ContainsFunc(r.name, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }):
		return refuse("--name must not contain spaces, slashes or control characters")
	}
	if flag, given := r.sandbox.machine.given(); given && r.remote() {
		return nil, serverFlagError(flag)
	}
	if _, err := r.sandbox.hosts.rules(r.sandbox.network); err != nil {
		return nil, err
	}
	return parseEscape(r.escape)
}

// remote reports whether the command runs in another process than this one: on a named server,
// or in the user's own server in the background.
func (r *runCommand) remote() bool {
	_, named, _ := r.address()
	return named || r.detach
}

// open opens the session for the command. refusals reports the hosts that are refused to the command.
func (r *runCommand) open(ctx context.Context, status *terminal.StatusLine, refusals *sandboxhost.Refusals) (*connection, error) {
	ensure := embeddedServer(r.sandbox.machine, r.limits.given())
	o := client.Options{TTL: keepAttended, Label: r.name, OnNetworkDecision: refusals.Decided}
	if r.detach {
		ensure, o.TTL = homeServer(true), keepDetached
	}
	if r.keep > 0 {
		o.TTL = time.Duration(r.keep)
	}
	return r.dial(ctx, status, o, ensure)
}

// start starts the command in its session.
func (r *runCommand) start(ctx context.Context, conn *connection, s *terminal.Session) (*client.Process, error) {
	if r.login {
		r.argv = []string{conn.Info().Shell.Path}
	}
	if r.detach && r.name != "" {
		if err := nameIsFree(ctx, conn, r.name); err != nil {
			return nil, err
		}
	}
	cmd, err := r.command(conn, s)
	if err != nil {
		return nil, err
	}
	p, err := conn.Start(ctx, cmd)
	if err != nil && ctx.Err() == nil {
		return nil, remoteStartFailure(r.argv[0], err)
	}
	return p, err
}

// command returns the command that the server starts.
func (r *runCommand) command(conn *connection, s *terminal.Session) (client.Command, error) {
	cmd := client.Command{Argv: r.argv, TTY: r.tty, Stdin: !r.detach || r.openIn, KeepNewest: r.detach, ID: r.name, Limits: r.limits.limits()}
	cmd.OneStream = terminal.SameFile(r.stdout, r.stderr)
	if cmd.ID == "" {
		cmd.ID = makeName(r.argv[0])
	}
	if r.login {
		cmd.Arg0 = "-" + path.Base(r.argv[0])
	}
	if !conn.Has(client.FeatureCloseStdin) && !r.tty && isNull(r.stdin) {
		cmd.Stdin = false // this server cannot close standard input
	}
	cmd.Rows, cmd.Cols = s.Size()
	var err error
	if cmd.Dir, err = startDir(r.cwd, r.login, conn.server.kind, conn.Info); err != nil {
		return cmd, err
	}
	if cmd.Env, err = r.environment(conn.server.kind == kindUser); err != nil {
		return cmd, err
	}
	if conn.server.kind == kindUser { // the server has the environment of the command that started it
		cmd.EnvPolicy = &wire.EnvPolicy{Inherit: wire.InheritNone, IgnoreDefaultExcludes: true,
			Exclude: []string{}, Set: map[string]string{}, IncludeOnly: []string{}}
	}
	if p := r.sandbox.profile; p != "" && p != sandboxhost.ProfileFull {
		if cmd.Sandbox, err = r.sandbox.intent(cmd.Dir); err != nil {
			return cmd, err
		}
	}
	if hosts := r.sandbox.hosts; hosts.given() {
		cmd.Network = &client.Network{Allow: hosts.allow, Deny: hosts.deny}
	}
	return cmd, nil
}

// startDir returns the directory where a command starts. On this machine it is the current directory; on a server
// it is the server's own, or the home directory of its user for a login shell. info describes a named server.
func startDir(cwd string, login bool, kind serverKind, info func() wire.EnvironmentInfo) (string, error) {
	if kind != kindNamed {
		dir, err := filepath.Abs(cwd)
		if err != nil {
			return "", fmt.Errorf("find the current directory: %w", err)
		}
		return dir, nil
	}
	server := info()
	base := localPath(server.Cwd)
	if login && server.UserHomeDir != nil {
		base = localPath(server.UserHomeDir)
	}
	switch {
	case path.IsAbs(cwd) || strings.HasPrefix(cwd, "file:") || server.PlatformOS == "windows" && cwd != "":
		return cwd, nil
	case base == "" && cwd == "":
		return "/", nil
	case base == "":
		return "", usageError{fmt.Errorf("--cwd %s: this server does not report its directory; give an absolute path", cwd)}
	}
	return path.Join(base, cwd), nil
}

// localPath converts the file: URI of a server to a plain path.
func localPath(uri *string) string {
	if uri == nil {
		return ""
	}
	if u, err := wire.ParsePathURI(*uri); err == nil {
		if native, err := u.Native(); err == nil {
			return native
		}
	}
	return *uri
}

// environment returns the variables for the command: those of --env, and all of this process if whole is set.
func (r *runCommand) environment(whole bool) (map[string]string, error) {
	env := map[string]string{}
	if whole {
		for _, entry := range os.Environ() {
			if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
				env[name] = value
			}
		}
	}
	if r.tty {
		for _, name := range []string{"TERM", "COLORTERM"} {
			if value := os.Getenv(name); value != "" {
				env[name] = value
			}
		}
	}
	chosen, err := chosenVariables(r.env)
	maps.Copy(env, chosen)
	return env, err
}

// chosenVariables reads NAME=VALUE, or NAME for the local value. A variable that is not set
// locally is left out.
func chosenVariables(entries []string) (map[string]string, error) {
	env := map[string]string{}
	for _, entry := range entries {
		name, value, given := strings.Cut(entry, "=")
		if name == "" {
			return nil, usageError{fmt.Errorf("--env %q: expected NAME=VALUE or NAME", entry)}
		}
		if !given {
			if value, given = os.LookupEnv(name); !given {
				continue
			}
		}
		env[name] = value
	}
	return env, nil
}

// makeName makes a name for a command that is easy to type.
func makeName(program string) string {
	base := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == '\\' || r == 0x7f {
			return -1
		}
		return r
	}, path.Base(program))
	return strings.ToLower(base + "-" + rand.Text()[:5])
}

// isNull reports whether a file is /dev/null, or NUL on Windows.
func isNull(f *os.File) bool {
	if f == nil {
		return true
	}
	info, err := f.Stat()
	null, nerr := os.Stat(os.DevNull)
	return err == nil && nerr == nil && os.SameFile(info, null)
}

// stream passes input, output and signals until the command has ended or the user leaves.
func (r *runCommand) stream(conn *connection, p *client.Process, s *terminal.Session, keys *terminal.Escape, signals <-chan os.Signal) error {
	s.On(conn.Client, conn.PublicID(), p.ID())
	var sources []terminal.Events
	for range s.Outputs() {
		sources = append(sources, p.Subscribe())
	}
	reachable := false // when the user left
	denial, timeUp := "", false
	var used *wire.Usage
	stdin := p.Stdin()
	end := s.Stream(p, sources, &terminal.Input{To: stdin, Close: stdin.Close, Escape: keys, Ended: func(end terminal.Ending) {
		reachable = s.Connected()
		denial, timeUp, used = r.denial(p, end), endedByTime(p, end), r.usage(p, end)
		conn.end()
	}}, signals)
	if errors.Is(end.Left, terminal.ErrEscape) {
		s.EndLine()
		if !reachable {
			return codedError{exitLost, errors.New("disconnected while the connection was lost: the command runs on until the server ends its session")}
		}
		return codedError{exitLost, errors.New("disconnected; the command was ended")}
	}
	if denial != "" {
		fmt.Fprintln(r.stderr, denial)
	}
	if r.stats {
		printStats(r.stderr, used)
	}
	if timeUp && end.Left == nil && end.Output == nil {
		return codedError{exitTimeout, fmt.Errorf("the server ended the command: %s", timeLimitText(p.Limits()))}
	}
	return endingError(end)
}

// verdictPatience bounds the request that asks whether the sandbox denied something. Only servers
// that do not say so with the exit are asked.
const verdictPatience = 5 * time.Second

// denial returns a line that explains the failure of a confined command. It is empty if there is
// nothing to explain, or the flags say that the user does not want it. A login shell gets no line,
// because its commands report their own failures.
func (r *runCommand) denial(p *client.Process, end terminal.Ending) string {
	confined := r.sandbox.profile != "" && r.sandbox.profile != sandboxhost.ProfileFull || r.sandbox.hosts.given()
	if !confined || r.login || !end.Exited || end.Code == 0 || end.Timeout || end.Left != nil || !r.explain && (r.quiet || !terminal.Is(r.stderr)) {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), verdictPatience)
	defer cancel()
	exit, err := p.Result(ctx)
	if err != nil || !exit.SandboxDenied {
		return ""
	}
	return denialText(exit.Denial, r.sandbox.hosts.given())
}
