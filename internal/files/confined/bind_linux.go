package confined

import (
	"context"
	"crypto/sha256"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/confined/helper"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// errNoCwd is the error for rules that need a cwd to be resolved. The text is
// the wire's.
var errNoCwd = wire.Errorf(wire.CodeInvalidParams, "file system sandbox context with dynamic permissions requires cwd")

// A binding is the meaning of an intent on this machine, as long as the files
// that it is about do not change.
type binding struct {
	intent              *wire.Sandbox // as helpers use it
	text                string        // of the client's intent
	fullRead, fullWrite bool

	plan  string
	watch []sandbox.Watch
	print string // fingerprint of the watched paths
	key   string // hash of plan, rules and print: bindings with the same key share a helper
}

// helperEnv returns the part of the server's environment that helpers get.
func helperEnv(env []string) []string {
	var kept []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains([]string{"PATH", "TMPDIR", "TMP", "TEMP"}, name) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// bind returns the binding of an intent. An earlier binding of the same intent is
// used again: for a helper, use checks it before each request. The error is for
// refused.
func (p *Pool) bind(ctx context.Context, intent *wire.Sandbox) (*binding, error) {
	if p.config.Confiner == nil {
		return nil, &files.Error{Err: files.ErrSandbox}
	}
	text, err := textOf(intent)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	b := p.bindings[text]
	p.mu.Unlock()
	if b != nil {
		if b.fullWrite { // it has no helper, so check it now
			return p.refresh(ctx, b)
		}
		return b, nil
	}
	if b, err = p.bindNew(ctx, helperIntent(intent), text); err == nil {
		p.remember(b)
	}
	return b, err
}

func textOf(intent *wire.Sandbox) (string, error) {
	text, err := wire.AppendNotification(nil, "", intent)
	if intent.EnforceManagedNetwork { // not part of the encoded form
		text = append(text, '+')
	}
	return string(text), err
}

// helperIntent returns the intent for a helper: without network, and with the
// system directories readable.
func helperIntent(intent *wire.Sandbox) *wire.Sandbox {
	own := *intent
	own.Permissions.Network = wire.NetworkRestricted
	own.Permissions.FileSystem.Entries = append(slices.Clone(own.Permissions.FileSystem.Entries), wire.SandboxEntry{
		Path:   wire.SandboxPath{Type: wire.SandboxPathSpecial, Special: wire.SpecialPath{Kind: wire.SpecialMinimal}},
		Access: wire.AccessRead,
	})
	return &own
}

// dynamic reports whether an intent has rules that depend on a directory which it
// does not name.
func dynamic(intent *wire.Sandbox) bool {
	cwd := intent.Cwd
	if c := intent.PolicyContext; c != nil {
		cwd = c.Cwd
	}
	return cwd == nil && slices.ContainsFunc(intent.Permissions.FileSystem.Entries, func(e wire.SandboxEntry) bool {
		switch e.Path.Type {
		case wire.SandboxPathSpecial:
			return e.Path.Special.Kind == wire.SpecialProjectRoots
		case wire.SandboxPathGlob:
			return !path.IsAbs(e.Path.Pattern)
		}
		return false
	})
}

// request returns the request that starts a helper. The helper works in /: its
// paths are absolute, and the cwd of the intent need not exist.
func (p *Pool) request(intent *wire.Sandbox) confine.Request {
	return confine.Request{Intent: intent, NoPlaceholders: true, Spec: proc.Spec{Argv: helperArgv, Env: p.env}}
}

// bindNew binds an intent to the present state of the machine.
func (p *Pool) bindNew(ctx context.Context, intent *wire.Sandbox, text string) (*binding, error) {
	if dynamic(intent) {
		return nil, errNoCwd
	}
	support, err := p.config.Confiner.Support(ctx)
	if err != nil {
		return nil, err
	}
	return proc.Abandonable(ctx, func() (*binding, error) {
		policy, plan, err := p.config.Confiner.Compile(p.request(intent), support)
		if err != nil {
			return nil, err
		}
		if !policy.FullWrite && plan.Effect("/proc/self") == sandbox.Hidden {
			return nil, sandbox.Unenforceable("/proc is denied, which file requests need")
		}
		b := &binding{
			intent: intent, text: text,
			fullRead: policy.FullRead, fullWrite: policy.FullWrite,
			plan: plan.Effects(), watch: policy.Watched(),
		}
		b.print = p.fingerprint(b.watch)
		sum := sha256.New()
		sum.Write([]byte(b.plan))
		sum.Write(helper.AppendRules(nil, policy.Rulebook(plan)))
		sum.Write([]byte(b.print))
		b.key = string(sum.Sum(nil))
		return b, nil
	}, func(*binding) {})
}

// refresh binds anew if the machine has changed, or if the binding was forgotten. A
// forgotten binding may be inconsistent: its plan from before a change and its
// fingerprint from after.
func (p *Pool) refresh(ctx context.Context, b *binding) (*binding, error) {
	p.mu.Lock()
	latest := p.bindings[b.text]
	p.mu.Unlock()
	if latest != nil {
		if same, err := p.unchanged(ctx, latest); same || err != nil {
			return latest, err
		}
		p.forget(latest)
	}
	b, err := p.bindNew(ctx, b.intent, b.text)
	if err == nil {
		p.remember(b)
	}
	return b, err
}

// remember keeps a binding for the next request.
func (p *Pool) remember(b *binding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for text := range p.bindings {
		if len(p.bindings) < maxBindings {
			break
		}
		delete(p.bindings, text) // any: it only has to be bound again
	}
	p.bindings[b.text] = b
}

// forget drops a binding that is outdated, and its helper.
func (p *Pool) forget(b *binding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bindings[b.text] == b {
		delete(p.bindings, b.text)
	}
	if h := p.helpers[b.key]; h != nil {
		p.retireLocked(h)
	}
}

// refused turns the reason why there is no sandbox into an error of the wire.
func refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*files.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*sandbox.IntentError](err); ok {
		if text, ok := foreignPlace(e); ok {
			return wire.Errorf(wire.CodeInvalidRequest, "%s", text)
		}
		if strings.HasPrefix(e.Error(), "invalid sandbox permission path URI") {
			return wire.Errorf(wire.CodeInvalidRequest, "%v", e)
		}
		return wire.Errorf(wire.CodeInvalidParams, "%v", e)
	}
	if e, ok := errors.AsType[*sandbox.UnenforceableError](err); ok {
		return unenforceable(e.Reason)
	}
	return failure(err.Error())
}

// foreignPlace reports whether an intent is about a directory that is not valid
// here, and returns the text for file requests.
func foreignPlace(e *sandbox.IntentError) (text string, ok bool) {
	switch inner := errors.Unwrap(e); {
	case inner == nil:
	case strings.HasPrefix(e.Error(), "sandbox cwd URI"):
		return inner.Error(), true
	case strings.HasPrefix(e.Error(), "sandbox workspace root URI"):
		return "file system sandbox workspace root is not native to this exec-server host: " + inner.Error(), true
	}
	return "", false
}

// readsDespite reports whether everything may be read under an intent, although there
// is no sandbox for it because of err.
func readsDespite(intent *wire.Sandbox, err error) bool {
	if !readsAll(intent) {
		return false
	}
	if e, ok := errors.AsType[*sandbox.IntentError](err); ok {
		_, ok := foreignPlace(e)
		return ok
	}
	_, ok := errors.AsType[*sandbox.UnenforceableError](err)
	return ok
}

// unenforceable returns the error for a request without a sandbox.
func unenforceable(reason string) error {
	return files.NewError(wire.CodeInvalidRequest, files.ErrSandbox.Error()+": "+reason)
}

// failure returns an error of a helper itself, not of its request.
func failure(text string) error {
	return files.NewError(wire.CodeInternal, "fs sandbox helper failed: "+text)
}
