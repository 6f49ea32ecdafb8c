package wire

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Limits are those of a process with everything that it starts (tether). A limit that is nil is not asked for. An unknown
// member is an error, unlike in all other parameters: a limit that is not understood would not be enforced.
type Limits struct {
	MemoryBytes *uint64 `json:"memoryBytes,omitempty"`
	CPUs        *Amount `json:"cpus,omitempty"`      // processors; may be a fraction
	Processes   *uint64 `json:"processes,omitempty"` // threads count
	OpenFiles   *uint64 `json:"openFiles,omitempty"` // of each process
	DiskBytes   *uint64 `json:"diskBytes,omitempty"` // written
	TimeMs      *uint64 `json:"timeMs,omitempty"`    // from the start to the end

	// BestEffort lets the process start although a limit cannot be enforced, or only in part, or is above what the server
	// grants. The answer says what is in force.
	BestEffort *bool `json:"bestEffort,omitempty"`
}

// Names of limits.
const (
	LimitMemoryBytes = "memoryBytes"
	LimitCPUs        = "cpus"
	LimitProcesses   = "processes"
	LimitOpenFiles   = "openFiles"
	LimitDiskBytes   = "diskBytes"
	LimitTimeMs      = "timeMs"
)

// counts are the limits that are whole numbers.
func (l *Limits) counts() map[string]**uint64 {
	return map[string]**uint64{
		LimitMemoryBytes: &l.MemoryBytes, LimitProcesses: &l.Processes, LimitOpenFiles: &l.OpenFiles,
		LimitDiskBytes: &l.DiskBytes, LimitTimeMs: &l.TimeMs,
	}
}

func limitsError(name, want string) error {
	return fmt.Errorf("limits: `%s` must be %s; without a limit, leave it out", name, want)
}

const (
	wholeLimit = "a whole number above zero"
	cpuLimit   = "a number above zero"
)

func (l *Limits) decodeWire(d *decoder) error {
	*l = Limits{}
	counts := l.counts()
	return d.members("struct Limits", func(key []byte) error {
		name := string(key)
		count, known := counts[name]
		null := d.peek() == 'n'
		switch {
		case null && (known || name == LimitCPUs || name == "bestEffort"):
			return d.word("null")
		case name == "bestEffort":
			yes := false
			if err := d.into(&yes); err != nil {
				return fmt.Errorf("limits: %w", err)
			}
			l.BestEffort = &yes
		case name == LimitCPUs:
			var amount Amount
			if d.into(&amount) != nil || amount <= 0 {
				return limitsError(name, cpuLimit)
			}
			l.CPUs = &amount
		case known:
			value := uint64(0)
			if d.into(&value) != nil || value == 0 {
				return limitsError(name, wholeLimit)
			}
			*count = &value
		default:
			return fmt.Errorf("limits: unknown limit `%s`, expected one of `memoryBytes`, `cpus`, `processes`, `openFiles`, `diskBytes`, `timeMs` or `bestEffort`", clip(key))
		}
		return nil
	})
}

// Check refuses limits that cannot be sent, or that a server would not accept.
func (l *Limits) Check() error {
	for name, value := range l.counts() {
		if *value != nil && **value == 0 {
			return limitsError(name, wholeLimit)
		}
	}
	if c := l.CPUs; c != nil && !(*c > 0 && *c <= math.MaxFloat64) { // not a number is neither
		return limitsError(LimitCPUs, cpuLimit)
	}
	return nil
}

// LimitsInForce answers a start with limits: each one that was asked for, or that the server demands.
type LimitsInForce struct {
	MemoryBytes *LimitInForce `json:"memoryBytes,omitempty"`
	CPUs        *LimitInForce `json:"cpus,omitempty"`
	Processes   *LimitInForce `json:"processes,omitempty"`
	OpenFiles   *LimitInForce `json:"openFiles,omitempty"`
	DiskBytes   *LimitInForce `json:"diskBytes,omitempty"`
	TimeMs      *LimitInForce `json:"timeMs,omitempty"`
}

// A LimitInForce is a limit, and how it is enforced.
type LimitInForce struct {
	Limit Amount `json:"limit"`
	By    string `json:"by"`
}

// Values of LimitInForce.By.
const (
	ByCgroup2 = "cgroup2" // the kernel, for all processes of the command together
	ByCgroup1 = "cgroup1" // likewise
	ByRlimit  = "rlimit"  // the kernel, for each process
	ByTimer   = "timer"   // the server
	ByNothing = "none"    // it is not enforced
)

// Shortfalls says for people, in one sentence each, which of the limits that were asked for are not enforced, or not as asked. Without
// bestEffort there are none: the server has refused the start.
func (l *LimitsInForce) Shortfalls(asked *Limits) (texts []string) {
	if asked == nil {
		return nil
	}
	if l == nil {
		l = &LimitsInForce{} // a server that does not know limits
	}
	add := func(name string, asked, part Amount, in *LimitInForce, text func(Amount) string) {
		switch {
		case asked == 0:
		case in == nil || in.By == ByNothing:
			texts = append(texts, fmt.Sprintf("the limit of %s, %s, is not enforced", name, text(asked)))
		case in.Limit+part <= asked:
			texts = append(texts, fmt.Sprintf("the limit of %s is %s instead of %s: the server grants no more", name, text(in.Limit), text(asked)))
		}
	}
	count := func(n *uint64) Amount {
		if n == nil {
			return 0
		}
		return Amount(*n)
	}
	cpus := Amount(0)
	if asked.CPUs != nil {
		cpus = *asked.CPUs
	}
	size := func(n Amount) string { return SizeText(uint64(min(n, math.MaxInt64))) }
	plain := func(n Amount) string { return string(n.AppendJSON(nil)) }
	span := func(n Amount) string { return time.Duration(min(n*1e6, math.MaxInt64)).String() }
	add("memory", count(asked.MemoryBytes), 1, l.MemoryBytes, size)
	add("processors", cpus, 0.001, l.CPUs, plain) // servers round to thousandths
	add("processes", count(asked.Processes), 1, l.Processes, plain)
	if in := l.Processes; asked.Processes != nil && in != nil && in.By == ByRlimit {
		texts = append(texts, "the limit of processes counts all processes that the user of the server has started since the command began")
	}
	add("open files", count(asked.OpenFiles), 1, l.OpenFiles, plain)
	add("disk space", count(asked.DiskBytes), 1, l.DiskBytes, size)
	if in := l.DiskBytes; asked.DiskBytes != nil && in != nil && in.By == ByRlimit {
		texts = append(texts, fmt.Sprintf("the limit of disk space, %s, holds for the size of each file, not for all files together", size(in.Limit)))
	}
	add("time", count(asked.TimeMs), 1, l.TimeMs, span)
	return texts
}

// An Amount is a finite number that may have a fraction.
type Amount float64

// AppendJSON appends the number without an exponent.
func (a Amount) AppendJSON(b []byte) []byte {
	if f := float64(a); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	return append(b, "null"...)
}

func (a *Amount) decodeWire(d *decoder) error {
	text, err := d.literal("f64")
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return errNumber
	}
	*a = Amount(f)
	return nil
}
