package unifiedexec

import (
	"slices"
	"testing"
)

// The rows of the table, described in words. Facts that a row does not name are tried both ways.
func TestStateTable(t *testing.T) {
	type row struct {
		name string
		from state
		on   event
		when func(facts) bool // which facts the row is about
		do   action
		to   state
	}
	any := func(facts) bool { return true }
	rows := []row{
		{"forbidden", decide, enter, func(f facts) bool { return f.requirement == forbidden }, rejectByRule, end},
		{"needs approval", decide, enter, func(f facts) bool { return f.requirement == approval }, ask, ask1},
		{"nothing needed", decide, enter, func(f facts) bool { return f.requirement == skip }, proceed, run1},
		{"approved", ask1, approved, any, proceed, run1},
		{"approved for session", ask1, approvedForSession, any, remember, run1},
		{"declined", ask1, declined, any, rejectByUser, end},
		{"cancelled", ask1, cancelled, any, abort, end},
		{"no sandbox for this one", run1, enter, func(f facts) bool { return f.bypass && !f.deniedReads }, startOpen, wait1},
		{"hidden files stay hidden", run1, enter, func(f facts) bool { return f.bypass && f.deniedReads && f.confined && !f.network }, startConfined, wait1},
		{"sandboxed", run1, enter, func(f facts) bool { return !f.bypass && f.confined && !f.network }, startConfined, wait1},
		{"sandboxed, with the network", run1, enter, func(f facts) bool { return (!f.bypass || f.deniedReads) && f.confined && f.network }, startNetworked, wait1},
		{"nothing to enforce", run1, enter, func(f facts) bool { return !f.bypass && !f.confined }, startOpen, wait1},
		{"start failed", wait1, notStarted, any, fail, end},
		{"lost", wait1, lost, any, fail, end},
		{"alive", wait1, alive, any, reportAlive, wait1},
		{"exit", wait1, exited, any, reportEnd, end},
		{"denied", wait1, sandboxDenied, any, proceed, denied},
		{"the policy does not ask", denied, enter, func(f facts) bool { return !f.asksRetry }, reportEnd, end},
		{"never without sandbox", denied, enter, func(f facts) bool { return f.deniedReads && !f.network }, reportEnd, end},
		{"ask for the network", denied, enter, func(f facts) bool { return f.asksRetry && f.network }, askRetry, ask2},
		{"asked before", denied, enter, func(f facts) bool { return f.asksRetry && !f.deniedReads && f.approved && !f.strict && !f.network }, proceed, run2},
		{"asked before, but strict", denied, enter, func(f facts) bool { return f.asksRetry && !f.deniedReads && f.approved && f.strict }, askRetry, ask2},
		{"ask", denied, enter, func(f facts) bool { return f.asksRetry && !f.deniedReads && !f.approved }, askRetry, ask2},
		{"retry", ask2, approved, any, proceed, run2},
		{"retry for session", ask2, approvedForSession, any, remember, run2},
		{"no retry", ask2, declined, any, reportNotRetried, end},
		{"retry cancelled", ask2, cancelled, any, abort, end},
		{"second attempt", run2, enter, func(f facts) bool { return !f.network }, startOpen, wait2},
		{"second attempt, with the network", run2, enter, func(f facts) bool { return f.network }, startNetworked, wait2},
		{"second start failed", wait2, notStarted, any, fail, end},
		{"second lost", wait2, lost, any, fail, end},
		{"second alive", wait2, alive, any, reportAlive, wait2},
		{"second exit", wait2, exited, any, reportEnd, end},
		{"no third attempt", wait2, sandboxDenied, any, reportEnd, end},
	}
	met := 0
	for _, f := range allFacts() {
		for _, r := range rows {
			if !r.when(f) {
				continue
			}
			met++
			if do, to := step(r.from, r.on, f); do != r.do || to != r.to {
				t.Errorf("%s with %+v: action %d and state %d, want %d and %d", r.name, f, do, to, r.do, r.to)
			}
		}
		for from := decide; from <= end; from++ { // any other event is a failure, not a start
			for on := enter; on <= lost; on++ {
				known := slices.ContainsFunc(rows, func(r row) bool { return r.from == from && r.on == on && r.when(f) })
				if do, to := step(from, on, f); !known && (do != fail || to != end) {
					t.Errorf("state %d, event %d: action %d, state %d", from, on, do, to)
				}
			}
		}
	}
	if met < 1000 {
		t.Errorf("only %d rows were tried", met)
	}
}

// A run without sandbox needs an approval, a rule, or a policy without sandbox. If files are
// hidden, there is none.
func TestNoRunWithoutSandboxUnapproved(t *testing.T) {
	var walk func(s state, e event, f facts, asked bool, depth int)
	walk = func(s state, e event, f facts, asked bool, depth int) {
		do, to := step(s, e, f)
		if do == startOpen && f.confined && (f.deniedReads || !f.bypass && !asked && !f.approved) {
			t.Errorf("from state %d with %+v: a start without sandbox", s, f)
		}
		if do == startNetworked && !f.confined || do == startNetworked && s == run2 && !asked {
			t.Errorf("from state %d with %+v: a start with the network", s, f)
		}
		if to == end || depth > 12 || do == reportAlive && depth > 6 {
			return
		}
		switch do {
		case ask, askRetry:
			for _, e := range []event{approved, approvedForSession, declined, cancelled} {
				yes := e == approved || e == approvedForSession
				g := f
				g.approved = f.approved || yes
				walk(to, e, g, asked || yes, depth+1)
			}
		case startConfined, startNetworked, startOpen, reportAlive:
			for _, e := range []event{notStarted, alive, exited, sandboxDenied, lost} {
				walk(to, e, f, asked, depth+1)
			}
			g := f
			g.network = do == startConfined
			walk(to, sandboxDenied, g, false, depth+1) // an approval to start does not allow the network
		default:
			walk(to, enter, f, asked, depth+1)
		}
	}
	for _, f := range allFacts() {
		walk(decide, enter, f, false, 0)
	}
}

func allFacts() (all []facts) {
	for bits := range 128 {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		for _, r := range []requirement{skip, approval, forbidden} {
			f := facts{r, bit(0), bit(1), bit(2), bit(3), bit(4), bit(5), bit(6)}
			if (f.deniedReads || f.network) && !f.confined {
				continue // impossible
			}
			all = append(all, f)
		}
	}
	return all
}

func TestFirstDecision(t *testing.T) {
	policies := []Policy{{}, {Mode: OnRequest}, granular, {Mode: Granular}, {Mode: Untrusted}}
	for _, row := range []struct {
		name string
		q    inquiry
		want [5]requirement
	}{
		{"dangerous", inquiry{dangerous: true}, [5]requirement{forbidden, approval, approval, forbidden, approval}},
		{"dangerous and restricted", inquiry{dangerous: true, restricted: true}, [5]requirement{forbidden, approval, approval, forbidden, approval}},
		{"unrestricted", inquiry{}, [5]requirement{skip, skip, skip, skip, approval}},
		{"restricted", inquiry{restricted: true}, [5]requirement{skip, skip, skip, skip, approval}},
		{"escalation", inquiry{restricted: true, escalation: true}, [5]requirement{forbidden, approval, approval, forbidden, approval}},
		{"escalation from nothing", inquiry{escalation: true}, [5]requirement{skip, skip, skip, skip, approval}},
		{"allowed", inquiry{verdict: RuleAllow, dangerous: true}, [5]requirement{skip, skip, skip, skip, skip}},
		{"rule prompts", inquiry{verdict: RulePrompt}, [5]requirement{forbidden, approval, approval, forbidden, approval}},
		{"rule forbids", inquiry{verdict: RuleForbidden}, [5]requirement{forbidden, forbidden, forbidden, forbidden, forbidden}},
	} {
		for i, p := range policies {
			got, reason := p.require(row.q)
			if got != row.want[i] || (got == forbidden) != (reason != "") {
				t.Errorf("%s under %+v: %d (%s), want %d", row.name, p, got, reason, row.want[i])
			}
		}
	}
}

func TestParseScript(t *testing.T) {
	for _, row := range []struct {
		text      string
		want      [][]string
		plain     bool
		dangerous bool
	}{
		{"ls -l", [][]string{{"ls", "-l"}}, true, false},
		{"git add . && git commit -m 'a b'; true | cat", [][]string{{"git", "add", "."}, {"git", "commit", "-m", "a b"}, {"true"}, {"cat"}}, true, false},
		{`go test --run="x y"`, [][]string{{"go", "test", "--run=x y"}}, true, false},
		{"A=1 ls", [][]string{{"A=1", "ls"}}, false, false},
		{"echo $HOME", [][]string{{"echo", "$HOME"}}, false, false},
		{`echo "$HOME"`, [][]string{{"echo", "$HOME"}}, false, false},
		{"ls > f", [][]string{{"ls", ">", "f"}}, false, false},
		{"sleep 1 &", [][]string{{"sleep", "1"}}, false, false},
		{"echo 'open", [][]string{{"echo"}}, false, false},
		{"", nil, false, false},
		{"rm -rf x", [][]string{{"rm", "-rf", "x"}}, true, true},
		{"cd /; sudo /bin/rm --force x > /dev/null", [][]string{{"cd", "/"}, {"sudo", "/bin/rm", "--force", "x", ">", "/dev/null"}}, false, true},
		{"(rm -f x)", [][]string{{"rm", "-f", "x"}}, false, true},
		{"rm -r x", [][]string{{"rm", "-r", "x"}}, true, false},
		{"rm -- -f", [][]string{{"rm", "--", "-f"}}, true, false},
		{"echo rm -rf x", [][]string{{"echo", "rm", "-rf", "x"}}, true, false},
	} {
		parts, plain := parseScript(row.text)
		if !slices.EqualFunc(parts, row.want, slices.Equal) || plain != row.plain {
			t.Errorf("%q: %q, plain %t", row.text, parts, plain)
		}
		if got := slices.ContainsFunc(parts, dangerous); got != row.dangerous {
			t.Errorf("%q: dangerous %t", row.text, got)
		}
	}
}
