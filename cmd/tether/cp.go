//go:build mcp || fleet || !split

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/copy"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/terminal"
)

const (
	// copyJobs is how many files are copied at a time.
	copyJobs = 4

	// keepCopy is how long the server keeps the received part of an interrupted copy. A
	// server drops uploads without a request for that long anyway.
	keepCopy = time.Hour
)

// parseLocation understands PATH and :PATH.
func parseLocation(arg string) copy.Location {
	path, remote := strings.CutPrefix(arg, ":")
	return copy.Location{Remote: remote, Path: path}
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
	stream  bool // the source is a file with the content of standard input
}

func (f *copyFlags) define(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.jobs = copyJobs
	fs.BoolVarP(&f.keep, "preserve", "p", false, "keep times and permissions, also of directories and of files that are\nreplaced")
	fs.StringArrayVar(&f.exclude, "exclude", nil, "leave out files and directories below a source that match `PATTERN`, as\nin a .gitignore file; can be repeated")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "name each file that was copied")
	fs.BoolVar(&f.verify, "verify", false, "read every file once more on both sides, and compare")
	fs.Var(&f.jobs, "jobs", fmt.Sprintf("how many files to copy at a time, at most %d", copy.MaxJobs))
	fs.BoolVar(&f.asJSON, "json", false, "print one JSON object per line for each file")
	group(fs, "Copy", "preserve", "exclude", "verbose", "verify", "jobs", "json")
	f.serverFlags.define(fs, ownServer)
	fs.Lookup("quiet").Usage = "print only errors"
	onlyOnce(fs)
}

func newCp() *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use:   nameCp + " [flags] SOURCE... DESTINATION",
		Short: shortCp,
		Long: "Copy files, and directories with their content. :PATH is a path on the server's machine: an\n" +
			"absolute path, ~/PATH below the home directory, or a path below the server's directory. All sources\n" +
			"are on the same side. If the destination is a directory, they are copied into it. A local name that\n" +
			"starts with a colon is written ./:NAME.\n\n" +
			"Lost connections only cost time. After an interruption, run the same command again: it continues\n" +
			"where it stopped. An upload is compared by its SHA-256 and replaces the target when it is complete.",
		Example: "  tether cp big.iso :/srv/images/\n" +
			"  tether cp :/var/log/syslog .\n" +
			"  tether cp -p --exclude .git --exclude '*.o' src :/srv/\n" +
			"  tether cp --url ssh://build src docs :project",
		Args: func(_ *cobra.Command, args []string) error {
			_, _, err := parseLocations(args)
			return err
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			sources, destination, err := parseLocations(args)
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

// parseLocations understands the arguments of cp.
func parseLocations(args []string) (sources []copy.Location, destination copy.Location, err error) {
	refuse := func(text string) ([]copy.Location, copy.Location, error) {
		return nil, copy.Location{}, usageError{errors.New(text)}
	}
	if len(args) < 2 {
		return refuse("a source and a destination are needed")
	}
	for _, a := range args {
		if a == "" {
			return refuse("a path is empty")
		}
		sources = append(sources, parseLocation(a))
	}
	last := len(sources) - 1
	sources, destination = sources[:last], sources[last]
	for _, s := range sources {
		switch {
		case s.Remote != sources[0].Remote:
			return refuse("all sources must be on the same side")
		case !s.Remote && !destination.Remote:
			return refuse("neither side is on the server; its paths begin with a colon, as in :/srv/x")
		}
	}
	return sources, destination, nil
}

// copy does what the command line says.
func (f *copyFlags) copy(cmd *cobra.Command, sources []copy.Location, destination copy.Location) error {
	excluded, err := parseExcludes(f.exclude)
	if err != nil {
		return err
	}
	if f.keep && f.stream {
		return usageError{errors.New("-p cannot be used with standard input, which has no time and no permissions")}
	}
	mask := copy.Umask() // before anything else could make a file
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	r := &copyReport{flags: f, from: sources[0].Remote, to: destination.Remote, stdout: cmd.OutOrStdout(),
		Progress: terminal.NewProgress(cmd.ErrOrStderr(), f.quiet || f.asJSON)}
	conn, journal, err := f.connect(ctx, cmd.ErrOrStderr(), r.Progress, destination)
	if err == nil {
		err = copy.Run(ctx, conn.Client, journal, copy.Config{
			Sources: sources, Destination: destination, Preserve: f.keep, Verify: f.verify, Excluded: excluded,
			Jobs: min(int(f.jobs), copy.MaxJobs), Stream: f.stream, Umask: mask, Report: r,
		})
	}
	resumable := err != nil && journal.HasProgress()
	r.Close()
	lost := 0
	if conn != nil {
		lost = conn.Status().Connection - 1
		if resumable {
			conn.leave() // the next run resumes the session, which has the uploaded parts
		} else {
			conn.end()
		}
	}
	journal.Close(resumable)
	if err == nil {
		return r.summary(lost)
	}
	return f.failure(ctx, err, resumable, destination)
}

// failure returns the error of a copy that ended early, with its exit code and what the user can do about it.
func (f *copyFlags) failure(ctx context.Context, err error, resumable bool, destination copy.Location) error {
	const again = "; run the same command again to continue"
	switch s, interrupted := errors.AsType[terminal.SignalError](context.Cause(ctx)); {
	case interrupted && resumable:
		return codedError{signaled(s).code, errors.New("interrupted" + again)}
	case interrupted:
		return codedError{signaled(s).code, errors.New("interrupted")}
	case resumable && errors.Is(err, client.ErrSessionLost):
		return fmt.Errorf("%w"+again, err)
	case errors.Is(err, copy.ErrRelative):
		return usageError{err}
	case errors.Is(err, copy.ErrNoAttributes):
		return fmt.Errorf("%w, so that -p cannot keep them; copy without -p", err)
	case errors.Is(err, copy.ErrMissingDirectory) && destination.Remote:
		return fmt.Errorf("%w; make it with %s", err, f.commandLine("fs", "mkdir", "-p", destination.Path))
	case errors.Is(err, copy.ErrMissingDirectory):
		return fmt.Errorf("%w; make it with `mkdir -p`", err)
	}
	return err
}

// connect opens a session. If an interrupted copy has left one with uploaded parts, connect resumes that.
func (f *copyFlags) connect(ctx context.Context, stderr io.Writer, p *terminal.Progress, destination copy.Location) (conn *connection, journal *copy.Journal, err error) {
	a, _, err := f.address()
	if err != nil {
		return nil, nil, err
	}
	if !f.stream { // standard input cannot be read again by a later run
		journal = copy.OpenJournal(a.key(), destination.String())
	}
	status := terminal.NewStatusLine(stderr, f.quiet)
	o := client.Options{TTL: keepCopy, Resume: journal.Session()}
	if p.Bar() {
		status, o.OnState = nil, p.Tell // the terminal has one line for both
	}
	conn, err = f.dial(ctx, status, o, homeServer(false))
	if _, refused := errors.AsType[*client.ServerError](err); refused && o.Resume != "" { // the session has ended
		o.Resume = ""
		conn, err = f.dial(ctx, status, o, homeServer(false))
	}
	return conn, journal, err
}

// A copyReport prints the progress of a copy for people, or with --json for programs. It is a copy.Reporter.
type copyReport struct {
	*terminal.Progress
	flags    *copyFlags
	from, to bool // which side is remote

	mu       sync.Mutex // guards stdout and the fields below
	stdout   io.Writer
	failures int
	output   error // of stdout
}

// Failed implements copy.Reporter.
func (r *copyReport) Failed(f copy.Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures++
	reason := copy.Reason(f.Err)
	r.Say("%s%s: %s", prefix, f.At, reason)
	r.event(copyEvent{Event: "error", Source: jsonPath(f.From), Target: jsonPath(f.To), Error: reason})
}

// Copied implements copy.Reporter.
func (r *copyReport) Copied(f copy.File) {
	r.Finish()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event(copyEvent{Event: "copied", Source: jsonPath(f.From), Target: jsonPath(f.To), Bytes: f.Bytes, Resumed: f.Resumed, SHA256: f.SHA256})
	if r.flags.verbose && !r.flags.asJSON {
		r.Say("%s -> %s", copy.Location{Remote: r.from, Path: f.From}, copy.Location{Remote: r.to, Path: f.To})
	}
}

// summary prints the result of the copy. lost is how often the connection was lost.
func (r *copyReport) summary(lost int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	files, bytes, took := r.Totals()
	r.event(copyEvent{Event: "done", Files: &files, Bytes: bytes, Failures: r.failures, Ms: took.Milliseconds()})
	if !r.flags.quiet && !r.flags.asJSON {
		text := r.Summary()
		if lost > 0 {
			text += "; the connection was lost " + terminal.Plural(lost, "time")
		}
		r.Say("%s", text)
	}
	if r.failures > 0 && r.output == nil {
		return codedError{code: exitError}
	}
	return r.output
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

// event prints a line of --json. The caller holds r.mu.
func (r *copyReport) event(e copyEvent) {
	if !r.flags.asJSON {
		return
	}
	if err := json.NewEncoder(r.stdout).Encode(e); err != nil && r.output == nil {
		r.output = terminal.OutputError(err)
	}
}

// parseExcludes reads the patterns of --exclude. Without any, it returns nil.
func parseExcludes(patterns []string) (excluded func(inside []string, isDir bool) bool, err error) {
	var globs []sandbox.Glob
	for _, p := range patterns {
		refuse := func(text string) (func([]string, bool) bool, error) {
			return nil, usageError{fmt.Errorf("--exclude %q: %s", p, text)}
		}
		if strings.Trim(p, "/") == "" {
			return refuse("the pattern is empty")
		}
		for part := range strings.SplitSeq(p, "/") {
			if part == "." || part == ".." {
				return refuse("a pattern must not have . or .. as a part; /NAME matches a name directly below a source")
			}
		}
		g, ok := sandbox.ParseGlob(p)
		if !ok {
			return refuse("the braces have too many alternatives")
		}
		globs = append(globs, g)
	}
	if len(globs) == 0 {
		return nil, nil
	}
	return func(inside []string, isDir bool) bool {
		return slices.ContainsFunc(globs, func(g sandbox.Glob) bool { return g.Match(inside, isDir) })
	}, nil
}

// jsonPath is a path in JSON: text, or an object with base64 if it is not UTF-8.
type jsonPath string

// MarshalJSON implements json.Marshaler.
func (p jsonPath) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(struct {
		Base64 []byte `json:"base64"`
	}{[]byte(p)})
}
