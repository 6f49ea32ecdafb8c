package server

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/statedir"
	"github.com/tetherexec/tether/wire"
)

// Defaults for the zero values of a Config.
const (
	DefaultSessionTTL    = 30 * time.Second
	DefaultSessionTTLMax = 24 * time.Hour
	DefaultRetain        = outlog.DefaultRetain
	DefaultSpoolLimit    = outlog.DefaultLimit
	DefaultSpoolTotal    = 8 << 30
)

// Config has all settings of a server. The zero value has the default limits.
type Config struct {
	SessionTTL    time.Duration // how long a session outlives its connection
	SessionTTLMax time.Duration // the most a client may ask for
	IdleExit      time.Duration // Serve returns after this time without connections and sessions; 0: never

	Retain     int64 // bytes of output kept per process after they were sent
	SpoolLimit int64 // bytes of unsent output per process; at the limit the process has to wait
	SpoolTotal int64 // bytes of output of all processes together

	StateDir string   // "": statedir.Default
	Durable  bool     // a server that is killed with its keeper leaves its state to the next one. It must have a keeper
	Private  []string // further paths that no confined command may see, such as those of listen.Config.Private
	Version  string   // what the server calls itself; "": "dev"

	// UserSockets lets confined commands with the network on use the sockets of other
	// programs of this user, see confine.Config.
	UserSockets bool

	// Backend chooses what builds the sandboxes of commands; empty: the first that works.
	Backend confine.Backend

	// Subreaper makes this process adopt and reap the orphans of commands. Only
	// a program that is nothing but a server may want that.
	Subreaper bool

	// OwnGroup allows to move this process into a control group of its own, see proc.Config.
	OwnGroup bool

	// Limits are those of each command that asks for none, and the most that a client may ask for. TotalLimits are those
	// of all commands together. If one of them cannot be enforced on this machine, New fails.
	Limits      proc.Limits
	TotalLimits proc.Limits

	// Forward says to which targets clients may forward ports; empty: to this machine.
	Forward ports.Policy

	// ForwardReverse says where clients may let this server listen for them; empty: nowhere.
	ForwardReverse ports.Policy

	// Kept is what the keeper has for this server; nil: there is no keeper, and sessions and commands end
	// with this process.
	Kept *Kept

	// Reload reads the settings again, and says what has become of them; nil: that is not possible.
	Reload func() wire.ReloadResult

	Audit audit.Config // without a target, nothing is recorded
	Spans Tracer       // nil: there are no spans
	Log   *slog.Logger // nil: nothing is logged

	LogDropped func() uint64 // how many lines Log has lost; nil: none
}

// Validate checks that the settings are possible and fit each other. It touches
// nothing outside c.
func (c Config) Validate() error {
	for _, size := range []struct {
		name  string
		bytes int64
	}{{"retained output", c.Retain}, {"the limit of unsent output", c.SpoolLimit}, {"the limit of all output", c.SpoolTotal}} {
		if size.bytes < 0 {
			return fmt.Errorf("%s must not be negative", size.name)
		}
	}
	if c.Forward != "" && !slices.Contains(ports.Policies, c.Forward) {
		return fmt.Errorf("%q is no policy for forwarded ports", c.Forward)
	}
	if c.ForwardReverse != "" && !slices.Contains(ports.ReversePolicies, c.ForwardReverse) {
		return fmt.Errorf("%q is no policy for listening", c.ForwardReverse)
	}
	if c.IdleExit < 0 {
		return errors.New("the idle time must not be negative")
	}
	if c.SessionTTL < 0 || c.SessionTTLMax < 0 {
		return errors.New("the times to live of sessions must not be negative")
	}
	if d := c.WithDefaults(); d.SessionTTL > d.SessionTTLMax {
		return fmt.Errorf("the time to live of sessions, %v, is more than the longest that a client may ask for, %v", d.SessionTTL, d.SessionTTLMax)
	}
	return nil
}

// WithDefaults returns c with defaults in place of zero values, except for
// StateDir.
func (c Config) WithDefaults() Config {
	orElse(&c.SessionTTL, DefaultSessionTTL)
	orElse(&c.SessionTTLMax, DefaultSessionTTLMax)
	orElse(&c.Retain, DefaultRetain)
	orElse(&c.SpoolLimit, DefaultSpoolLimit)
	orElse(&c.SpoolTotal, DefaultSpoolTotal)
	orElse(&c.Version, "dev")
	orElse(&c.Forward, ports.Policies[0])
	orElse(&c.ForwardReverse, ports.ReversePolicies[0])
	orElse(&c.Log, slog.New(slog.DiscardHandler))
	c.Audit.Log = c.Log
	return c
}

// TakeLimits gives c those limits of another Config that a running server can change.
func (c *Config) TakeLimits(other *Config) {
	c.SessionTTL, c.SessionTTLMax, c.Limits = other.SessionTTL, other.SessionTTLMax, other.Limits
	c.Retain, c.SpoolLimit, c.SpoolTotal = other.Retain, other.SpoolLimit, other.SpoolTotal
}

func orElse[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}

// private returns the paths that no confined command may see, because with them it
// could become a client.
func (c Config) private() []string {
	return slices.Concat([]string{c.StateDir}, statedir.Private(c.Log), c.Private)
}
