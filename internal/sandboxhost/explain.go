package sandboxhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/confine/explain"
	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// A Question is about a sandbox, paths and hosts.
type Question struct {
	Profile string // the name of the profile
	Cwd     string
	Intent  *wire.Sandbox
	Rules   *netpolicy.Rules // the hosts that a command may reach; nil: as in the intent
	Paths   []string
	Hosts   []HostDecision // see ParseHost
}

// An Explanation is the result of `tether sandbox explain`.
type Explanation struct {
	Profile   string              `json:"profile"`
	Cwd       string              `json:"cwd"`
	Network   string              `json:"network"`
	Backend   backendState        `json:"backend"`
	FullRead  bool                `json:"fullRead"`
	FullWrite bool                `json:"fullWrite"`
	Readable  []wire.SandboxPlace `json:"readableRoots"`
	Writable  []wire.SandboxPlace `json:"writableRoots"`
	Plan      planText            `json:"plan"`
	Paths     []PathDecision      `json:"paths"`
	Hosts     []HostDecision      `json:"hosts"`

	files wire.SandboxFacts
}

// backendState says whether the plan could be carried out here.
type backendState struct {
	Usable     bool   `json:"usable"`
	Name       string `json:"name,omitempty"` // native or bwrap
	Bubblewrap string `json:"bubblewrap,omitempty"`
	Version    string `json:"version,omitempty"`
	Problem    string `json:"problem,omitempty"`
	Advice     string `json:"advice,omitempty"`
}

type planText struct {
	Shape   string   `json:"shape"`
	Unshare string   `json:"unshare"`
	Filter  string   `json:"filter"`
	Cwd     string   `json:"cwd,omitempty"`
	Ops     []planOp `json:"ops"`

	text string
}

type planOp struct {
	Op     string `json:"op"`
	Path   string `json:"path"`
	Target string `json:"target,omitempty"`
	Mode   string `json:"mode,omitempty"`
	Why    string `json:"why,omitempty"`
}

// A PathDecision is the access of a command to a path.
type PathDecision struct {
	Path     string `json:"path"`     // absolute, as it was asked for
	RealPath string `json:"realPath"` // without links
	Exists   bool   `json:"exists"`
	Access   string `json:"access"`
	Rule     string `json:"rule"`
	RulePath string `json:"rulePath"` // the path that the rule is about
	Effect   string `json:"effect"`   // the effect of the plan
}

// Explain describes how a sandbox would be built here, without building it, and which access a
// command in it would have to paths and hosts.
func (h *Host) Explain(ctx context.Context, q Question) (*Explanation, error) {
	support, err := h.Confiner.Support(ctx)
	if err != nil {
		return nil, err
	}
	policy, plan, err := h.Confiner.Compile(confine.Request{
		Intent: q.Intent, Spec: proc.Spec{Dir: q.Cwd, Env: os.Environ()}, EnforceManagedNetwork: q.Rules != nil,
	}, support)
	if err != nil {
		return nil, err
	}
	files := explain.Files(policy, math.MaxInt)
	e := &Explanation{
		Profile: q.Profile, Cwd: policy.Cwd, Network: string(policy.Network), Backend: describeBackend(support),
		FullRead: files.FullRead, FullWrite: files.FullWrite, Readable: files.Readable, Writable: files.Writable,
		Plan: describePlan(plan), Paths: []PathDecision{}, Hosts: q.Hosts, files: files,
	}
	for _, name := range q.Paths {
		d, err := decide(policy, plan, name)
		if err != nil {
			return nil, err
		}
		e.Paths = append(e.Paths, d)
	}
	if q.Rules != nil {
		e.Network = networkManaged
	}
	for i := range e.Hosts {
		e.Hosts[i].decide(q.Rules, policy.Network)
	}
	return e, nil
}

func describeBackend(v confine.Support) backendState {
	b := backendState{Usable: v.Problem == nil, Bubblewrap: v.Bubblewrap.Path, Version: v.Bubblewrap.Version, Advice: v.Advice}
	switch {
	case v.Native:
		b.Name = string(confine.BackendNative)
	case v.Bubblewrap.Path != "":
		b.Name = string(confine.BackendBubblewrap)
	}
	if v.Problem != nil {
		b.Problem = v.Problem.Error()
		if e, ok := errors.AsType[*sandbox.UnenforceableError](v.Problem); ok {
			b.Problem = e.Reason
		}
	}
	return b
}

func describePlan(p *sandbox.Plan) planText {
	t := planText{
		Shape: p.Shape.String(), Unshare: p.Namespaces.String(), Filter: p.Filter.String(), Cwd: p.Cwd,
		Ops: []planOp{}, text: p.String(),
	}
	for _, op := range p.Ops {
		o := planOp{Op: op.Kind.String(), Path: op.Path, Target: op.Target, Why: op.Why}
		switch op.Kind {
		case sandbox.OpDir, sandbox.OpMaskDir, sandbox.OpMaskFile:
			o.Mode = fmt.Sprintf("%04o", sandbox.UnixMode(op.Mode))
		}
		t.Ops = append(t.Ops, o)
	}
	return t
}

func decide(policy *sandbox.Policy, plan *sandbox.Plan, name string) (PathDecision, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return PathDecision{}, fmt.Errorf("find the current directory: %w", err)
	}
	real, exists, err := realPath(path)
	if err != nil {
		return PathDecision{}, err
	}
	access, rule := policy.Decide(real)
	return PathDecision{
		Path: path, RealPath: real, Exists: exists,
		Access: access.String(), Rule: rule.String(), RulePath: rule.Path, Effect: plan.Effect(real).String(),
	}, nil
}

// maxLinks is how many dangling links are followed, as in the kernel.
const maxLinks = 40

// realPath follows the links in a path, as far as it exists: rules are about real
// paths.
func realPath(path string) (real string, exists bool, err error) {
	rest := ""
	for range maxLinks * 8 { // each round takes a component or a link
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), rest == "", nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return filepath.Join(path, rest), false, nil // cannot be looked at, or the root
		}
		if target, err := os.Readlink(path); err == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(path), target)
			}
			path = target
			continue
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
	return "", false, fmt.Errorf("%s: too many symbolic links", path)
}

// Print writes the explanation for people.
func (e *Explanation) Print(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		b.WriteString(explain.Row(name, fmt.Sprintf(format, args...)) + "\n")
	}
	row("profile", "%s", e.Profile)
	row("cwd", "%s", e.Cwd)
	row("network", "%s", networkWords[e.Network])
	switch {
	case e.Plan.Shape == sandbox.ShapeOpen.String():
		row("backend", "none needed: nothing is enforced")
	case e.Backend.Usable && e.Backend.Name == string(confine.BackendNative):
		row("backend", "native: tether builds the sandbox itself")
	case e.Backend.Usable:
		row("backend", "%s, %s", e.Backend.Bubblewrap, e.Backend.Version)
	default:
		row("backend", "MISSING, the command would be refused: %s", e.Backend.Problem)
		if e.Backend.Advice != "" {
			row("", "%s", e.Backend.Advice)
		}
	}
	explain.FileRows(&e.files, func(name, text string) { row(name, "%s", text) })
	if len(e.Paths) > 0 {
		b.WriteString("\npaths\n")
		for _, d := range e.Paths {
			d.print(&b)
		}
	}
	if len(e.Hosts) > 0 {
		b.WriteString("\nhosts\n")
		for _, d := range e.Hosts {
			d.print(&b)
		}
	}
	b.WriteString("\nplan\n")
	for line := range strings.Lines(e.Plan.text) {
		b.WriteString("  " + line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// networkManaged is a managed network; permissions have no word for it.
const networkManaged = "managed"

// networkWords describe the network of a command, in words.
var networkWords = map[string]string{
	string(wire.NetworkRestricted): "off", string(wire.NetworkEnabled): "on",
	networkManaged: "what --allow-host names, through a proxy",
}

// effectWords describe what a command finds at a path.
var effectWords = map[string]string{
	"hidden":        "nothing, or an empty file or directory",
	"private":       "a file of the sandbox's own",
	"host-readable": "the real file, read-only",
	"host-writable": "the real file, read and write",
}

func (d PathDecision) print(b *strings.Builder) {
	b.WriteString("  " + d.Path)
	if d.RealPath != d.Path {
		b.WriteString(" -> " + d.RealPath)
	}
	if !d.Exists {
		b.WriteString(" (does not exist)")
	}
	fmt.Fprintf(b, "\n    %s: %s", explain.AccessWords[d.Access], d.Rule)
	if d.RulePath != d.RealPath && d.RulePath != "" {
		b.WriteString(", for " + d.RulePath)
	}
	fmt.Fprintf(b, "\n    inside: %s\n", effectWords[d.Effect])
}
