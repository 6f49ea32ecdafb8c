package main

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	processes := onHost("", []wire.ProcessInfo{
		{SessionID: "aaaa1111aaaa", ProcessID: "web", State: wire.StateRunning, StartedAtMs: 1},
		{SessionID: "bbbb2222bbbb", ProcessID: "web", State: wire.StateRunning, StartedAtMs: 2},
		{SessionID: "cccc3333cccc", ProcessID: "web", State: wire.StateClosed, StartedAtMs: 3},
		{SessionID: "aaaa1111aaaa", ProcessID: "two", State: wire.StateClosed, StartedAtMs: 1},
		{SessionID: "bbbb2222bbbb", ProcessID: "two", State: wire.StateClosed, StartedAtMs: 2},
		{SessionID: "cccc3333cccc", ProcessID: "job", State: wire.StateClosed},
		{SessionID: "dddd4444dddd", ProcessID: "job", State: wire.StateRunning},
		{SessionID: "dddd4444dddd", ProcessID: "old", State: wire.StateClosed},
		{SessionID: "dddd4444dddd", ProcessID: "a/b", State: wire.StateRunning},
	})
	for id, want := range map[string]string{
		"job":      "dddd4444dddd job", // the other one has ended
		"old":      "dddd4444dddd old",
		"a/b":      "dddd4444dddd a/b",
		"bbbb/web": "bbbb2222bbbb web",
		"cccc/web": "cccc3333cccc web",
		"dddd/a/b": "dddd4444dddd a/b",
		"web":      "bbbb2222bbbb web", // the newest that runs
		"two":      "bbbb2222bbbb two", // the newest of all
		"eeee/web": "no process is called \"eeee/web\"; `tether ps` lists all processes",
		"web-3":    `no process is called "web-3"; there is web`,
		"/web":     `no process is called "/web"`,
	} {
		p, err := resolve(&serverFlags{}, processes, id)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = p.SessionID + " " + p.ProcessID
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s", id, got)
		}
	}
	if p, err := resolveOnly(&serverFlags{}, processes, "web"); err == nil || !strings.Contains(err.Error(), "bbbb2222/web, aaaa1111/web") {
		t.Errorf("of two that run: %+v, %v", p, err)
	}
	if p, err := resolveOnly(&serverFlags{}, processes, "job"); err != nil || p.SessionID != "dddd4444dddd" {
		t.Errorf("of one that runs: %+v, %v", p, err)
	}
}

func TestResolveSession(t *testing.T) {
	t.Parallel()
	sessions := []listedSession{{"", wire.SessionInfo{SessionID: "aaaa11"}}, {"", wire.SessionInfo{SessionID: "aaaa22", Label: "web"}}, {"", wire.SessionInfo{SessionID: "aaaa"}}}
	for id, want := range map[string]string{"aaaa": "aaaa", "aaaa1": "aaaa11", "web": "aaaa22", "aaa": "", "x": "", "": ""} {
		s, err := resolveSession(&serverFlags{}, sessions, id)
		if (err != nil) != (want == "") || err == nil && s.SessionID != want {
			t.Errorf("%q: %+v, %v", id, s, err)
		}
	}
}
