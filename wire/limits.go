package wire

import (
	"fmt"
	"math"
	"strconv"
)

// Limits are those of a process with everything that it starts (tether). A limit that is nil is not asked for. An unknown
// member is an error, other than in all other parameters: a limit that is not understood would not be enforced.
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
