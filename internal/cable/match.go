package cable

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Match chooses messages. It is a value: its methods return a narrower or
// differently counted one. Matches are counted over all connections of the
// cable, from the moment the rule is made.
//
// The zero Match is the next message of any kind of content; control frames are
// only matched by Ping, Pong and Goodbye.
type Match struct {
	control Kind // other: data
	tests   []func(*Message) bool
	first   int     // skip the matches before this one, from 1
	limit   int     // 0: once, below 0: always
	every   int     // above 1: of the matches from first on, only each n-th
	chance  float64 // above 0: roll dice
}

// Any matches every message that is no control frame.
func Any() Match { return Match{} }

// Method matches requests and notifications of a method.
func Method(name string) Match {
	return Match{}.Where(func(m *Message) bool { return m.Method == name })
}

// Answer matches the answers, good or bad, to requests of a method.
func Answer(method string) Match {
	return Match{}.Where(func(m *Message) bool { return m.AnswerTo == method })
}

// Ping, Pong and Goodbye match control frames.
func Ping() Match    { return Match{control: PingFrame} }
func Pong() Match    { return Match{control: PongFrame} }
func Goodbye() Match { return Match{control: CloseFrame} }

// Where narrows by a test. It is called from the goroutines of connections and
// must not call the cable.
func (m Match) Where(test func(*Message) bool) Match {
	m.tests = append(slices.Clip(m.tests), test)
	return m
}

// ID narrows to messages with an id, given as JSON: 7 or "x" with its quotes.
func (m Match) ID(id string) Match {
	return m.Where(func(m *Message) bool { return m.ID == id })
}

// Process narrows to messages about a process; answers are about that of their
// request.
func (m Match) Process(id string) Match {
	return m.Where(func(m *Message) bool { return m.Process() == id })
}

// OnLink narrows to the n-th connection, from 1.
func (m Match) OnLink(n int) Match {
	return m.Where(func(m *Message) bool { return m.Link == n })
}

// Nth skips the first n-1 matches. The rule acts on the n-th only, unless Times
// or Always say otherwise: then from the n-th on.
func (m Match) Nth(n int) Match { m.first = n; return m }

// Times lets the rule act n times.
func (m Match) Times(n int) Match { m.limit = n; return m }

// Always lets the rule act as long as it exists.
func (m Match) Always() Match { m.limit = -1; return m }

// Every lets the rule act always, on each n-th match.
func (m Match) Every(n int) Match { m.first, m.every, m.limit = n, n, -1; return m }

// Chance lets the rule act on a match with probability p, by the dice of the
// cable. A match that is spared does not count for Times.
func (m Match) Chance(p float64) Match { m.chance = p; return m }

// accepts says whether a message is one that the rule counts.
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

// due says whether the rule acts on the seen-th match, after it acted before.
func (m Match) due(seen, acted int, dice func() float64) bool {
	if seen < m.first || m.limit == 0 && acted >= 1 || m.limit > 0 && acted >= m.limit {
		return false
	}
	if m.every > 1 && (seen-m.first)%m.every != 0 {
		return false
	}
	return m.chance <= 0 || dice() < m.chance
}

// ParseMatch understands METHOD, METHOD:N and METHOD:P%, each perhaps with
// answer: in front.
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
