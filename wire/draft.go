package wire

import "fmt"

// The draft form of a sandbox is an object with a mode and without permissions. Clients that
// are older than the reference version of this package send it. It is decoded into the same
// Sandbox, and never encoded. Its paths are plain absolute paths or file: URIs. An unknown
// member anywhere in it is refused, unless the mode is disabled: the form is fixed, so an
// unknown member may be a restriction that would not be enforced.

// DraftMode is the mode of a sandbox in its draft form.
type DraftMode string

// The values of DraftMode.
const (
	DraftNone     DraftMode = ""         // not the draft form
	DraftDisabled DraftMode = "disabled" // run as without a sandbox
	DraftAuto     DraftMode = "auto"     // enforce or refuse; if the policy restricts nothing, run as without a sandbox
	DraftRequire  DraftMode = "require"  // enforce or refuse
)

func (DraftMode) variants() []string { return []string{"disabled", "auto", "require"} }

// sandboxObject decodes the present form.
type sandboxObject Sandbox

func (s *Sandbox) decodeWire(d *decoder) error {
	start, depth := d.pos, d.depth
	var mode, permissions bool
	if d.peek() == '{' {
		// The decoders below meet an error again, and report it.
		_ = d.members("", func(key []byte) error {
			mode = mode || string(key) == "mode"
			permissions = permissions || string(key) == "permissions"
			return d.value()
		})
		d.pos, d.depth = start, depth
	}
	if !mode || permissions {
		return d.into((*sandboxObject)(s))
	}
	d.draft, d.unknown = true, nil
	defer func() { d.draft = false }()
	var draft draftSandbox
	if err := d.into(&draft); err != nil {
		return err
	}
	if d.unknown != nil && draft.Mode != DraftDisabled {
		return fmt.Errorf("unknown field `%s` in a sandbox with a `mode`: it could be a restriction that would not be enforced", clip(d.unknown))
	}
	return draft.into(s)
}

type draftSandbox struct {
	Mode                  DraftMode        `json:"mode"`
	Policy                *legacyPolicy    `json:"policy"`
	FileSystemPolicy      *draftFileSystem `json:"fileSystemPolicy"`
	NetworkPolicy         *NetworkAccess   `json:"networkPolicy"`
	SandboxPolicyCwd      *PathURI         `json:"sandboxPolicyCwd"`
	EnforceManagedNetwork bool             `json:"enforceManagedNetwork" wire:"default"`
	UseLegacyLandlock     bool             `json:"useLegacyLandlock" wire:"default"`
	PrivateDesktop        bool             `json:"windowsSandboxPrivateDesktop" wire:"default"`
	WindowsSandboxLevel   RawValue         `json:"windowsSandboxLevel" wire:"default"` // matters on Windows only
}

// into translates the draft into the present form.
func (d *draftSandbox) into(s *Sandbox) error {
	*s = Sandbox{
		Draft: d.Mode, WindowsSandboxLevel: WindowsDisabled,
		EnforceManagedNetwork: d.EnforceManagedNetwork, UseLegacyLandlock: d.UseLegacyLandlock,
	}
	if cwd := d.SandboxPolicyCwd; cwd != nil {
		s.Cwd, s.WorkspaceRoots = cwd, []PathURI{*cwd}
	}
	if d.Mode == DraftDisabled {
		s.Permissions.Type, s.EnforceManagedNetwork = PermissionsDisabled, false
		return nil
	}
	if d.Policy == nil && d.FileSystemPolicy == nil {
		return missingField("policy")
	}
	p := Permissions{Network: NetworkRestricted}
	if d.Policy != nil {
		p = d.Policy.permissions(d.SandboxPolicyCwd)
	}
	if d.FileSystemPolicy != nil {
		p.Type, p.FileSystem = d.FileSystemPolicy.Type, d.FileSystemPolicy.FileSystem
	}
	if d.NetworkPolicy != nil {
		p.Network = *d.NetworkPolicy
	}
	s.Permissions = p
	return nil
}

// draftFileSystem is the part of a draft about files. Only Type and FileSystem are used.
type draftFileSystem struct{ Permissions }

func (f *draftFileSystem) decodeWire(d *decoder) error {
	kind, err := d.tag("kind", "FileSystemSandboxPolicy", "restricted", "unrestricted", "external-sandbox")
	if err != nil {
		return err
	}
	var m struct {
		Entries          []SandboxEntry `json:"entries" wire:"default"`
		GlobScanMaxDepth *nonzero       `json:"glob_scan_max_depth"`
	}
	if err := d.inside(&m); err != nil {
		return err
	}
	f.Type = PermissionsManaged
	switch kind {
	case "restricted":
		f.FileSystem = FileSystemPolicy{FileSystemRestricted, m.Entries, (*uint64)(m.GlobScanMaxDepth)}
		return checkDraftEntries(m.Entries)
	case "unrestricted":
		f.FileSystem.Type = FileSystemUnrestricted
	default:
		f.Type = PermissionsExternal
	}
	if len(m.Entries) > 0 {
		return fmt.Errorf("`entries` need the kind `restricted`: they would not be enforced with the kind `%s`", kind)
	}
	return nil
}

// checkDraftEntries refuses entries that have no effect and could restrict
// something: in the present form they are ignored.
func checkDraftEntries(entries []SandboxEntry) error {
	for i, e := range entries {
		switch {
		case e.Path.Type == SandboxPathGlob && e.Access == AccessRead:
			return fmt.Errorf("entry %d: a glob pattern can only be denied", i)
		case e.Path.Type == SandboxPathSpecial && e.Path.Special.Kind == SpecialUnknown && e.Access != AccessWrite:
			return fmt.Errorf("entry %d: an unknown special path cannot be enforced", i)
		}
	}
	return nil
}

// legacyPolicy is an old policy. Its permissions are managed or external, so that a network
// policy beside it can still restrict the network.
type legacyPolicy struct {
	kind    string
	network NetworkAccess

	// Of the policies that restrict files.
	reads  legacyReads
	writes []SandboxEntry // and carve-outs
}

func (l *legacyPolicy) decodeWire(d *decoder) error {
	var err error
	l.kind, err = d.tag("type", "SandboxPolicy", "danger-full-access", "read-only", "external-sandbox", "workspace-write")
	if err != nil {
		return err
	}
	l.network = NetworkRestricted
	var network bool
	switch l.kind {
	case "danger-full-access":
		network, err = true, d.inside(&struct{}{})
	case "external-sandbox":
		var m struct {
			NetworkAccess *NetworkAccess `json:"network_access"`
		}
		if err = d.inside(&m); m.NetworkAccess != nil {
			l.network = *m.NetworkAccess
		}
	case "read-only":
		var m struct {
			Access        legacyReads `json:"access" wire:"default"`
			NetworkAccess bool        `json:"network_access" wire:"default"`
		}
		err = d.inside(&m)
		l.reads, network = m.Access, m.NetworkAccess
	default:
		var m legacyWorkspace
		err = d.inside(&m)
		l.reads, l.writes, network = m.ReadOnlyAccess, m.writes(), m.NetworkAccess
	}
	if network {
		l.network = NetworkEnabled
	}
	return err
}

// permissions returns the policy in the present form, for a workspace at cwd.
func (l *legacyPolicy) permissions(cwd *PathURI) Permissions {
	p := Permissions{Type: PermissionsManaged, Network: l.network}
	switch l.kind {
	case "danger-full-access":
		p.FileSystem.Type = FileSystemUnrestricted
	case "external-sandbox":
		p.Type = PermissionsExternal
	case "workspace-write":
		p.FileSystem = FileSystemPolicy{Type: FileSystemRestricted, Entries: append(l.reads.entries(nil), l.writes...)}
	default:
		p.FileSystem = FileSystemPolicy{Type: FileSystemRestricted, Entries: l.reads.entries(cwd)}
	}
	return p
}

// legacyReads are the files that an old policy allows to read. The zero value means all.
type legacyReads struct {
	restricted bool
	platform   bool // also the system directories
	roots      []PathURI
}

func (r *legacyReads) decodeWire(d *decoder) error {
	kind, err := d.tag("type", "ReadOnlyAccess", "restricted", "full-access")
	if err != nil {
		return err
	}
	if kind == "full-access" {
		*r = legacyReads{}
		return d.inside(&struct{}{})
	}
	m := struct {
		IncludePlatformDefaults bool      `json:"include_platform_defaults" wire:"default"`
		ReadableRoots           []PathURI `json:"readable_roots" wire:"default"`
	}{IncludePlatformDefaults: true}
	err = d.inside(&m)
	*r = legacyReads{restricted: true, platform: m.IncludePlatformDefaults, roots: m.ReadableRoots}
	return err
}

// entries are the rules for reading. The workspace at cwd, if there is one, can be read in any
// case, unless it is the root directory: then nothing would be restricted.
func (r *legacyReads) entries(cwd *PathURI) []SandboxEntry {
	if !r.restricted {
		return []SandboxEntry{specialEntry(SpecialRoot, AccessRead)}
	}
	var list []SandboxEntry
	if cwd != nil && *cwd != rootURI {
		list = append(list, specialEntry(SpecialProjectRoots, AccessRead))
	}
	if r.platform {
		list = append(list, specialEntry(SpecialMinimal, AccessRead))
	}
	return appendPaths(list, r.roots, AccessRead)
}

// rootURI is the root directory.
var rootURI = PathURI{"file:///"}

// legacyWorkspace are the members of the old policy workspace-write.
type legacyWorkspace struct {
	WritableRoots       []PathURI   `json:"writable_roots" wire:"default"`
	ReadOnlyAccess      legacyReads `json:"read_only_access" wire:"default"`
	NetworkAccess       bool        `json:"network_access" wire:"default"`
	ExcludeTmpdirEnvVar bool        `json:"exclude_tmpdir_env_var" wire:"default"`
	ExcludeSlashTmp     bool        `json:"exclude_slash_tmp" wire:"default"`
}

// writes are the rules for writing, and the carve-outs of the workspace.
func (m *legacyWorkspace) writes() []SandboxEntry {
	list := []SandboxEntry{specialEntry(SpecialProjectRoots, AccessWrite)}
	if !m.ExcludeSlashTmp {
		list = append(list, specialEntry(SpecialSlashTmp, AccessWrite))
	}
	if !m.ExcludeTmpdirEnvVar {
		list = append(list, specialEntry(SpecialTmpdir, AccessWrite))
	}
	list = appendPaths(list, m.WritableRoots, AccessWrite)
	skip := MissingPathSkip
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		e := specialEntry(SpecialProjectRoots, AccessRead)
		e.Path.Special.Subpath, e.MissingPathBehavior = &name, &skip
		list = append(list, e)
	}
	return list
}

func specialEntry(kind string, access Access) SandboxEntry {
	return SandboxEntry{Path: SandboxPath{Type: SandboxPathSpecial, Special: SpecialPath{Kind: kind}}, Access: access}
}

func appendPaths(list []SandboxEntry, paths []PathURI, access Access) []SandboxEntry {
	for _, p := range paths {
		list = append(list, SandboxEntry{Path: SandboxPath{Type: SandboxPathURI, Path: p}, Access: access})
	}
	return list
}
