package wire

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// Limits that make no sense, or that this program does not know, are refused: they would not be enforced.
func TestDecodeLimits(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{`{}`, ""},
		{`{"memoryBytes":1,"cpus":0.25,"processes":2,"openFiles":3,"diskBytes":4,"timeMs":5,"bestEffort":true}`, ""},
		{`{"memoryBytes":null,"cpus":null,"bestEffort":null}`, ""},
		{`{"cpus":2}`, ""},
		{`{"cpus":1e-1}`, ""},
		{`{"memoryBytes":18446744073709551615}`, ""},
		{`{"memoryBytes":18446744073709551616}`, "`memoryBytes` must be a whole number above zero"},
		{`{"memoryBytes":0}`, "`memoryBytes` must be a whole number above zero"},
		{`{"memoryBytes":-0}`, "`memoryBytes` must be a whole number above zero"},
		{`{"memoryBytes":-5}`, "`memoryBytes` must be a whole number above zero"},
		{`{"memoryBytes":1.5}`, "`memoryBytes` must be a whole number above zero"},
		{`{"memoryBytes":"2G"}`, "`memoryBytes` must be a whole number above zero"},
		{`{"timeMs":true}`, "`timeMs` must be a whole number above zero"},
		{`{"cpus":0}`, "`cpus` must be a number above zero"},
		{`{"cpus":-1}`, "`cpus` must be a number above zero"},
		{`{"cpus":1e999}`, "`cpus` must be a number above zero"},
		{`{"cpus":"1"}`, "`cpus` must be a number above zero"},
		{`{"bestEffort":1}`, "expected a boolean"},
		{`{"memorybytes":1}`, "unknown limit `memorybytes`"},
		{`{"memory":1,"bestEffort":true}`, "unknown limit `memory`"},
		{`{"memory":null}`, "unknown limit `memory`"},
		{`[]`, "expected struct Limits"},
		{`7`, "expected struct Limits"},
	} {
		var l Limits
		err := Decode([]byte(row.text), &l)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.text, err, row.want)
		}
		if err != nil {
			continue
		}
		if err := l.Check(); err != nil {
			t.Errorf("%s was decoded, and then: %v", row.text, err)
		}
		b, err := appendAny(nil, &l)
		var again Limits
		if err == nil {
			err = Decode(b, &again)
		}
		if err != nil {
			t.Errorf("%s becomes %s: %v", row.text, b, err)
		}
	}
}

// What cannot be written as JSON, or would be refused, is not sent.
func TestCheckLimits(t *testing.T) {
	zero := uint64(0)
	for _, cpus := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		amount := Amount(cpus)
		if (&Limits{CPUs: &amount}).Check() == nil {
			t.Errorf("%v processors are accepted", cpus)
		}
	}
	for _, l := range []Limits{{MemoryBytes: &zero}, {Processes: &zero}, {OpenFiles: &zero}, {DiskBytes: &zero}, {TimeMs: &zero}} {
		if l.Check() == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}

func TestAmounts(t *testing.T) {
	for value, want := range map[float64]string{1.5: "1.5", 2: "2", 1 << 53: "9007199254740992", 0.001: "0.001", math.NaN(): "null"} {
		if got := string(Amount(value).AppendJSON(nil)); got != want {
			t.Errorf("%v is written as %s", value, got)
		}
	}
}

// A client can tell its user which limits do not hold, and nothing else.
func TestShortfalls(t *testing.T) {
	asked := &Limits{MemoryBytes: new(uint64(64 << 20)), CPUs: new(Amount(1.0004)), Processes: new(uint64(10)), OpenFiles: new(uint64(900)),
		DiskBytes: new(uint64(1 << 20)), TimeMs: new(uint64(90_000)), BestEffort: new(true)}
	met := func() *LimitsInForce {
		return &LimitsInForce{MemoryBytes: &LimitInForce{64 << 20, ByCgroup2}, CPUs: &LimitInForce{1, ByCgroup1}, Processes: &LimitInForce{10, ByCgroup2},
			OpenFiles: &LimitInForce{900, ByRlimit}, TimeMs: &LimitInForce{90_000, ByTimer}}
	}
	each := met()
	each.DiskBytes = &LimitInForce{1 << 20, ByRlimit}
	partly := met()
	partly.MemoryBytes, partly.Processes.By, partly.OpenFiles.Limit, partly.CPUs = nil, ByRlimit, 500, &LimitInForce{1, ByNothing}
	for _, row := range []struct {
		in    *LimitsInForce
		asked *Limits
		want  []string
	}{
		{nil, nil, nil},
		{nil, &Limits{TimeMs: new(uint64(90_000))}, []string{"the limit of time, 1m30s, is not enforced"}},
		{each, asked, []string{"the limit of disk space, 1 MiB, holds for the size of each file, not for all files together"}},
		{partly, asked, []string{
			"the limit of memory, 64 MiB, is not enforced", "the limit of processors, 1.0004, is not enforced",
			"the limit of processes counts all processes that the user of the server has started since the command began",
			"the limit of open files is 500 instead of 900: the server grants no more",
			"the limit of disk space, 1 MiB, is not enforced",
		}},
	} {
		if got := row.in.Shortfalls(row.asked); !slices.Equal(got, row.want) {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}
