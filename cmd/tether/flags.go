package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// once refuses a flag that is given twice, because it is unclear which value the user wants.
type once struct {
	pflag.Value
	given bool
}

func (o *once) Set(s string) error {
	if o.given {
		return errors.New("given more than once")
	}
	o.given = true
	return o.Value.Set(s)
}

// onlyOnce guards every flag of the set except those that are lists.
func onlyOnce(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if _, list := f.Value.(pflag.SliceValue); !list {
			f.Value = &once{Value: f.Value}
		}
	})
}

// allowRepeats undoes onlyOnce for all commands: cobra parses the flags twice when it completes a command line.
func allowRepeats(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if o, ok := f.Value.(*once); ok {
			f.Value = o.Value
		}
	})
	for _, sub := range cmd.Commands() {
		allowRepeats(sub)
	}
}

// byteSize is a number of bytes with an optional unit: 64MiB, 64M, 67108864.
type byteSize int64

// Units are powers of 1024 whether or not they say so: M and MiB are the same.
var units = []struct {
	letter string
	shift  uint
}{{"T", 40}, {"G", 30}, {"M", 20}, {"K", 10}}

func (b *byteSize) Set(s string) error {
	number, shift := s, uint(0)
	for _, u := range units {
		upper := strings.ToUpper(s)
		if cut, ok := strings.CutSuffix(strings.TrimSuffix(upper, "IB"), u.letter); ok {
			number, shift = cut, u.shift
			break
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	switch {
	case err != nil:
		return errors.New("expected a size such as 64MiB, 64M or 67108864")
	case n == 0:
		return errors.New("must be at least 1 byte")
	case n > math.MaxInt64>>shift:
		return errors.New("too large")
	}
	*b = byteSize(n << shift)
	return nil
}

func (b *byteSize) String() string {
	for _, u := range units {
		if n := int64(*b); n != 0 && n&(1<<u.shift-1) == 0 {
			return fmt.Sprintf("%d%siB", n>>u.shift, u.letter)
		}
	}
	return strconv.FormatInt(int64(*b), 10)
}

func (*byteSize) Type() string { return "SIZE" }

// count is a number of at least 1. Larger numbers than 2³¹-1 are capped.
type count int

func (c *count) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return errors.New("expected a whole number of at least 1")
	}
	*c = count(min(n, math.MaxInt32))
	return nil
}

func (c *count) String() string {
	if *c == 0 {
		return ""
	}
	return strconv.Itoa(int(*c))
}

func (*count) Type() string { return "COUNT" }

// lifetime is a duration above zero.
type lifetime time.Duration

func (l *lifetime) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return errors.New("expected a duration such as 30s, 5m or 24h")
	}
	*l = lifetime(d)
	return nil
}

// String returns 5m instead of 5m0s, and 24h instead of 24h0m0s.
func (l *lifetime) String() string {
	if *l == 0 {
		return ""
	}
	s := time.Duration(*l).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(s, zero); ok {
			s = cut + zero[:1]
		}
	}
	return s
}

func (*lifetime) Type() string { return "DURATION" }

// choice is one of a few words.
type choice struct {
	value string
	kind  string // its placeholder in the help
	words []string
}

func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return fmt.Errorf("expected one of %s", strings.Join(c.words, ", "))
	}
	c.value = s
	return nil
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return c.kind }

// optional is a text; nil means that the flag was not given.
type optional struct {
	value    **string
	kind     string
	nonEmpty bool
}

func (o *optional) Set(s string) error {
	if o.nonEmpty && s == "" {
		return errors.New("must not be empty")
	}
	*o.value = &s
	return nil
}

func (o *optional) String() string {
	if o.value == nil || *o.value == nil {
		return ""
	}
	return **o.value
}

func (o *optional) Type() string { return o.kind }

// optionalSeconds is a number of seconds; nil means that the flag was not given.
type optionalSeconds struct{ value **uint64 }

func (o *optionalSeconds) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return errors.New("expected a whole number of seconds")
	}
	*o.value = &n
	return nil
}

func (o *optionalSeconds) String() string {
	if o.value == nil || *o.value == nil {
		return ""
	}
	return strconv.FormatUint(**o.value, 10)
}

func (*optionalSeconds) Type() string { return "SECONDS" }
