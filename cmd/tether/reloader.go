package main

import (
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/wire"
)

// reloadable are the flags of a server that can read its settings again.
type reloadable interface {
	define(*cobra.Command)
	fileFlags() *configFlags
	settings(stderr io.Writer) (*serverSettings, error)
}

// serverSettings are those that a running server may change, with all others of their kind.
type serverSettings struct {
	listen listen.Config
	server server.Config // of `tether serve` only
	level  slog.Level
}

// A reloader reads the settings of a running server again: the configuration file, and the files that its settings and the flags name.
type reloader struct {
	table  string            // of the configuration file
	args   []string          // flags of the command line
	fresh  func() reloadable // makes the flags
	level  *slog.LevelVar    // of the log
	stderr io.Writer         // for warnings

	// They are set before the first reload.
	listener *listen.Listener
	limits   func(*server.Config) (changed bool, err error) // nil: the server has no limits that it can change
	keep     func(taken []string) error                     // passes the settings of the file on to later workers; nil: there are none

	mu    sync.Mutex // held during a reload
	taken []string   // the settings of the file that are in force
}

// newReloader returns a reloader for a command that runs with these flags. table is that of the configuration file. args is the whole command line; in a
// worker, it also has settings of the file.
func newReloader(cmd *cobra.Command, table string, args []string, running reloadable, log *logFlags, fresh func() reloadable) *reloader {
	r := &reloader{table: table, fresh: fresh, level: &log.min, stderr: cmd.ErrOrStderr(), taken: running.fileFlags().taken}
	if i := slices.Index(args, "--"+flagFromFile); i >= 0 {
		args, r.taken = args[:i], args[i+1:]
	}
	i := slices.Index(args, cmd.Name())
	r.args = slices.Concat(args[:max(i, 0)], args[i+1:])
	return r
}

// reload reads the settings again. Each kind of them is replaced as a whole; if it cannot be used, the earlier ones stay in force.
func (r *reloader) reload() wire.ReloadResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := wire.ReloadResult{Restart: []string{}}
	next, err := r.read()
	before := r.taken
	if err == nil {
		result.Restart = r.needRestart(next)
	} else {
		next = before
	}
	for _, kind := range wire.SettingsKinds {
		changed := false
		if kind != wire.SettingsFile {
			taken := replaced(r.taken, next, kind)
			if changed, err = r.apply(kind, taken); err == nil {
				r.taken = taken
			}
		}
		result.Settings = append(result.Settings, listen.Reloaded(kind, changed, err))
	}
	if r.keep != nil && !slices.Equal(before, r.taken) {
		if err := r.keep(r.taken); err != nil { // the settings are in force, and are lost when the server dies or is upgraded
			result.Settings = append(result.Settings, listen.Reloaded(wire.SettingsFile, true, err))
		}
	}
	r.listener.Report(result.Settings...)
	return result
}

// read returns the settings of the file as of now, if a server could be started with them.
func (r *reloader) read() ([]string, error) {
	flags, fs, err := r.parse(nil)
	if err == nil {
		err = flags.fileFlags().read(fs, r.table)
	}
	if err == nil {
		_, err = flags.settings(io.Discard)
	}
	return flags.fileFlags().taken, err
}

// parse returns the flags with these settings of the file.
func (r *reloader) parse(taken []string) (reloadable, *pflag.FlagSet, error) {
	flags, cmd := r.fresh(), &cobra.Command{}
	flags.define(cmd)
	return flags, cmd.Flags(), cmd.Flags().Parse(slices.Concat(r.args, taken))
}

// load returns the settings of the server with these of the file.
func (r *reloader) load(taken []string, stderr io.Writer) (*serverSettings, error) {
	flags, _, err := r.parse(taken)
	if err != nil {
		return nil, err
	}
	return flags.settings(stderr)
}

// restore goes on with settings of the file that an earlier worker has read.
func (r *reloader) restore(taken []string) (*serverSettings, error) {
	s, err := r.load(taken, io.Discard)
	if err != nil {
		return nil, err
	}
	r.taken = taken
	r.level.Set(s.level)
	return s, nil
}

// apply puts settings of one kind into force.
func (r *reloader) apply(kind string, taken []string) (changed bool, err error) {
	warnings := io.Discard
	if kind == wire.SettingsTokens { // once is enough
		warnings = r.stderr
	}
	s, err := r.load(taken, warnings)
	if err != nil {
		return false, err
	}
	switch kind {
	case wire.SettingsTokens:
		return r.listener.ReloadTokens(s.listen.Auth)
	case wire.SettingsCertificates:
		changed, err = r.listener.ReloadCertificates(s.listen.TLS)
		return changed, withListenFlags(s.listen, err)
	case wire.SettingsLimits:
		if r.limits == nil {
			return false, nil
		}
		return r.limits(&s.server)
	}
	changed = r.level.Level() != s.level
	r.level.Set(s.level)
	return changed, nil
}

// needRestart returns the names of settings that are different in the file, and that a running server does not change.
func (r *reloader) needRestart(next []string) []string {
	names := []string{}
	_, old, err := r.parse(r.taken)
	_, now, err2 := r.parse(next)
	if err != nil || err2 != nil { // both were parsed before
		return names
	}
	now.VisitAll(func(f *pflag.Flag) {
		if kindOfSetting(f.Name) == "" && f.Value.String() != old.Lookup(f.Name).Value.String() {
			names = append(names, f.Name)
		}
	})
	return names
}

// kindOfSetting returns the kind of a setting; "": it needs a restart. The names of files with secrets do, because sandboxes hide these files from
// the start on, and limits of all commands together, because the kernel would kill commands that exceed a lower one.
func kindOfSetting(name string) string {
	switch name = " " + name + " "; {
	case strings.Contains(" ws-auth ws-token-sha256 ws-issuer ws-audience ws-max-clock-skew-seconds ", name), strings.HasPrefix(name, " oidc-"):
		return wire.SettingsTokens
	case strings.Contains(" tls-cert tls-client-ca ", name):
		return wire.SettingsCertificates
	case strings.Contains(" limit-memory limit-cpus limit-pids limit-files limit-time session-ttl session-ttl-max retain spool-limit spool-total ", name):
		return wire.SettingsLimits
	case name == " log-level ":
		return wire.SettingsLogLevel
	}
	return ""
}

// replaced returns settings in which those of one kind are the next ones. Each is a flag with its value.
func replaced(taken, next []string, kind string) []string {
	is := func(setting string) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(setting, "--"), "=")
		return kindOfSetting(name) == kind
	}
	var list []string
	for _, setting := range taken {
		if !is(setting) {
			list = append(list, setting)
		}
	}
	for _, setting := range next {
		if is(setting) {
			list = append(list, setting)
		}
	}
	return list
}

// onHangup reads the settings again for each SIGHUP to this process, until stop is called. If the process has a terminal, SIGHUP ends it, as usual.
func (r *reloader) onHangup() (stop func()) {
	if !hangupIgnored && hasTerminal() {
		return func() {}
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	end := r.on(caught)
	return func() {
		signal.Stop(caught)
		end()
	}
}

// hangupIgnored reports whether this program was started with SIGHUP ignored. It has to be read before the first signal is caught.
var hangupIgnored = signal.Ignored(syscall.SIGHUP)

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	f, err := os.Open("/dev/tty")
	return err == nil && f.Close() == nil
}

// on reads the settings again for each element of asked, until stop is called.
func (r *reloader) on(asked <-chan os.Signal) (stop func()) {
	stopped, ended := make(chan struct{}), make(chan struct{})
	go func() { // stop waits for it
		defer close(ended)
		for {
			select {
			case <-asked:
				r.reload()
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}
