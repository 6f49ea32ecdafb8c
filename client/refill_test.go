package client_test

import (
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

// A process that was given up because of a hole is left alone.
func TestHoleIsGivenUpOnce(t *testing.T) {
	s := scripted.NewServer(t)
	c, p, first := started(t, s, client.Impatient(client.Options{}))
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
	select { // ten times as long as the pause between two looks at holes
	case <-time.After(time.Second):
	case <-tethertest.Within(t).Done():
	}
	start(t, c, client.Command{Argv: []string{"x"}, ID: "Q"})
	wait()
	if reads != 1 {
		t.Errorf("the server was asked %d times", reads)
	}
}

// A server that contradicts itself about a hole is not asked all the time.
func TestHoleThatStays(t *testing.T) {
	s := scripted.NewServer(t)
	c, _, first := started(t, s, client.Options{})
	reads, began := 0, time.Now()
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
	<-time.After(2500 * time.Millisecond)
	start(t, c, client.Command{Argv: []string{"x"}, ID: "Q"})
	wait()
	if took := time.Since(began); reads > 1+int(took/time.Second) {
		t.Errorf("the server was asked %d times in %v", reads, took)
	}
}
