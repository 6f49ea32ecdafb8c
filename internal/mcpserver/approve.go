package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

// shownOutput is how much of the output of a denied command the user is shown.
const shownOutput = 1000

// The scopes of an approval.
const (
	scopeMember  = "scope"
	scopeOnce    = "once"
	scopeSession = "session"
	scopeRule    = "rule"
	scopeGood    = "good"
)

// Errors for the model if the user cannot be asked, with what to do about it.
var (
	errCannotAsk        = errors.New("the MCP client does not support elicitation; the user can allow more with the --sandbox option of `tether mcp`")
	errCannotAskNetwork = errors.New("the MCP client does not support elicitation; " + networkOptions)
)

// approve asks the user of the MCP client.
func (m *mcpSession) approve(ctx context.Context, q unifiedexec.Question) (unifiedexec.Decision, error) {
	c := callOf(ctx)
	switch {
	case c != nil && asksForms(c.session.InitializeParams()):
	case q.Network, q.Host != "":
		return unifiedexec.Declined, errCannotAskNetwork
	default:
		return unifiedexec.Declined, errCannotAsk
	}
	if c.over.Load() { // an HTTP client would not get a question that belongs to a call with a result
		unbound, cancel := context.WithCancel(m.ctx)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		ctx = unbound
	}
	answer, err := c.session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: questionText(q, m.config.Sandbox != nil), RequestedSchema: questionForm(q)})
	if err != nil {
		return unifiedexec.Declined, err
	}
	if answer.Action != "accept" {
		return unifiedexec.Declined, nil
	}
	switch answer.Content[scopeMember] {
	case scopeSession:
		return unifiedexec.ApprovedForSession, nil
	case scopeRule:
		if len(q.Rule) > 0 {
			return unifiedexec.ApprovedRule, nil
		}
	case scopeGood:
		if q.Keep {
			return unifiedexec.ApprovedForGood, nil
		}
	}
	return unifiedexec.Approved, nil
}

// asksForms reports whether a client can ask its user.
func asksForms(p *mcp.InitializeParams) bool {
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	e := p.Capabilities.Elicitation
	return e.Form != nil || e.URL == nil
}

// questionText returns the text of a question. confined says that the command would run in a sandbox.
func questionText(q unifiedexec.Question, confined bool) string {
	var b strings.Builder
	switch {
	case q.Host != "":
		fmt.Fprintf(&b, "A running command wants to reach %s, which is not among the hosts that it may reach. Allow it?\n", q.Host)
	case q.Network && len(q.Hosts) > 0:
		fmt.Fprintf(&b, "A command has failed and was not allowed to reach %s. Run it again, from its beginning, with the network open to all hosts?\n", list(q.Hosts))
	case q.Network:
		b.WriteString("A command has failed and seems to need the network, which the sandbox does not have. Run it again, from its beginning, with the network?\n")
	case q.Retry:
		b.WriteString("The sandbox has stopped a command. Run it again, from its beginning, without sandbox?\n")
	case q.Permissions == unifiedexec.RequireEscalated:
		b.WriteString("Run this command without sandbox?\n")
	case q.Permissions == unifiedexec.WithAdditional:
		b.WriteString("Run this command in a wider sandbox?\n")
	case confined:
		b.WriteString("Run this command in the sandbox?\n")
	default:
		b.WriteString("Run this command?\n")
	}
	fmt.Fprintf(&b, "\nCommand: %s\nDirectory: %s\n", q.Script, q.Cwd)
	if more := q.Additional; more != nil && !q.Retry && q.Host == "" {
		if more.Network != nil && more.Network.Enabled {
			b.WriteString("Also allowed: the network\n")
		}
		if more.FileSystem != nil {
			for _, name := range more.FileSystem.Read {
				fmt.Fprintf(&b, "Also allowed: read %s\n", name)
			}
			for _, name := range more.FileSystem.Write {
				fmt.Fprintf(&b, "Also allowed: write %s\n", name)
			}
		}
	}
	if q.Reason != "" && !q.Retry && q.Host == "" {
		fmt.Fprintf(&b, "Reason: %s\n", q.Reason)
	}
	if what := denialText(q.Denial); what != "" && !q.Network {
		fmt.Fprintf(&b, "Denied: %s\n", what)
	}
	if q.Output != "" {
		fmt.Fprintf(&b, "Output: %s\n", tail(q.Output, shownOutput))
	}
	return visible(b.String())
}

// visible shows control characters, and characters that change the order of the text, by their
// numbers: the user must see the command that is approved.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", r)
		}
	}
	return b.String()
}

// denialText describes a denial in a few words. It is empty if nothing is known about it.
func denialText(f *wire.DenialFact) string {
	if f == nil {
		return ""
	}
	var words []string
	path := f.PathText()
	for _, w := range []struct {
		before string
		text   *string
	}{{"", f.Access}, {"", &path}, {"system call ", f.Syscall}} {
		if w.text != nil && *w.text != "" {
			words = append(words, w.before+*w.text)
		}
	}
	return strings.Join(words, " ")
}

// tail returns the end of a text, in whole characters.
func tail(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-most:], "")
}

// questionForm asks for the scope of an approval. The default is once.
func questionForm(q unifiedexec.Question) map[string]any {
	values, names := []string{scopeOnce, scopeSession}, []string{"This once", "This command, for the rest of the session"}
	if q.Host != "" {
		names = []string{"This command", "All commands, for the rest of the session"}
	}
	if q.Keep {
		values, names = append(values, scopeGood), append(names, "All commands, also in later sessions")
	}
	if len(q.Rule) > 0 && !slices.Equal(q.Rule, q.Command) { // not the same as for the session
		values, names = append(values, scopeRule), append(names, visible("And all commands that begin with "+strings.Join(q.Rule, " ")+", without sandbox"))
	}
	return map[string]any{
		"type": "object",
		"properties": map[string]any{scopeMember: map[string]any{
			"type": "string", "title": "How long the approval is valid", "enum": values, "enumNames": names, "default": scopeOnce,
		}},
	}
}
