package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// After a process was given up because of a missing event, the client does not ask for the event
// again.
func TestMissingEventIsGivenUpOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewPipes(t)
		c, p, first := started(t, s, client.Options{Connect: s.Connect})
		reads := 0
		wait := scripted.Play(t, func() {
			first.Say(scripted.Events("P", "o1 o3")...)
			for asked := false; !asked; {
				switch m := first.Hear(); m.Method {
				case "process/read":
					reads++
					first.Say(m.Refuse(-32603, "broken"))
				case "process/terminate":
					first.Say(m.Answer(`{"running":true}`))
				case "process/start": // some time later
					asked = true
					first.Say(m.Answer(`{"processId":"Q","sandboxType":"none"}`))
				}
			}
		})
		wantFailed(t, p, "broken")
		time.Sleep(10 * time.Second) // ten times as long as an event may be missing
		start(t, c, client.Command{Argv: []string{"x"}, ID: "Q"})
		wait()
		if reads != 1 {
			t.Errorf("the server was asked %d times", reads)
		}
	})
}

// If the server does not send a missing event, the client asks again, but not all the time.
func TestMissingEventThatStaysMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scripted.NewPipes(t)
		c, _, first := started(t, s, client.Options{Connect: s.Connect})
		reads := 0
		wait := scripted.Play(t, func() {
			first.Say(scripted.Events("P", "o1 o3")...)
			for {
				m := first.Hear()
				if m.Method != "process/read" {
					first.Say(m.Answer(`{"processId":"Q","sandboxType":"none"}`))
					return
				}
				reads++
				first.Say(m.Answer(scripted.ReadAnswer(2, false, false)))
			}
		})
		time.Sleep(10500 * time.Millisecond)
		start(t, c, client.Command{Argv: []string{"x"}, ID: "Q"})
		wait()
		if reads < 5 || reads > 10 { // once per second at most
			t.Errorf("the server was asked %d times in 10 s", reads)
		}
	})
}
