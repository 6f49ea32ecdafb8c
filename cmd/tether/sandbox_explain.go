package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

func newSandboxExplain() *cobra.Command {
	var flags sandboxFlags
	var hosts []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [flags] [PATH...]",
		Short: "Show what a sandbox would do, and decide about paths and hosts",
		Long: "Show how the sandbox of a profile would be built on this machine, without building it, and\n" +
			"what a command in it could do with each PATH, and whether it could reach each --host, by\n" +
			"which rule.",
		Example: "  tether sandbox explain\n" +
			"  tether sandbox explain --profile read-only ~/.ssh/id_ed25519 /tmp\n" +
			"  tether sandbox explain --allow-host '*.example.com' --host www.example.com:443",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, paths []string) error {
			e, err := flags.explain(cmd.Context(), paths, hosts)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), e)
			}
			return e.print(cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	flags.define(fs)
	fs.StringArrayVar(&hosts, "host", nil, "a `HOST[:PORT]` to decide about, on port 443 if it has none; can be\nrepeated")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	onlyOnce(fs)
	return cmd
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// An explanation is what `tether sandbox explain` has found out.
type explanation struct {
	Profile   string          `json:"profile"`
	Cwd       string          `json:"cwd"`
	Network   string          `json:"network"`
	Backend   backendState    `json:"backend"`
	FullRead  bool            `json:"fullRead"`
	FullWrite bool            `json:"fullWrite"`
	Writable  []writablePlace `json:"writableRoots"`
	Plan      planText        `json:"plan"`
	Paths     []decision      `json:"paths"`
	Hosts     []hostDecision  `json:"hosts"`
}

// backendState is whether the plan could be carried out here.
type backendState struct {
	Usable     bool   `json:"usable"`
	Bubblewrap string `json:"bubblewrap,omitempty"`
	Version    string `json:"version,omitempty"`
	Problem    string `json:"problem,omitempty"`
	Advice     string `json:"advice,omitempty"`
}

type writablePlace struct {
	Path   string      `json:"path"`
	Except []exception `json:"except"`
}

type exception struct {
	Path   string `json:"path"`
	Access string `json:"access"`
	Rule   string `json:"rule"`
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

// A decision is what a command could do with a path.
type decision struct {
	Path     string `json:"path"`     // absolute, as it was asked for
	RealPath string `json:"realPath"` // without links
	Exists   bool   `json:"exists"`
	Access   string `json:"access"`
	Rule     string `json:"rule"`
	RulePath string `json:"rulePath"` // what the rule is about
	Effect   string `json:"effect"`   // what the plan makes of it
}

func (f *sandboxFlags) explain(ctx context.Context, paths, hosts []string) (e *explanation, err error) {
	rules, err := f.hosts.rules(f.network)
	if err != nil {
		return nil, err
	}
	asked, err := parseHosts(hosts)
	if err != nil {
		return nil, err
	}
	cwd, err := f.workspace()
	if err != nil {
		return nil, err
	}
	intent, err := f.intent(cwd)
	if err != nil {
		return nil, err
	}
	w, err := openWorkshop(f.stateDir, f.sockets)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	verdict, err := w.confiner.Verdict(ctx)
	if err != nil {
		return nil, err
	}
	policy, plan, err := w.confiner.Compile(confine.Request{
		Intent: intent, Spec: proc.Spec{Dir: cwd, Env: os.Environ()}, EnforceManagedNetwork: rules != nil,
	}, verdict)
	if err != nil {
		return nil, err
	}
	e = &explanation{
		Profile: f.profile, Cwd: policy.Cwd, Network: string(policy.Network), Backend: describeBackend(verdict),
		FullRead: policy.FullRead, FullWrite: policy.FullWrite, Writable: []writablePlace{},
		Plan: describePlan(plan), Paths: []decision{}, Hosts: asked,
	}
	if !policy.FullWrite {
		e.Writable = writablePlaces(policy.WritableRoots())
	}
	for _, name := range paths {
		d, err := decide(policy, plan, name)
		if err != nil {
			return nil, err
		}
		e.Paths = append(e.Paths, d)
	}
	if rules != nil {
		e.Network = networkManaged
	}
	for i := range asked {
		asked[i].decide(rules, policy.Network)
	}
	return e, nil
}

// writablePlaces names each exception once, below the innermost root that has it.
func writablePlaces(roots []sandbox.WritableRoot) []writablePlace {
	places := []writablePlace{}
	for i, root := range roots {
		place := writablePlace{Path: root.Path, Except: []exception{}}
		for _, rule := range root.CarveOuts {
			inner := slices.ContainsFunc(roots[i+1:], func(r sandbox.WritableRoot) bool {
				return len(r.Path) > len(root.Path) && slices.ContainsFunc(r.CarveOuts, func(c sandbox.Rule) bool { return c.Path == rule.Path })
			})
			if !inner {
				place.Except = append(place.Except, exception{rule.Path, rule.Access.String(), rule.String()})
			}
		}
		places = append(places, place)
	}
	return places
}

func describeBackend(v confine.Verdict) backendState {
	b := backendState{Usable: v.Problem == nil, Bubblewrap: v.Bubblewrap.Path, Version: v.Bubblewrap.Version, Advice: v.Advice}
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

func decide(policy *sandbox.Policy, plan *sandbox.Plan, name string) (decision, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return decision{}, fmt.Errorf("find the current directory: %w", err)
	}
	real, exists, err := realPath(path)
	if err != nil {
		return decision{}, err
	}
	access, rule := policy.Decide(real)
	return decision{
		Path: path, RealPath: real, Exists: exists,
		Access: access.String(), Rule: rule.String(), RulePath: rule.Path, Effect: plan.Effect(real).String(),
	}, nil
}

// maxLinks is how many links that lead nowhere are followed, as in the kernel.
const maxLinks = 40

// realPath follows the links in a path, as far as it exists: rules are about what
// a name leads to.
func realPath(path string) (real string, exists bool, err error) {
	rest := ""
	for range maxLinks * 8 { // each round takes a component or a link
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), rest == "", nil
		}
		if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			return filepath.Join(path, rest), false, nil // nobody can look behind it, or no further
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

// print writes the explanation for people.
func (e *explanation) print(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s"+format+"\n", append([]any{name}, args...)...)
	}
	row("profile", "%s", e.Profile)
	row("cwd", "%s", e.Cwd)
	row("network", "%s", networkWords[e.Network])
	switch {
	case e.Plan.Shape == sandbox.ShapeOpen.String():
		row("backend", "none needed: nothing is enforced")
	case e.Backend.Usable:
		row("backend", "%s, %s", e.Backend.Bubblewrap, e.Backend.Version)
	default:
		row("backend", "MISSING, the command would be refused: %s", e.Backend.Problem)
		if e.Backend.Advice != "" {
			row("", "%s", e.Backend.Advice)
		}
	}
	e.printWritable(row)
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

func (e *explanation) printWritable(row func(name, format string, args ...any)) {
	heading := "writable"
	switch {
	case e.FullWrite:
		row(heading, "everything")
	case len(e.Writable) == 0:
		row(heading, "nothing")
	}
	for _, place := range e.Writable {
		row(heading, "%s", place.Path)
		heading = ""
		for _, x := range place.Except {
			row("", "  except %s: %s (%s)", x.Path, accessWords[x.Access], x.Rule)
		}
	}
}

// networkManaged is a network that leads to some hosts, beside what permissions say.
const networkManaged = "managed"

// networkWords say what a command can reach, in words.
var networkWords = map[string]string{
	string(wire.NetworkRestricted): "off", string(wire.NetworkEnabled): "on",
	networkManaged: "what --allow-host names, through a proxy",
}

// accessWords say what a command can do, in words.
var accessWords = map[string]string{"deny": "no access", "read": "read only", "write": "read and write"}

// effectWords say what the plan puts at a path.
var effectWords = map[string]string{
	"hidden":        "nothing, or an empty file or directory",
	"private":       "a file of the sandbox's own",
	"host-readable": "the real file, read-only",
	"host-writable": "the real file, read and write",
}

func (d decision) print(b *strings.Builder) {
	b.WriteString("  " + d.Path)
	if d.RealPath != d.Path {
		b.WriteString(" -> " + d.RealPath)
	}
	if !d.Exists {
		b.WriteString(" (does not exist)")
	}
	fmt.Fprintf(b, "\n    %s: %s", accessWords[d.Access], d.Rule)
	if d.RulePath != d.RealPath && d.RulePath != "" {
		b.WriteString(", for " + d.RulePath)
	}
	fmt.Fprintf(b, "\n    inside: %s\n", effectWords[d.Effect])
}
