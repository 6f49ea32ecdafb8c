package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

const (
	// copyJobs is how many files are under way at a time. A server has at most 16
	// uploads of a session open, and those of an interrupted copy count.
	copyJobs    = 4
	copyJobsMax = 8

	// keepCopy is how long a server is asked to keep what an interrupted copy has
	// sent. It drops uploads that hear nothing for that long.
	keepCopy = time.Hour

	// takeOver is how long we try to get the session of a copy that was killed, each
	// takeOverStep. A server asks a connection that is silent for a sign of life.
	takeOver     = 10 * time.Second
	takeOverStep = 200 * time.Millisecond
)

// A side is one end of a copy.
type side struct {
	remote bool
	path   string // as it was given
}

// parseSide understands PATH and :PATH.
func parseSide(arg string) side {
	if path, ok := strings.CutPrefix(arg, ":"); ok {
		return side{true, path}
	}
	return side{false, arg}
}

func (s side) String() string { return s.name(s.path) }

// name is how a path of this side is shown.
func (s side) name(path string) string {
	if s.remote {
		return terminal.Name(":" + path)
	}
	return terminal.Name(path)
}

// copyFlags say how to copy.
type copyFlags struct {
	serverFlags
	asJSON  bool
	verbose bool
	verify  bool
	jobs    count
	keep    bool // times and permissions
	exclude []string
	stream  bool // the source is what was read from standard input
}

func (f *copyFlags) define(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.jobs = copyJobs
	fs.BoolVarP(&f.keep, "preserve", "p", false, "keep times and permissions, also of directories and of files that are\nreplaced")
	fs.StringArrayVar(&f.exclude, "exclude", nil, "leave out files and directories below a source that match `PATTERN`, as\nin a .gitignore file; can be repeated")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "name each file that was copied")
	fs.BoolVar(&f.verify, "verify", false, "read every file once more on both sides, and compare")
	fs.Var(&f.jobs, "jobs", fmt.Sprintf("copy so many files at a time, at most %d", copyJobsMax))
	fs.BoolVar(&f.asJSON, "json", false, "print one JSON object per line for each file")
	group(fs, "Copy", "preserve", "exclude", "verbose", "verify", "jobs", "json")
	f.serverFlags.define(fs, ownServer)
	fs.Lookup("quiet").Usage = "say nothing but errors"
	onlyOnce(fs)
}

func newCp() *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use:   "cp [flags] SOURCE... DESTINATION",
		Short: "Copy files and directories to another machine, or from there",
		Long: "Copy files, and directories with all that is in them. :PATH is a path on the server's machine: an\n" +
			"absolute one, ~/PATH below the home directory, or one below the server's directory. All sources are\n" +
			"on the same side. If the destination is a directory, they are copied into it. A local name that\n" +
			"starts with a colon is written ./:NAME.\n\n" +
			"Lost connections only cost time. After an interruption, the same command again goes on where it\n" +
			"was. What is uploaded is compared by its SHA-256 and takes its place when it is whole.",
		Example: "  tether cp big.iso :/srv/images/\n" +
			"  tether cp :/var/log/syslog .\n" +
			"  tether cp -p --exclude .git --exclude '*.o' src :/srv/\n" +
			"  tether cp --url ssh://build src docs :project",
		Args: func(_ *cobra.Command, args []string) error {
			_, _, err := parseSides(args)
			return err
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			sources, destination, err := parseSides(args)
			if err != nil {
				return err
			}
			return flags.copy(cmd, sources, destination)
		},
	}
	recursive := false
	flags.define(cmd.Flags())
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "")
	cmd.Flags().Lookup("recursive").Hidden = true // people type it; directories are always copied
	return cmd
}

// parseSides understands the arguments of cp.
func parseSides(args []string) (sources []side, destination side, err error) {
	if len(args) < 2 {
		return nil, side{}, usageError{errors.New("a source and a destination are needed")}
	}
	for _, a := range args {
		if a == "" {
			return nil, side{}, usageError{errors.New("a path is empty")}
		}
		sources = append(sources, parseSide(a))
	}
	last := len(sources) - 1
	sources, destination = sources[:last], sources[last]
	for _, s := range sources {
		switch {
		case s.remote != sources[0].remote:
			return nil, side{}, usageError{errors.New("all sources must be on the same side")}
		case !s.remote && !destination.remote:
			return nil, side{}, usageError{errors.New("neither side is on the server; its paths begin with a colon, as in :/srv/x")}
		}
	}
	return sources, destination, nil
}

// A copying is a copy under way.
type copying struct {
	copyFlags
	sources     []side
	destination side
	stdout      io.Writer
	excluded    []sandbox.Glob
	umask       fs.FileMode

	conn     *connection
	files    *client.Files
	progress *terminal.Progress
	journal  *journal

	mu       sync.Mutex // guards stdout and the fields below
	failures int
	fatal    error // the session is lost
	output   error // of an event
}

// copy does what the command line says.
func (f *copyFlags) copy(cmd *cobra.Command, sources []side, destination side) error {
	excluded, err := parseExcludes(f.exclude)
	if err != nil {
		return err
	}
	if f.keep && f.stream {
		return usageError{errors.New("-p does not go with standard input, which has no time and no permissions")}
	}
	mask := umask() // before anything else could make a file
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	f.jobs = min(f.jobs, copyJobsMax)
	c := &copying{copyFlags: *f, sources: sources, destination: destination, stdout: cmd.OutOrStdout(), excluded: excluded, umask: mask}
	status := terminal.NewStatusLine(cmd.ErrOrStderr(), f.quiet)
	c.progress = terminal.NewProgress(cmd.ErrOrStderr(), f.quiet || f.asJSON)
	err = c.connect(ctx, status)
	if err == nil {
		err = c.run(ctx)
	}
	broken := err != nil && !c.stream && (ctx.Err() != nil || errors.Is(err, client.ErrSessionLost))
	c.progress.Close()
	if c.conn != nil {
		if broken {
			c.conn.leave() // it has what was sent
		} else {
			c.conn.end()
		}
	}
	c.journal.close(broken)
	switch {
	case err == nil:
		return c.report()
	case ctx.Err() != nil:
		reason, _ := errors.AsType[terminal.SignalError](context.Cause(ctx))
		text := "interrupted"
		if broken {
			text += "; the same command again goes on where it was"
		}
		return codedError{exitSignal + int(reason.Signal), errors.New(text)}
	case broken:
		return fmt.Errorf("%w; the same command again goes on where it was", err)
	}
	return err
}

// connect opens a session, if possible the one that has what was sent before.
func (c *copying) connect(ctx context.Context, status *terminal.StatusLine) error {
	a, _, err := c.address()
	if err != nil {
		return err
	}
	if !c.stream { // which nobody can read again
		c.journal = openJournal(a.url+"\x00"+strings.Join(a.command, "\x00"), c.destination.String())
	}
	o := client.Options{TTL: keepCopy}
	if c.progress.Bar() {
		status, o.OnState = nil, c.progress.Tell // the bar has only one line
	}
	if c.journal != nil && c.journal.session != "" {
		o.Resume = c.journal.session
		err = c.comeBack(ctx, status, o)
		if _, refused := errors.AsType[*client.ServerError](err); err == nil || !refused {
			return err
		}
		o.Resume = "" // it has ended
	}
	c.conn, err = c.dial(ctx, status, o, homeServer(false))
	return err
}

// comeBack resumes a session. The server may not have noticed yet that the one who had
// it is gone.
func (c *copying) comeBack(ctx context.Context, status *terminal.StatusLine, o client.Options) (err error) {
	late := time.After(takeOver)
	for {
		c.conn, err = c.dial(ctx, status, o, homeServer(false))
		if e, ok := errors.AsType[*client.ServerError](err); !ok || e.Code != wire.CodeSessionAttached {
			return err
		}
		select {
		case <-time.After(takeOverStep):
		case <-late:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run copies. Its error is one that ends the whole; those of single files are told as
// they come.
func (c *copying) run(ctx context.Context) error {
	c.files = c.conn.Files(nil)
	if c.keep && !c.conn.Has(client.FeatureAttributes) {
		return errNoAttributes
	}
	plan, err := c.plan(ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, j := range plan.files {
		total += j.size
	}
	c.progress.Plan(len(plan.files), total)
	steps := []struct {
		jobs []job
		do   func(context.Context, job) error
	}{{plan.directories, c.makeDirectory}, {plan.files, c.copyFile}, {plan.links, c.makeLink}}
	for _, s := range steps {
		if err := c.all(ctx, s.jobs, s.do); err != nil {
			return err
		}
	}
	if c.keep {
		return c.keepDirectories(ctx, plan.directories)
	}
	return nil
}

// all does the jobs, several at a time. A job that fails does not stop the others,
// unless the session is lost.
func (c *copying) all(ctx context.Context, jobs []job, do func(context.Context, job) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan job)
	var workers sync.WaitGroup
	for range min(int(c.jobs), len(jobs)) {
		workers.Go(func() { // ends with the queue
			for j := range queue {
				if err := do(ctx, j); err != nil && !c.failed(ctx, j, err) {
					cancel()
				}
			}
		})
	}
	for _, j := range jobs {
		select {
		case queue <- j:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	workers.Wait()
	if c.fatal != nil {
		return c.fatal
	}
	return context.Cause(ctx)
}

// failed notes what went wrong, and reports whether others may go on.
func (c *copying) failed(ctx context.Context, j job, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, client.ErrSessionLost):
		c.fatal = err
		return false
	}
	c.failures++
	culprit := c.destination.name(j.to)
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == j.from {
		culprit = c.sources[0].name(j.from)
	}
	c.progress.Say("%s%s: %s", prefix, culprit, reason(err))
	c.event(copyEvent{Event: "error", Source: jsonPath(j.from), Target: jsonPath(j.to), Error: reason(err)})
	return true
}

// complain tells of something that is not copied.
func (c *copying) complain(s side, path string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	c.progress.Say("%s%s: %s", prefix, s.name(path), reason(err))
	c.event(copyEvent{Event: "error", Source: jsonPath(path), Error: reason(err)})
}

// report says how it went.
func (c *copying) report() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.progress
	files, bytes, took := p.Totals()
	c.event(copyEvent{Event: "done", Files: &files, Bytes: bytes, Failures: c.failures, Ms: took.Milliseconds()})
	if !c.quiet && !c.asJSON {
		text := p.Summary()
		if n := c.conn.Status().Connection - 1; n > 0 {
			text += "; the connection was lost " + terminal.Plural(n, "time")
		}
		p.Say("%s", text)
	}
	if c.failures > 0 && c.output == nil {
		return codedError{code: exitError}
	}
	return c.output
}

// A copyEvent is a line of --json.
type copyEvent struct {
	Event    string   `json:"event"` // "copied", "error" or "done"
	Source   jsonPath `json:"source,omitempty"`
	Target   jsonPath `json:"target,omitempty"`
	Bytes    int64    `json:"bytes"`
	Resumed  int64    `json:"resumed,omitempty"` // of these: copied earlier
	SHA256   string   `json:"sha256,omitempty"`
	Error    string   `json:"error,omitempty"`
	Files    *int     `json:"files,omitempty"`
	Failures int      `json:"failures,omitempty"`
	Ms       int64    `json:"ms,omitempty"`
}

// event prints a line for machines. The caller has c.mu.
func (c *copying) event(e copyEvent) {
	if !c.asJSON {
		return
	}
	if err := json.NewEncoder(c.stdout).Encode(e); err != nil && c.output == nil {
		c.output = terminal.OutputError(err)
	}
}

// copied tells of a file.
func (c *copying) copied(j job, resumed int64, sum string) {
	c.progress.Finish()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.event(copyEvent{Event: "copied", Source: jsonPath(j.from), Target: jsonPath(j.to), Bytes: j.size, Resumed: resumed, SHA256: sum})
	if c.verbose && !c.asJSON {
		c.progress.Say("%s -> %s", c.sources[0].name(j.from), c.destination.name(j.to))
	}
}
