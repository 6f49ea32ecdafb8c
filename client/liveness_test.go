package client

import (
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
)

// checksUntilDead counts the checks until a follow-up is given up, at most so many. each adds the events
// between two checks.
func checksUntilDead(o Options, most int, waiting rpc.Waiting, each func(check int, s *rpc.Signs)) (count int, dead bool) {
	o = o.withDefaults()
	signs := rpc.Signs{Reading: true}
	var f followUp
	for i := range most {
		before := signs
		each(i, &signs)
		if f.isDead(&o, before, signs, waiting) {
			return i + 1, true
		}
	}
	return most, false
}

// These cases tell a connection that is dead towards the server from a slow one, while the
// follow-up is not answered. There are two checks per second.
func TestFollowUpVerdict(t *testing.T) {
	t.Parallel()
	output := func(perLook int) func(int, *rpc.Signs) {
		return func(_ int, s *rpc.Signs) { s.Received += uint64(perLook); s.Messages += uint64(perLook) }
	}
	const minute, hour = 2 * 60, 2 * 60 * 60
	for name, c := range map[string]struct {
		each    func(int, *rpc.Signs)
		waiting rpc.Waiting
		after   int // checks; 0: never
	}{
		"nothing comes":          {each: output(0), after: 10},
		"a line of output comes": {each: output(100), after: 11},
		"many lines come":        {each: output(4 << 10), after: 20}, // 8 KiB/s
		"output now and then": {each: func(i int, s *rpc.Signs) {
			if i%5 == 0 {
				output(1000)(i, s)
			}
		}, after: 11},
		"lines after a flood": {each: func(i int, s *rpc.Signs) {
			output(map[bool]int{true: 1 << 20, false: 100}[i < 5])(i, s)
		}, after: 5 + 21},
		"a flood comes":             {each: output(20 << 20), after: 4},
		"a slow link brings output": {each: output(32 << 10), after: 5 * minute}, // 64 KiB/s, 19 MiB in 5 minutes
		"a slow link with short breaks": {each: func(i int, s *rpc.Signs) {
			if i%4 != 0 {
				output(32<<10)(i, s)
			}
		}, after: 5 * minute},
		"a large answer arrives": {each: func(_ int, s *rpc.Signs) { s.Received += 32 << 10 }},
		"other answers arrive":   {each: func(_ int, s *rpc.Signs) { s.Received += 100; s.Messages += 100; s.Answers++ }},
		"answers arrive now and then": {each: func(i int, s *rpc.Signs) {
			if i%9 == 0 {
				s.Answers++
			}
		}},
		"this client does not read": {each: func(_ int, s *rpc.Signs) { s.Reading = false }},
		"a slow link takes a large request": {each: func(_ int, s *rpc.Signs) {
			s.Unacknowledged = true
			s.Acknowledged += 8 << 10
		}},
		"a link takes nothing": {each: func(_ int, s *rpc.Signs) { s.Unacknowledged = true }, after: 10},
		"a proxy takes a large request": {each: output(0), waiting: rpc.Waiting{Largest: 1 << 20},
			after: 10 + 2*64}, // at 16 KiB/s
	} {
		t.Run(name, func(t *testing.T) {
			switch n, dead := checksUntilDead(Options{}, hour, c.waiting, c.each); {
			case dead && c.after == 0:
				t.Errorf("given up after %d checks", n)
			case !dead && c.after > 0:
				t.Errorf("not given up, want after %d checks", c.after)
			case dead && n != c.after:
				t.Errorf("given up after %d checks, want %d", n, c.after)
			}
		})
	}
}

// The connection is dead only after two reports of the server that it receives nothing from the
// client, with some time between them, since reports may have waited in a queue.
func TestUnheardVerdict(t *testing.T) {
	t.Parallel()
	o := Options{}.withDefaults()
	for name, c := range map[string]struct {
		reports []time.Duration // every 10 s
		gap     time.Duration   // between them
		dead    int             // the report after which the connection is dead; 0: none
	}{
		"server receives":            {[]time.Duration{0, 5, 9, 12, 3}, 10, 0},
		"server receives nothing":    {[]time.Duration{9, 19, 29, 39}, 10, 4},
		"server was stopped":         {[]time.Duration{9, 100, 3, 100, 3}, 10, 0},
		"we were, and read them now": {[]time.Duration{20, 30, 40, 50, 3}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := watcher{link: &Link{client: &Client{opts: o}}}
			now, dead := time.Now(), 0
			for i, r := range c.reports {
				if w.isUnheard(now, rpc.Signs{Reports: uint64(i + 1), Unheard: r * time.Second}) && dead == 0 {
					dead = i + 1
				}
				if w.isUnheard(now, rpc.Signs{Reports: uint64(i + 1), Unheard: r * time.Second}) {
					t.Error("a report counts twice")
				}
				now = now.Add(c.gap * time.Second)
			}
			if dead != c.dead {
				t.Errorf("dead after report %d, want %d", dead, c.dead)
			}
		})
	}
}
