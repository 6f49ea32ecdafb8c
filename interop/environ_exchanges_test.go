//go:build interop

package interop_test

import (
	"fmt"
	"sort"
	"strings"
)

// environExchanges compare whole environments of children, given the servers'
// fixed environment (serverEnv).
var environExchanges = []exchange{
	{name: "environ/no policy", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.environ("empty", `"env":{}`)
		c.environ("exactly env", `"env":{"A":"1","API_KEY":"kept","EMPTY":"","L":"one\ntwo","U":"ä"}`)
		c.environ("null policy", `"env":{"A":"1"},"envPolicy":null`)
		c.environ("forbidden names go", `"env":{"NODE_REPL_AUTH_TOKEN":"x","node_repl_auth_token":"x","OPENAI_IDENTITY_TOKEN_FILE":"x",
			"CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE":"x","codex_exec_server_exit_on_stdin_close":"kept","KEPT":"1"}`)
		c.environ("metadata", `"env":{"A":"1"},"metadata":{"threadId":"01a1dcda-e67a-7ad2-8661-19fdd86f3f10","toolCallId":"c"}`)
		c.environ("metadata wins", `"env":{"CODEX_THREAD_ID":"x","CODEX_TOOL_CALL_ID":"y"},"metadata":{"toolCallId":"c"}`)
		const both = `"env":{"CODEX_THREAD_ID":"x","CODEX_TOOL_CALL_ID":"y"}`
		c.environ("metadata without a call", both+`,"metadata":{"threadId":"01a1dcda-e67a-7ad2-8661-19fdd86f3f10"}`)
		c.environ("metadata with nulls", both+`,"metadata":{"threadId":null,"toolCallId":null}`)
		c.environ("metadata empty", both+`,"metadata":{}`)
		c.environ("metadata null", both+`,"metadata":null`)
		c.environ("no metadata", both)
		c.environ("terminal", `"env":{"A":"1"},"tty":true`)
		c.environ("terminal with SHELL", `"env":{"SHELL":"/x"},"tty":true`)
	}},
	{name: "environ/inherit", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.environ("all", policy("all", true, `[]`, `{}`, `[]`))
		c.environ("core", policy("core", true, `[]`, `{}`, `[]`))
		c.environ("none", policy("none", true, `[]`, `{}`, `[]`))
		c.environ("all, default excludes", policy("all", false, `[]`, `{}`, `[]`))
		c.environ("core, default excludes", policy("core", false, `[]`, `{}`, `[]`))
	}},
	{name: "environ/patterns", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		for _, exclude := range []string{`["PLAIN"]`, `["STAR_*"]`, `["star_?"]`, `["Q?"]`, `["Q??"]`, `["*"]`, `[""]`, `["BRACKET[1]"]`,
			`["BRACKET*"]`, `["*A*","Q*"]`, `["?????"]`, `["P*N"]`, `["**"]`, `["STAR_[AB]"]`, `["PLAI"]`} {
			c.environ("exclude "+exclude, policy("all", true, exclude, `{}`, `[]`))
			c.environ("includeOnly "+exclude, policy("all", true, `[]`, `{}`, exclude))
		}
	}},
	{name: "environ/order of steps", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.environ("set brings back", policy("all", false, `["PLAIN"]`, `{"PLAIN":"set","API_KEY":"set"}`, `["PLAIN","API_KEY","Q1"]`))
		c.environ("includeOnly filters set", policy("none", true, `[]`, `{"A":"1","B":"2"}`, `["A"]`))
		c.environ("exclude does not touch set", policy("none", false, `["*"]`, `{"A":"1","MY_TOKEN":"2"}`, `[]`))
		c.environ("env is not filtered", policy("none", false, `["*"]`, `{}`, `["NOTHING"]`)+`,"env":{"A_SECRET":"1","B":"2"}`)
		c.environ("env overlays", policy("all", true, `[]`, `{"PLAIN":"set"}`, `["PLAIN"]`)+`,"env":{"PLAIN":"env"}`)
		c.environ("forbidden even if set", policy("none", true, `[]`, `{"OPENAI_FEDERATION_RULE_ID":"x","K":"1"}`, `[]`))
		c.environ("metadata last", policy("none", true, `["*"]`, `{}`, `["X"]`)+`,"metadata":{"toolCallId":"c"}`)
		c.environ("case of names", policy("none", true, `[]`, `{"a":"1","A":"2"}`, `[]`)+`,"env":{"b":"1","B":"2"}`)
	}},
}

// policy is the envPolicy member, with env empty unless the caller adds one.
func policy(inherit string, ignore bool, exclude, set, includeOnly string) string {
	return fmt.Sprintf(`"envPolicy":{"inherit":%q,"ignoreDefaultExcludes":%t,"exclude":%s,"set":%s,"includeOnly":%s}`,
		inherit, ignore, exclude, set, includeOnly)
}

// environ runs env -0 and records the environment, sorted.
func (c *conn) environ(label, extra string) {
	if !strings.Contains(extra, `"env":`) {
		extra += `,"env":{}`
	}
	c.nextID++ // so that the process has an id of its own
	id := fmt.Sprintf("env-%d", c.nextID)
	c.start(id, []string{"/usr/bin/env", "-0"}, extra)
	events, closed := c.all(id)
	if !closed {
		c.p.t.Errorf("%s: %s: the process does not end", c.p.who, label)
	}
	names := strings.Split(outputOf(events, ""), "\x00")
	for i, n := range names {
		names[i] = ownPath(n)
		if n == "SHELL="+loginShell() && !strings.Contains(extra, `"envPolicy"`) { // with a policy it may be inherited from the server
			names[i] = "SHELL=LOGIN"
		}
	}
	sort.Strings(names)
	c.p.note(label, fmt.Sprintf("%q", names))
}

// ownPath removes from PATH the directories that the reference adds for itself: those of its package and home.
func ownPath(variable string) string {
	list, ok := strings.CutPrefix(variable, "PATH=")
	if !ok {
		return variable
	}
	var kept []string
	for dir := range strings.SplitSeq(list, ":") {
		if !strings.HasPrefix(dir, suite.root) && !strings.HasPrefix(dir, suite.dir) {
			kept = append(kept, dir)
		}
	}
	return "PATH=" + strings.Join(kept, ":")
}
