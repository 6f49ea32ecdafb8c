package cable_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"

	"github.com/tetherexec/tether/internal/cable"
)

// What the client receives when the server sends 1, 2, 3, 4 under a rule.
func TestActions(t *testing.T) {
	second := cable.Any().Nth(2)
	for _, test := range []struct {
		name    string
		match   cable.Match
		actions []cable.Action
		want    string
	}{
		{"nothing", second, nil, "1 2 3 4"},
		{"drop", second, []cable.Action{cable.Drop}, "1 3 4"},
		{"duplicate", second, []cable.Action{cable.Duplicate}, "1 2 2 3 4"},
		{"behind", cable.Any(), []cable.Action{cable.Behind(2)}, "2 3 1 4"},
		{"behind, twice", cable.Any(), []cable.Action{cable.Behind(2), cable.Duplicate}, "2 3 1 1 4"},
		{"behind the end", second, []cable.Action{cable.Behind(9)}, "1 3 4 2"},
		{"swapped pairs", cable.Any().Every(2), []cable.Action{cable.Behind(1)}, "1 3 2 4"},
		{"replace", second, []cable.Action{cable.Replace("garbage")}, "1 garbage 3 4"},
		{"replace by nothing", second, []cable.Action{cable.Replace("")}, "1  3 4"},
		{"edit", second, []cable.Action{cable.Edit(func(m cable.Message) []byte { return append([]byte("x"), m.Raw...) })}, "1 x2 3 4"},
		{"precede and follow", second, []cable.Action{cable.Precede("a", "b"), cable.Follow("c")}, "1 a b 2 c 3 4"},
		{"swallow", second, []cable.Action{cable.Swallow}, "1"},
		{"swallow after", second, []cable.Action{cable.SwallowAfter}, "1 2"},
		{"sever before", second, []cable.Action{cable.SeverBefore}, "1"},
		{"sever after", second, []cable.Action{cable.SeverAfter}, "1 2"},
		{"cut before", second, []cable.Action{cable.CutBefore}, "1"},
		{"cut after", second, []cable.Action{cable.CutAfter}, "1 2"},
		{"reset before", second, []cable.Action{cable.ResetBefore}, "1"},
		{"strand before", second, []cable.Action{cable.StrandBefore(cable.Silent)}, "1"},
		{"delay", second, []cable.Action{cable.Delay(10 * time.Millisecond)}, "1 2 3 4"},
		{"always", cable.Any().Nth(3).Always(), []cable.Action{cable.Drop}, "1 2"},
		{"times", cable.Any().Times(3), []cable.Action{cable.Drop}, "4"},
		{"no chance", cable.Any().Chance(1e-12).Always(), []cable.Action{cable.Drop}, "1 2 3 4"},
		{"every chance", cable.Any().Chance(1).Always(), []cable.Action{cable.Drop}, ""},
		{"on another link", cable.Any().OnLink(2), []cable.Action{cable.Drop}, "1 2 3 4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := lay(t)
			client, server := r.dial()
			r.On(cable.FromClient, cable.Any().Always(), cable.Drop) // the other direction
			rule := r.On(cable.FromServer, test.match, test.actions...)
			for i := range 4 {
				if frames.Write(server.conn, frames.Text(fmt.Append(nil, i+1))) != nil {
					break // the connection has been cut
				}
				if i == 1 && test.want != "1 2 3 4" && test.name != "every chance" && test.name != "always" {
					r.await(rule, 1)
				}
			}
			server.conn.Close()
			var got []string
			for {
				f, err := frames.Read(client.in)
				if err != nil {
					break
				}
				got = append(got, string(f.Payload))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("received %q, want %q", strings.Join(got, " "), test.want)
			}
		})
	}
}

func TestHoldAndRelease(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	rule := r.On(cable.FromServer, cable.Any().Times(2), cable.Hold)
	server.send("1", "2", "3")
	client.wants("3")
	if rule.Held() != 2 || len(rule.Messages()) != 2 || string(rule.Messages()[1].Raw) != "2" {
		t.Errorf("%d held, messages %v", rule.Held(), rule.Messages())
	}
	if err := rule.Release(); err != nil {
		t.Fatal(err)
	}
	client.wants("1", "2")

	// A held message arrives on the next connection if its own has ended.
	rule = r.On(cable.FromClient, cable.Any(), cable.Hold)
	client.send("late")
	r.await(rule, 1)
	r.Sever()
	if err := r.AwaitOpen(r.ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := rule.Release(); err == nil || rule.Held() != 1 {
		t.Errorf("released into nothing: %v, %d held", err, rule.Held())
	}
	_, server = r.dial()
	if err := rule.Release(); err != nil {
		t.Fatal(err)
	}
	server.wants("late")
}

func TestHoldFor(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	r.On(cable.FromServer, cable.Any(), cable.HoldFor(time.Second))      // the next message comes sooner, however busy the machine is
	r.On(cable.FromServer, cable.Any().Nth(3), cable.HoldFor(time.Hour)) // Close does not wait for it
	server.send("1", "2", "3")
	client.wants("2", "1")
}

func TestInject(t *testing.T) {
	r := lay(t)
	if err := r.Inject(cable.FromServer, "x"); err != cable.ErrNoLink {
		t.Errorf("inject without a connection: %v", err)
	}
	client, server := r.dial()
	all := r.On(cable.Either, cable.Any().Always(), cable.Drop)
	for _, from := range []cable.Direction{cable.FromServer, cable.FromClient} {
		if err := r.Inject(from, "unasked"); err != nil {
			t.Fatal(err)
		}
	}
	client.wants("unasked")
	server.wants("unasked")
	if all.Count() != 0 {
		t.Error("a rule saw a message of the cable itself")
	}
}

func TestControlFrames(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	pings := r.On(cable.FromServer, cable.Ping().Always(), cable.Drop)
	server.frame(frames.Ping([]byte("1")))
	server.frame(frames.Pong([]byte("2")))
	server.send("3")
	client.wants("2", "3")
	r.await(pings, 1)
	r.On(cable.FromServer, cable.Pong(), cable.Duplicate)
	r.On(cable.FromServer, cable.Goodbye(), cable.Drop)
	server.frame(frames.Pong([]byte("4")))
	server.frame(frames.New(frames.OpClose, true, nil))
	server.send("5")
	client.wants("4", "4", "5")
}

// Matches distinguish requests, their answers and their processes.
func TestMatches(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	count := map[string]*cable.Rule{
		"method":    r.On(cable.Either, cable.Method("process/write").Always()),
		"answer":    r.On(cable.Either, cable.Answer("process/write").Always()),
		"process a": r.On(cable.Either, cable.Any().Process("a").Always()),
		"answer b":  r.On(cable.FromServer, cable.Answer("process/write").Process("b").Always()),
		"id 1":      r.On(cable.Either, cable.Any().ID("1").Always()),
		"id text":   r.On(cable.Either, cable.Any().ID(`"1"`).Always()),
		"errors":    r.On(cable.FromServer, cable.Any().Where(func(m *cable.Message) bool { return m.Error != nil }).Always()),
		"once":      r.On(cable.FromClient, cable.Any()),
	}
	want := map[string]int{"method": 3, "answer": 2, "process a": 3, "answer b": 1, "id 1": 2, "id text": 1, "errors": 1, "once": 1}
	client.send(
		`{"id":1,"method":"process/write","params":{"processId":"a","chunk":""}}`,
		`{"id":2,"method":"process/write","params":{"processId":"b"}}`,
		`{"method":"process/write","params":{}}`,
		`{"id":3,"method":"other"}`,
		`not JSON`,
	)
	for range 5 {
		server.next()
	}
	server.send(
		`{"id":2,"result":{}}`,
		`{"id":1,"error":{"code":-1,"message":"no"}}`,
		`{"id":1,"result":{}}`, // already answered
		`{"id":"1","result":{}}`,
		`{"method":"process/output","params":{"seq":1,"processId":"a"}}`,
	)
	want["id 1"]++
	for range 5 {
		client.next()
	}
	for name, rule := range count {
		r.await(rule, want[name])
		if rule.Count() != want[name] {
			t.Errorf("%s: %d, want %d", name, rule.Count(), want[name])
		}
	}
}

// A fault between a request and its answer: the server has received the request,
// the client gets no answer.
func TestSeverBeforeTheAnswer(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	rule := r.On(cable.FromServer, cable.Answer("process/write"), cable.SeverBefore)
	client.send(`{"id":7,"method":"process/write","params":{}}`)
	server.next()
	server.send(`{"method":"process/output","params":{}}`, `{"id":7,"result":{}}`)
	if got := string(client.next().Payload); !strings.Contains(got, "process/output") {
		t.Errorf("received %s", got)
	}
	client.ended()
	<-rule.Fired()
	client, server = r.dial() // the cable itself is intact
	client.send("x")
	server.wants("x")
}

func TestAmendAndFail(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	r.On(cable.FromServer, cable.Any(), cable.Amend(func(m map[string]any) {
		delete(m["result"].(map[string]any), "exitCode")
	}))
	r.On(cable.FromServer, cable.Any().Nth(2), cable.Fail(-32603, "no"))
	r.On(cable.FromServer, cable.Any().Nth(3), cable.Fail(-1, "not JSON"))
	server.send(`{"id":9007199254740993,"result":{"exitCode":1,"exited":true}}`, `{"id":2,"result":{}}`, `garbage`)
	client.wants(`{"id":9007199254740993,"result":{"exited":true}}`, `{"error":{"code":-32603,"message":"no"},"id":2}`, `garbage`)
}

// A rule that freezes reports that while its message still waits.
func TestFreezeBefore(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	rule := r.On(cable.FromServer, cable.Any().Nth(2), cable.FreezeBefore)
	server.send("1", "2")
	client.wants("1")
	r.await(rule, 1)
	client.silent()
	r.Thaw()
	client.wants("2")
	rule = r.On(cable.FromServer, cable.Any(), cable.FreezeAfter)
	server.send("3", "4")
	client.wants("3")
	r.await(rule, 1)
	client.silent()
	r.Thaw()
	client.wants("4")
}

func TestRemovedRulesDoNotAct(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	rule := r.On(cable.FromServer, cable.Any().Always(), cable.Drop)
	server.send("1")
	r.await(rule, 1)
	rule.Remove()
	server.send("2")
	client.wants("2")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := rule.Await(ctx, 2); err == nil {
		t.Error("it acted after its removal")
	}
}

// The same seed makes the same choices.
func TestSeed(t *testing.T) {
	var runs [2][]string
	for i := range runs {
		far := serveFar(t, listenOn(t, "tcp", "127.0.0.1:0"), "ws://")
		r := layTo(t, far, cable.Config{Seed: 42})
		client, server := r.dial()
		r.On(cable.FromServer, cable.Any().Chance(0.5).Always(), cable.Drop)
		for n := range 32 {
			server.send(fmt.Sprint(n))
		}
		server.conn.Close()
		for {
			f, err := frames.Read(client.in)
			if err != nil {
				break
			}
			runs[i] = append(runs[i], string(f.Payload))
		}
	}
	if !slices.Equal(runs[0], runs[1]) || len(runs[0]) == 0 || len(runs[0]) == 32 {
		t.Errorf("first %v, then %v", runs[0], runs[1])
	}
}
