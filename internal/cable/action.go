package cable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// An Action is what a rule does with a message. Actions combine: Duplicate and
// Behind(2) send both copies late.
type Action struct {
	name  string // as a Fate
	apply func(v *effect, r *Rule, m *Message)
}

// Actions on the message itself. Other messages pass a message that is held or
// late.
var (
	Drop      = Action{"dropped", func(v *effect, _ *Rule, _ *Message) { v.drop = true }}
	Duplicate = Action{"duplicated", func(v *effect, _ *Rule, _ *Message) { v.copies++ }}
	Hold      = Action{"held", func(v *effect, r *Rule, _ *Message) { v.hold = r }} // until Rule.Release
)

// Actions on the connection, right before or right after the message would be
// forwarded. A message before which the connection ends is not forwarded. Sever and
// Reset affect the message's own connection, Cut and Freeze the whole cable, until
// Mend and Thaw.
var (
	CutBefore    = before("cut before", func(l *link) { l.c.Cut() })
	CutAfter     = after("cut after", func(l *link) { l.c.Cut() })
	SeverBefore  = before("severed before", func(l *link) { l.sever("severed by a rule", false) })
	SeverAfter   = after("severed after", func(l *link) { l.sever("severed by a rule", false) })
	ResetBefore  = before("reset before", func(l *link) { l.sever("reset by a rule", true) })
	ResetAfter   = after("reset after", func(l *link) { l.sever("reset by a rule", true) })
	FreezeBefore = before("frozen before", func(l *link) { l.c.Freeze() }) // the message is forwarded after the thaw
	FreezeAfter  = after("frozen after", func(l *link) { l.c.Freeze() })
)

// SwallowAfter forwards the message, and nothing that follows it in this direction
// of its connection, including control frames. Swallow does not forward the message
// either.
var (
	SwallowAfter = Action{"swallowed after", func(v *effect, _ *Rule, _ *Message) { v.mute = true }}
	Swallow      = Action{"swallowed", func(v *effect, _ *Rule, _ *Message) { v.drop, v.mute = true, true }}
)

// HalfCloseAfter ends this direction of the connection after the message: the
// receiver sees the end, and its own messages still arrive.
var HalfCloseAfter = Action{"half-closed after", func(v *effect, _ *Rule, m *Message) {
	from := m.From
	v.after = append(v.after, func(l *link) { l.lines[from].halfClose() })
}}

// StrandBefore and StrandAfter end the connection for the client only; see
// Cable.Strand.
func StrandBefore(as Stranded) Action {
	return before("stranded before", func(l *link) { l.strand(as) })
}
func StrandAfter(as Stranded) Action {
	return after("stranded after", func(l *link) { l.strand(as) })
}

func before(name string, fault func(*link)) Action {
	return Action{name, func(v *effect, _ *Rule, _ *Message) { v.before = append(v.before, fault) }}
}

func after(name string, fault func(*link)) Action {
	return Action{name, func(v *effect, _ *Rule, _ *Message) { v.after = append(v.after, fault) }}
}

// Behind sends the message after n later ones, or at the end of the stream.
func Behind(n int) Action {
	return Action{fmt.Sprintf("put behind %d", n), func(v *effect, _ *Rule, _ *Message) { v.behind = n }}
}

// HoldFor holds the message for a time; other messages pass it.
func HoldFor(d time.Duration) Action {
	return Action{fmt.Sprintf("held for %v", d), func(v *effect, r *Rule, _ *Message) { v.hold, v.holdFor = r, d }}
}

// Delay sends the message, and all that follow, later by d.
func Delay(d time.Duration) Action {
	return Action{fmt.Sprintf("delayed by %v", d), func(v *effect, _ *Rule, _ *Message) { v.delay += d }}
}

// Replace sends other content in place of the message; it need not be JSON.
func Replace(content string) Action {
	return Action{"replaced", func(v *effect, _ *Rule, _ *Message) { v.content = []byte(content) }}
}

// Edit sends the result of f in place of the message.
func Edit(f func(m Message) []byte) Action {
	return Action{"edited", func(v *effect, _ *Rule, m *Message) {
		now := *m
		if v.content != nil {
			now.Raw = v.content
		}
		v.content = append([]byte{}, f(now)...)
	}}
}

// Amend changes members of the message, which must be a JSON object; numbers are
// json.Number. Other messages pass unchanged.
func Amend(f func(members map[string]any)) Action {
	return Edit(func(m Message) []byte {
		members := map[string]any{}
		decoder := json.NewDecoder(bytes.NewReader(m.Raw))
		decoder.UseNumber()
		if decoder.Decode(&members) != nil {
			return m.Raw
		}
		f(members)
		raw, err := json.Marshal(members)
		if err != nil {
			panic(fmt.Sprintf("cable: the amended message is no JSON: %v", err)) // a mistake in the test
		}
		return raw
	})
}

// Fail replaces an answer by an error with the same id.
func Fail(code int, message string) Action {
	return Amend(func(members map[string]any) {
		delete(members, "result")
		members["error"] = map[string]any{"code": code, "message": message}
	})
}

// Precede sends other messages right before the message. Rules do not see them.
func Precede(messages ...string) Action {
	return Action{"preceded", func(v *effect, _ *Rule, _ *Message) { v.precede = appendTexts(v.precede, messages) }}
}

// Follow sends other messages right after it.
func Follow(messages ...string) Action {
	return Action{"followed", func(v *effect, _ *Rule, _ *Message) { v.follow = appendTexts(v.follow, messages) }}
}

func appendTexts(to [][]byte, messages []string) [][]byte {
	for _, m := range messages {
		to = append(to, []byte(m))
	}
	return to
}
