package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/unifiedexec"
	"github.com/tetherexec/tether/wire"
)

const (
	// describePatience is how long the answer to initialize waits for the executor to describe its
	// machine. Without that the texts say less.
	describePatience = 3 * time.Second

	// maxPlaces is how many paths or hosts of one kind the texts name.
	maxPlaces = 16
)

// executorFacts are the facts about the executor and its limits, for the texts that the model of
// a client reads.
type executorFacts struct {
	config *Config
	info   wire.EnvironmentInfo // zero if the executor cannot be reached
	at     executorPaths
	asks   bool // the user can be asked for more permissions
}

// factsFor returns the facts for a client.
func (s *Server) factsFor(ctx context.Context, client *mcp.InitializeParams) executorFacts {
	ctx, cancel := context.WithTimeout(ctx, describePatience)
	defer cancel()
	facts := executorFacts{config: &s.config, asks: s.config.asks() && asksForms(client)}
	info, err := unifiedexec.RemoteFunc(s.config.Client).Info(ctx)
	if err == nil {
		facts.at, err = pathsOf(&s.config, info)
	}
	if err != nil {
		s.config.Log.Info("the executor cannot be described", "err", err)
		facts.at = executorPaths{system: "linux", root: s.config.Cwd}
		return facts
	}
	facts.info = info
	return facts
}

// describeTools is a middleware that puts the facts for a client into the instructions and the
// tools that its model reads.
func (s *Server) describeTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		if err != nil {
			return result, err
		}
		session, ok := req.GetSession().(*mcp.ServerSession)
		if !ok {
			return result, err
		}
		switch r := result.(type) {
		case *mcp.InitializeResult:
			r.Instructions = s.factsFor(ctx, session.InitializeParams()).instructions()
		case *mcp.DiscoverResult:
			r.Instructions = s.factsFor(ctx, session.InitializeParams()).instructions()
		case *mcp.ListToolsResult:
			facts := s.factsFor(ctx, session.InitializeParams())
			for i, listed := range r.Tools {
				if r.Tools[i], err = facts.describe(listed); err != nil {
					return nil, err
				}
			}
		}
		return result, nil
	}
}

// describe returns a tool with the texts and the schema for a client.
func (f executorFacts) describe(listed *mcp.Tool) (*mcp.Tool, error) {
	all := tools(f)
	i := slices.IndexFunc(all, func(t tool) bool { return t.name == listed.Name })
	if i < 0 {
		return listed, nil
	}
	return all[i].published()
}

// instructions are for the model of a client.
func (f executorFacts) instructions() string {
	return "exec_command runs a shell command; a command that does not end in time runs on as a session, for write_stdin, search_output and kill_session.\n" +
		f.surroundings()
}

// surroundings say where commands run, what they may do and how they get more.
func (f executorFacts) surroundings() string {
	lines := []string{f.where(), f.files(), f.network(), f.more()}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), "\n")
}

// where says where commands run.
func (f executorFacts) where() string {
	text := "Commands run on " + f.machine()
	if f.at.root != "" {
		text += ", in " + f.at.root + " unless workdir names another directory"
	}
	if shell := f.info.Shell.Path; shell != "" {
		text += ", with " + shell
		if !f.config.NoLogin {
			text += " as a login shell"
		}
	}
	return text + "."
}

// machine names the machine and its system.
func (f executorFacts) machine() string {
	text := f.config.Where
	if text == "" {
		text = "the executor"
	}
	if name := map[string]string{"linux": "Linux", "macos": "macOS", "windows": "Windows"}[f.info.PlatformOS]; name != "" {
		text += " (" + name + ")"
	}
	return text
}

// files says which files commands and file tools may read and write.
func (f executorFacts) files() string {
	s := f.config.Sandbox
	switch {
	case s == nil:
		return "There is no sandbox: commands may do all that the user of that machine may."
	case s.Permissions.Type != wire.PermissionsManaged || s.Permissions.FileSystem.Type == wire.FileSystemUnrestricted:
		return "The sandbox does not restrict files."
	}
	access := make(map[wire.Access][]string)
	for _, e := range s.Permissions.FileSystem.Entries {
		access[e.Access] = append(access[e.Access], f.pathsOfRule(e.Path)...)
	}
	all := func(a wire.Access) bool { return slices.Contains(access[a], everything) }
	var text string
	switch write := access[wire.AccessWrite]; {
	case all(wire.AccessWrite):
		text = "Commands and file tools may write all files"
	case len(write) == 0:
		text = "Commands and file tools may write no files"
	default:
		text = "Commands and file tools may write only " + list(write)
	}
	if read := without(access[wire.AccessRead], everything); all(wire.AccessRead) || all(wire.AccessWrite) {
		if len(read) > 0 && len(access[wire.AccessWrite]) > 0 {
			text += ", but not " + list(read)
		}
		text += "; they may read everything"
	} else if readable := append(slices.Clone(access[wire.AccessWrite]), read...); len(readable) > 0 {
		text += "; they may read only " + list(readable)
	}
	if hidden := access[wire.AccessDeny]; len(hidden) > 0 {
		text += "; hidden from them: " + list(hidden)
	}
	return text + "."
}

// paths say where relative paths begin.
func (f executorFacts) paths() string {
	if f.at.root == "" {
		return "The file is on " + f.machine() + "."
	}
	return "Relative paths begin in " + f.at.root + " on " + f.machine() + "."
}

// network says which hosts commands reach.
func (f executorFacts) network() string {
	switch s := f.config.Sandbox; {
	case s == nil:
		return ""
	case f.config.Network != nil:
		text := "Commands reach only these hosts, through the proxy that HTTP_PROXY and the like name: " + list(f.config.Network.Allow)
		if deny := f.config.Network.Deny; len(deny) > 0 {
			text += "; but not " + list(deny)
		}
		if f.asks && f.config.asksHosts() {
			text += "; if a command wants to reach another one, it waits until the user has answered"
		}
		return text + "."
	case s.Permissions.Network == wire.NetworkRestricted:
		return "The network is off for commands."
	}
	return "The network is on for commands."
}

// more says how the model can ask for more permissions, if it can.
func (f executorFacts) more() string {
	const ask, network = "call exec_command with a justification and sandbox_permissions ", `additional_permissions {"network":{"enabled":true}}`
	closed := f.config.Network != nil || f.config.Sandbox != nil && f.config.Sandbox.Permissions.Network == wire.NetworkRestricted
	switch policy := f.config.Policy; {
	case f.config.Sandbox == nil:
		return ""
	case !f.asks, f.config.hides() && !closed:
		return "The user cannot be asked to allow more."
	case f.config.hides(): // no approval lets a command leave the sandbox
		return "To ask the user for the network, " + ask + `"with_additional_permissions", and ` + network + "."
	default:
		text := "To ask the user for more, " + ask + `"require_escalated" (to run without the sandbox), or "with_additional_permissions" and, for example, ` +
			network + " (to run in a wider sandbox)."
		if policy.Mode == unifiedexec.Granular && policy.SandboxApproval {
			text += " If the sandbox stops a command, the user is asked whether to run it again with more rights."
		}
		return text
	}
}

// everything stands for the whole file system.
const everything = "/"

// pathsOfRule returns the paths of a rule, as the executor spells them.
func (f executorFacts) pathsOfRule(p wire.SandboxPath) (paths []string) {
	switch p.Type {
	case wire.SandboxPathURI:
		return []string{f.native(p.Path)}
	case wire.SandboxPathGlob:
		return []string{"files that match " + p.Pattern}
	}
	switch p.Special.Kind {
	case wire.SpecialRoot:
		return []string{everything}
	case wire.SpecialMinimal:
		return []string{"the directories of the system"}
	case wire.SpecialSlashTmp:
		return []string{"/tmp"}
	case wire.SpecialTmpdir:
		return []string{"$TMPDIR"}
	case wire.SpecialProjectRoots:
		for _, root := range f.workspace() {
			if p.Special.Subpath != nil {
				root = executorPaths{system: f.at.system, root: root}.path(*p.Special.Subpath)
			}
			paths = append(paths, root)
		}
	}
	return paths
}

// workspace returns the workspace directories of the sandbox.
func (f executorFacts) workspace() []string {
	roots := f.config.Sandbox.WorkspaceRoots
	if c := f.config.Sandbox.PolicyContext; c != nil {
		roots = c.WorkspaceRoots
	} else if len(roots) == 0 {
		return []string{cmp.Or(f.at.root, "the workspace")} // while the executor cannot be reached
	}
	var paths []string
	for _, root := range roots {
		paths = append(paths, f.native(root))
	}
	return paths
}

func (f executorFacts) native(uri wire.PathURI) string {
	if name, err := uri.NativeOn(f.at.system); err == nil {
		return name
	}
	return uri.String()
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// list joins names with commas and "and". Of many names it has the first ones.
func list(names []string) string {
	if more := len(names) - maxPlaces; more > 0 {
		names = append(slices.Clone(names[:maxPlaces]), fmt.Sprintf("%d more", more))
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
