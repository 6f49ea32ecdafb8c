package sandboxhost

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/wire"
)

// The names of the profiles, which are the names of the modes in the Codex
// CLI.
const (
	ProfileReadOnly       = "read-only"
	ProfileWorkspaceWrite = "workspace-write"
	ProfileFull           = "full"
)

// IsProfile reports whether a profile has this name.
func IsProfile(name string) bool {
	return name == ProfileReadOnly || name == ProfileWorkspaceWrite || name == ProfileFull
}

// Profile returns the sandbox of a profile for commands in a workspace. An unknown name gets the
// read-only one.
func Profile(name, workspace string) (*wire.Sandbox, error) {
	root, err := pathURI(workspace)
	if err != nil {
		return nil, err
	}
	s := wire.ReadOnly()
	switch name {
	case ProfileWorkspaceWrite:
		s = wire.WorkspaceWrite()
	case ProfileFull:
		s.Permissions = wire.Permissions{Type: wire.PermissionsDisabled, Network: wire.NetworkEnabled}
	}
	s.Cwd, s.WorkspaceRoots = &root, []wire.PathURI{root}
	return s, nil
}

// ParseProfile parses the sandbox object of a request, or only its permissions: then the rest
// comes from around. name is the name of the file.
func ParseProfile(name string, text []byte, around *wire.Sandbox) (*wire.Sandbox, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		if _, other := errors.AsType[*json.UnmarshalTypeError](err); other {
			return nil, fmt.Errorf("%s is JSON, but not an object", name)
		}
		return nil, fmt.Errorf("%s is not JSON: %w", name, err)
	}
	if _, only := members["type"]; only {
		around.Permissions = wire.Permissions{}
		if err := wire.Decode(text, &around.Permissions); err != nil {
			return nil, fmt.Errorf("%s: not the permissions of a sandbox: %w", name, wording.Error(err))
		}
		return around, nil
	}
	var s wire.Sandbox
	if err := wire.Decode(text, &s); err != nil {
		return nil, fmt.Errorf("%s: not a sandbox: %w", name, wording.Error(err))
	}
	if s.Draft == wire.DraftDisabled {
		s.Permissions = wire.Permissions{Type: wire.PermissionsDisabled, Network: wire.NetworkEnabled}
	}
	return &s, nil
}

// AllowWriting adds a directory as another workspace root, in which the protected names are
// protected too.
func AllowWriting(s *wire.Sandbox, dir string) error {
	uri, err := pathURI(dir)
	if err != nil {
		return err
	}
	files := &s.Permissions.FileSystem
	if s.Permissions.Type != wire.PermissionsManaged || files.Type != wire.FileSystemRestricted {
		return nil // everything is writable
	}
	files.Entries = append(files.Entries, wire.SandboxEntry{
		Path: wire.SandboxPath{Type: wire.SandboxPathURI, Path: uri}, Access: wire.AccessWrite,
	})
	if c := s.PolicyContext; c != nil {
		c.WorkspaceRoots = append(c.WorkspaceRoots, uri)
	} else {
		s.WorkspaceRoots = append(s.WorkspaceRoots, uri)
	}
	return nil
}

func pathURI(path string) (wire.PathURI, error) {
	uri, err := wire.ParsePathURI(wire.PathToURI(path))
	if err != nil {
		return uri, fmt.Errorf("%q cannot be named in a sandbox: %w", path, err)
	}
	return uri, nil
}
