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
	// describePatience is how long a client that introduces itself waits for what the
	// executor says about its machine. Without that the texts say less.
	describePatience = 3 * time.Second

	// maxPlaces is how many paths or hosts of one kind the texts name.
	maxPlaces = 16
)

// A scene is what a client's commands find where they run, for the texts that its model
// reads.
type scene struct {
	config *Config
	info   wire.EnvironmentInfo // zero: the executor has not said
	at     place
	asks   bool // the user can be asked to allow more
}

// scene finds out what there is to say to a client.
func (s *Server) scene(ctx context.Context, client *mcp.InitializeParams) scene {
	ctx, cancel := context.WithTimeout(ctx, describePatience)
	defer cancel()
	sc := scene{config: &s.config, asks: s.config.asks() && asksForms(client)}
	info, err := unifiedexec.RemoteFunc(s.config.Client).Info(ctx)
	if err == nil {
		sc.at, err = placeOf(&s.config, info)
	}
	if err != nil {
		s.config.Log.Info("the executor cannot be described", "err", err)
		sc.at = place{system: "linux", root: s.config.Cwd}
		return sc
	}
	sc.info = info
	return sc
}

// tells puts what is true for a client into the answers that its model gets to read.
func (s *Server) tells(next mcp.MethodHandler) mcp.MethodHandler {
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
			r.Instructions = s.scene(ctx, session.InitializeParams()).instructions()
		case *mcp.DiscoverResult:
			r.Instructions = s.scene(ctx, session.InitializeParams()).instructions()
		case *mcp.ListToolsResult:
			sc := s.scene(ctx, session.InitializeParams())
			for i, listed := range r.Tools {
				if r.Tools[i], err = sc.describe(listed); err != nil {
					return nil, err
				}
			}
		}
		return result, nil
	}
}

// describe returns a tool with the texts and the schema for a client.
func (sc scene) describe(listed *mcp.Tool) (*mcp.Tool, error) {
	all := tools(sc)
	i := slices.IndexFunc(all, func(t tool) bool { return t.name == listed.Name })
	if i < 0 {
		return listed, nil
	}
	return all[i].published()
}

// instructions are for the model of a client.
func (sc scene) instructions() string {
	return "exec_command runs a shell command; one that does not end in time goes on as a session, for write_stdin, search_output and kill_session.\n" +
		sc.surroundings()
}

// surroundings say where commands run, what they may do and how they get more.
func (sc scene) surroundings() string {
	lines := []string{sc.where(), sc.files(), sc.network(), sc.more()}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), "\n")
}

// where says where commands run.
func (sc scene) where() string {
	text := "Commands run on " + sc.machine()
	if sc.at.root != "" {
		text += ", in " + sc.at.root + " unless workdir names another directory"
	}
	if shell := sc.info.Shell.Path; shell != "" {
		text += ", with " + shell
		if !sc.config.NoLogin {
			text += " as a login shell"
		}
	}
	return text + "."
}

// machine names the machine and its system.
func (sc scene) machine() string {
	text := sc.config.Where
	if text == "" {
		text = "the executor"
	}
	if name := map[string]string{"linux": "Linux", "macos": "macOS", "windows": "Windows"}[sc.info.PlatformOS]; name != "" {
		text += " (" + name + ")"
	}
	return text
}

// files say which files commands may read and write. What the file tools reach is the same.
func (sc scene) files() string {
	s := sc.config.Sandbox
	switch {
	case s == nil:
		return "There is no sandbox: commands may do all that the user of that machine may."
	case s.Permissions.Type != wire.PermissionsManaged || s.Permissions.FileSystem.Type == wire.FileSystemUnrestricted:
		return "The sandbox does not restrict files."
	}
	access := make(map[wire.Access][]string)
	for _, e := range s.Permissions.FileSystem.Entries {
		access[e.Access] = append(access[e.Access], sc.places(e.Path)...)
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
func (sc scene) paths() string {
	if sc.at.root == "" {
		return "The file is on " + sc.machine() + "."
	}
	return "Relative paths begin in " + sc.at.root + " on " + sc.machine() + "."
}

// network says what commands reach.
func (sc scene) network() string {
	switch s := sc.config.Sandbox; {
	case s == nil:
		return ""
	case sc.config.Network != nil:
		text := "Commands reach only these hosts, through the proxy that HTTP_PROXY and the like name: " + list(sc.config.Network.Allow)
		if deny := sc.config.Network.Deny; len(deny) > 0 {
			text += "; but not " + list(deny)
		}
		return text + "."
	case s.Permissions.Network == wire.NetworkRestricted:
		return "The network is off for commands."
	}
	return "The network is on for commands."
}

// more says how more can be asked for, if it can.
func (sc scene) more() string {
	const ask, network = "call exec_command with a justification and sandbox_permissions ", `additional_permissions {"network":{"enabled":true}}`
	closed := sc.config.Network != nil || sc.config.Sandbox != nil && sc.config.Sandbox.Permissions.Network == wire.NetworkRestricted
	switch policy := sc.config.Policy; {
	case sc.config.Sandbox == nil:
		return ""
	case !sc.asks, sc.config.hides() && !closed:
		return "The user cannot be asked to allow more."
	case sc.config.hides(): // whatever is approved
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

// places are the paths that a rule is about, as the executor spells them.
func (sc scene) places(p wire.SandboxPath) (paths []string) {
	switch p.Type {
	case wire.SandboxPathURI:
		return []string{sc.native(p.Path)}
	case wire.SandboxPathGlob:
		return []string{"what matches " + p.Pattern}
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
		for _, root := range sc.workspace() {
			if p.Special.Subpath != nil {
				root = place{system: sc.at.system, root: root}.path(*p.Special.Subpath)
			}
			paths = append(paths, root)
		}
	}
	return paths
}

// workspace are the directories that a sandbox calls its project.
func (sc scene) workspace() []string {
	roots := sc.config.Sandbox.WorkspaceRoots
	if c := sc.config.Sandbox.PolicyContext; c != nil {
		roots = c.WorkspaceRoots
	} else if len(roots) == 0 {
		return []string{cmp.Or(sc.at.root, "the workspace")} // while the executor has not said where it is
	}
	var paths []string
	for _, root := range roots {
		paths = append(paths, sc.native(root))
	}
	return paths
}

func (sc scene) native(uri wire.PathURI) string {
	if name, err := uri.NativeOn(sc.at.system); err == nil {
		return name
	}
	return uri.String()
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// list joins names as people do. Of many it has the first ones.
func list(names []string) string {
	if more := len(names) - maxPlaces; more > 0 {
		names = append(slices.Clone(names[:maxPlaces]), fmt.Sprintf("%d more", more))
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
