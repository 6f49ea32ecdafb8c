package unifiedexec

import (
	"slices"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// ReadOnly is a sandbox in which a command can read everything, and cannot write or use the
// network.
func ReadOnly() *wire.Sandbox { return wire.ReadOnly() }

// WorkspaceWrite is ReadOnly with writable workspace and temporary directories. Directories that
// control programs, such as .git, stay read-only in the workspace.
func WorkspaceWrite() *wire.Sandbox { return wire.WorkspaceWrite() }

// AdditionalPermissions are the rights that a command asks for beyond its sandbox.
type AdditionalPermissions struct {
	Network    *NetworkPermissions `json:"network,omitempty" jsonschema:"The network."`
	FileSystem *FilePermissions    `json:"file_system,omitempty" jsonschema:"Files and directories."`
}

// NetworkPermissions ask for the network.
type NetworkPermissions struct {
	Enabled bool `json:"enabled,omitempty" jsonschema:"True asks for the network."`
}

// FilePermissions ask for files and directories with everything below them. Relative paths begin
// in the environment's directory.
type FilePermissions struct {
	Read  []string `json:"read,omitempty" jsonschema:"Paths to read, with all that is below them."`
	Write []string `json:"write,omitempty" jsonschema:"Paths to write, with all that is below them."`
}

// empty reports whether nothing is asked for.
func (a *AdditionalPermissions) empty() bool {
	return (a.Network == nil || !a.Network.Enabled) && (a.FileSystem == nil || len(a.FileSystem.Read)+len(a.FileSystem.Write) == 0)
}

// within returns the same with absolute paths, so that the user is asked about the same paths
// that the executor gets.
func (a *AdditionalPermissions) within(system, root string) *AdditionalPermissions {
	if a == nil || a.FileSystem == nil {
		return a
	}
	absolute := func(names []string) (all []string) {
		for _, name := range names {
			all = append(all, resolve(system, root, name))
		}
		return all
	}
	return &AdditionalPermissions{a.Network, &FilePermissions{absolute(a.FileSystem.Read), absolute(a.FileSystem.Write)}}
}

// confines reports whether the sandbox restricts anything.
func confines(s *wire.Sandbox) bool { return s != nil && !s.Disabled() }

// restrictsFiles reports whether the sandbox restricts files.
func restrictsFiles(s *wire.Sandbox) bool {
	return confines(s) && s.Permissions.Type == wire.PermissionsManaged && s.Permissions.FileSystem.Type == wire.FileSystemRestricted
}

// mustConfine reports whether the executor needs a sandbox for this: not all files are writable.
func mustConfine(s *wire.Sandbox) bool {
	return restrictsFiles(s) && !slices.ContainsFunc(s.Permissions.FileSystem.Entries, func(e wire.SandboxEntry) bool {
		return e.Access == wire.AccessWrite && e.Path.Type == wire.SandboxPathSpecial && e.Path.Special.Kind == wire.SpecialRoot
	})
}

// restrictsNetwork reports whether the sandbox has no network.
func restrictsNetwork(s *wire.Sandbox) bool {
	return confines(s) && s.Permissions.Network == wire.NetworkRestricted
}

// bounds are the limits of an attempt: a sandbox and, unless it has all hosts or none, the hosts
// that it can reach. The zero value is no sandbox.
type bounds struct {
	sandbox *wire.Sandbox
	network *client.Network
}

// bounds returns the bounds of a command that asks for more rights.
func (e *Environment) bounds(system, cwd string, more *AdditionalPermissions) bounds {
	b := bounds{e.intent(system, cwd, more), e.Network}
	if b.network != nil && more != nil && more.Network != nil && more.Network.Enabled {
		b.network = nil
	} else if b.network != nil {
		b.sandbox.Permissions.Network = wire.NetworkRestricted
	}
	return b
}

// withNetwork returns the same bounds with the whole network.
func (b bounds) withNetwork() bounds {
	open := *b.sandbox
	open.Permissions.Network = wire.NetworkEnabled
	return bounds{sandbox: &open}
}

// deniesReads reports whether the sandbox hides files: a command without the sandbox would see
// them.
func deniesReads(s *wire.Sandbox) bool {
	return restrictsFiles(s) && slices.ContainsFunc(s.Permissions.FileSystem.Entries, func(e wire.SandboxEntry) bool {
		return e.Access == wire.AccessDeny
	})
}

// intent returns the sandbox of an environment for a command, in the portable form and with the
// executor's path of the workspace. The paths in more are absolute. It returns nil if there is
// nothing to enforce.
func (e *Environment) intent(system, cwd string, more *AdditionalPermissions) *wire.Sandbox {
	if !confines(e.Sandbox) {
		return nil
	}
	s := *e.Sandbox
	if s.PolicyContext == nil {
		root := wire.PathURIOn(system, cwd)
		if s.Cwd == nil {
			s.Cwd = &root
		}
		if len(s.WorkspaceRoots) == 0 {
			s.WorkspaceRoots = []wire.PathURI{root}
		}
	}
	if s.WindowsSandboxLevel == "" {
		s.WindowsSandboxLevel = wire.WindowsDisabled
	}
	if s.WindowsSandboxProxySettingsMode == nil {
		reconcile := wire.ProxyReconcile
		s.WindowsSandboxProxySettingsMode = &reconcile
	}
	if more == nil {
		return &s
	}
	if more.Network != nil && more.Network.Enabled {
		s.Permissions.Network = wire.NetworkEnabled
	}
	if files := &s.Permissions.FileSystem; more.FileSystem != nil && restrictsFiles(&s) {
		files.Entries = slices.Clone(files.Entries)
		add := func(access wire.Access, names []string) {
			for _, name := range names {
				uri := wire.PathURIOn(system, name)
				files.Entries = append(files.Entries, wire.SandboxEntry{Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: uri}, Access: access})
			}
		}
		add(wire.AccessRead, more.FileSystem.Read)
		add(wire.AccessWrite, more.FileSystem.Write)
	}
	return &s
}
