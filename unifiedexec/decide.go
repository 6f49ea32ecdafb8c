package unifiedexec

// A requirement is the condition under which a command may run.
type requirement uint8

const (
	skip      requirement = iota // none
	approval                     // the user has to approve it
	forbidden                    // it may not run
)

// A state is the state of a command between the call and its end.
type state uint8

const (
	decide state = iota // may it run?
	ask1                // the user is asked before the first attempt
	run1                // the first attempt: with or without a sandbox?
	wait1               // it runs
	denied              // the sandbox has denied it something
	ask2                // the user is asked whether to run it again, with more rights
	run2                // the second attempt
	wait2               // it runs
	end
)

// An event is something that happens in a state.
type event uint8

const (
	enter event = iota // the state was entered

	approved
	approvedForSession
	declined
	cancelled

	notStarted
	alive         // the time to wait is over, and the process still runs
	exited        // and the sandbox has denied it nothing
	sandboxDenied // exited, and the sandbox has denied it something
	lost          // the end of the process is not known
)

// An action is what a transition does. The actions up to startOpen lead to another event; the
// others end the call.
type action uint8

const (
	proceed          action = iota // to the next state
	ask                            // the user, before the command runs
	askRetry                       // the user, whether to run it with the network, or without sandbox
	remember                       // the approval, for the same command later
	startConfined                  // and wait
	startNetworked                 // confined, but with the network, and wait
	startOpen                      // without sandbox, and wait
	rejectByRule                   // error
	rejectByUser                   // error
	abort                          // the turn ends
	fail                           // error
	reportAlive                    // the output so far; the session goes on
	reportEnd                      // output and exit code
	reportNotRetried               // the same, and that the retry was declined
)

// facts are the conditions of transitions.
type facts struct {
	requirement requirement
	bypass      bool // an allow rule, an escalation or a remembered approval: no sandbox
	deniedReads bool // the policy hides files: never without sandbox
	confined    bool // the policy asks for a sandbox
	asksRetry   bool // the approval policy allows a question after a denial
	approved    bool // the user has approved this command
	strict      bool // that approval is not for a run without sandbox
	network     bool // the next attempt is to have the network: an approval of it is remembered, or the last attempt needed it
}

// A transition applies to the first state and event that it names, if when is true.
type transition struct {
	from state
	on   event
	when func(facts) bool // nil: always
	do   action
	to   state
}

// transitions is everything that can happen to a command, from the call to its end. The first
// transition that applies is taken. There is no third attempt.
var transitions = []transition{
	{decide, enter, func(f facts) bool { return f.requirement == forbidden }, rejectByRule, end},
	{decide, enter, func(f facts) bool { return f.requirement == approval }, ask, ask1},
	{decide, enter, nil, proceed, run1},

	{ask1, approved, nil, proceed, run1},
	{ask1, approvedForSession, nil, remember, run1},
	{ask1, declined, nil, rejectByUser, end},
	{ask1, cancelled, nil, abort, end},

	{run1, enter, func(f facts) bool { return f.bypass && !f.deniedReads }, startOpen, wait1},
	{run1, enter, func(f facts) bool { return f.confined && f.network }, startNetworked, wait1},
	{run1, enter, func(f facts) bool { return f.confined }, startConfined, wait1},
	{run1, enter, nil, startOpen, wait1},

	{wait1, notStarted, nil, fail, end},
	{wait1, lost, nil, fail, end},
	{wait1, alive, nil, reportAlive, wait1},
	{wait1, exited, nil, reportEnd, end},
	{wait1, sandboxDenied, nil, proceed, denied},

	{denied, enter, func(f facts) bool { return !f.asksRetry }, reportEnd, end},
	{denied, enter, func(f facts) bool { return f.network }, askRetry, ask2}, // the sandbox stays
	{denied, enter, func(f facts) bool { return f.deniedReads }, reportEnd, end},
	{denied, enter, func(f facts) bool { return f.approved && !f.strict }, proceed, run2},
	{denied, enter, nil, askRetry, ask2},

	{ask2, approved, nil, proceed, run2},
	{ask2, approvedForSession, nil, remember, run2},
	{ask2, declined, nil, reportNotRetried, end},
	{ask2, cancelled, nil, abort, end},

	{run2, enter, func(f facts) bool { return f.network }, startNetworked, wait2},
	{run2, enter, nil, startOpen, wait2},

	{wait2, notStarted, nil, fail, end},
	{wait2, lost, nil, fail, end},
	{wait2, alive, nil, reportAlive, wait2},
	{wait2, exited, nil, reportEnd, end},
	{wait2, sandboxDenied, nil, reportEnd, end},
}

// step returns the action and the next state for an event. It is a pure function.
func step(s state, e event, f facts) (action, state) {
	for _, t := range transitions {
		if t.from == s && t.on == e && (t.when == nil || t.when(f)) {
			return t.do, t.to
		}
	}
	return fail, end // an event that the state does not have
}
