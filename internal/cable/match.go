package cable

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Match selects messages. It is a value: its methods return a narrower match, or
// one that counts differently. Matches are counted over all connections of the
// cable, from the moment the rule is made.
//
// The zero Match is the next message of any content. Control frames are only
// matched by Ping, Pong and Goodbye.
type Match struct {
	control Kind // zero: messages
	tests   []func(*Message) bool
	first   int     // number of the first match that counts, from 1
	limit   int     // 0: once, below 0: always
	every   int     // above 1: of the matches from first on, only every n-th
	chance  float64 // above 0: the probability
}

// Any matches every message that is not a control frame.
func Any() Match { return Match{} }

// Method matches requests and notifications of a method.
func Method(name string) Match {
	return Match{}.Where(func(m *Message) bool { return m.Method == name })
}

// Answer matches the answers to requests of a method: results and errors.
func Answer(method string) Match {
	return Match{}.Where(func(m *Message) bool { return m.AnswerTo == method })
}

// Ping, Pong and Goodbye match control frames.
func Ping() Match    { return Match{control: PingFrame} }
func Pong() Match    { return Match{control: PongFrame} }
func Goodbye() Match { return Match{control: CloseFrame} }

// Where narrows the match by a test. The goroutines of connections call it, and it
// must not call the cable.
func (m Match) Where(test func(*Message) bool) Match {
	m.tests = append(slices.Clip(m.tests), test)
	return m
}

// ID narrows to messages with an id, given as JSON: 7 or "x" with its quotes.
func (m Match) ID(id string) Match {
	return m.Where(func(m *Message) bool { return m.ID == id })
}

// Process narrows the match to messages about a process. An answer is about the
// process of its request.
func (m Match) Process(id string) Match {
	return m.Where(func(m *Message) bool { return m.Process() == id })
}

// OnLink narrows to the n-th connection, from 1.
func (m Match) OnLink(n int) Match {
	return m.Where(func(m *Message) bool { return m.Link == n })
}

// Nth skips the first n-1 matches. The rule acts on the n-th only or, with Times or
// Always, from the n-th on.
func (m Match) Nth(n int) Match { m.first = n; return m }

// Times makes the rule act n times.
func (m Match) Times(n int) Match { m.limit = n; return m }

// Always makes the rule act as long as it exists.
func (m Match) Always() Match { m.limit = -1; return m }

// Every makes the rule act always, on every n-th match.
func (m Match) Every(n int) Match { m.first, m.every, m.limit = n, n, -1; return m }

// Chance makes the rule act on a match with probability p. A match on which it does
// not act does not count for Times.
func (m Match) Chance(p float64) Match { m.chance = p; return m }

// accepts reports whether the rule counts a message.
func (m Match) accepts(msg *Message) bool {
	if m.control != msg.Kind && (m.control != other || !msg.Kind.isData()) {
		return false
	}
	for _, test := range m.tests {
		if !test(msg) {
			return false
		}
	}
	return true
}

// due reports whether the rule acts on the match with number seen, after it has
// acted a number of times.
func (m Match) due(seen, acted int, dice func() float64) bool {
	if seen < m.first || m.limit == 0 && acted >= 1 || m.limit > 0 && acted >= m.limit {
		return false
	}
	if m.every > 1 && (seen-m.first)%m.every != 0 {
		return false
	}
	return m.chance <= 0 || dice() < m.chance
}

// ParseMatch understands METHOD, METHOD:N and METHOD:P%, each with an optional
// prefix answer:.
func ParseMatch(s string) (Match, error) {
	rest, answer := strings.CutPrefix(s, "answer:")
	method, number, counted := strings.Cut(rest, ":")
	if method == "" {
		return Match{}, errors.New("expected a method such as process/output, or answer:process/write")
	}
	match := Method(method)
	if answer {
		match = Answer(method)
	}
	if !counted {
		return match.Always(), nil
	}
	if percent, ok := strings.CutSuffix(number, "%"); ok {
		p, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(p > 0 && p <= 100) {
			return Match{}, errors.New("expected a probability above 0% and up to 100%")
		}
		return match.Chance(p / 100).Always(), nil
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 {
		return Match{}, errors.New("expected a whole number of at least 1")
	}
	return match.Nth(int(min(n, math.MaxInt32))), nil
}
