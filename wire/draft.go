package wire

// The draft form of a sandbox: an object with a mode and without permissions,
// of clients older than the reference that the rest of this package follows.
// It is read only, into the same Sandbox.

// DraftMode is the mode of a sandbox in its draft form.
type DraftMode string

// The values of DraftMode.
const (
	DraftNone     DraftMode = ""         // not the draft form
	DraftDisabled DraftMode = "disabled" // run as without a sandbox
	DraftAuto     DraftMode = "auto"     // enforce or refuse, like DraftRequire
	DraftRequire  DraftMode = "require"
)

func (DraftMode) variants() []string { return []string{"disabled", "auto", "require"} }

// sandboxObject decodes the present form.
type sandboxObject Sandbox

func (s *Sandbox) decodeWire(d *decoder) error {
	start, depth := d.pos, d.depth
	var mode, permissions bool
	if d.peek() == '{' {
		// An error here is met again, and reported, by what follows.
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
	var draft draftSandbox
	if err := d.into(&draft); err != nil {
		return err
	}
	return draft.into(s)
}

type draftSandbox struct {
	Mode                  DraftMode        `json:"mode"`
	Policy                *legacyPolicy    `json:"policy"`
	FileSystemPolicy      *draftFileSystem `json:"fileSystemPolicy"`
	NetworkPolicy         *NetworkAccess   `json:"networkPolicy"`
	SandboxPolicyCwd      *draftPath       `json:"sandboxPolicyCwd"`
	EnforceManagedNetwork bool             `json:"enforceManagedNetwork" wire:"default"`
	UseLegacyLandlock     bool             `json:"useLegacyLandlock" wire:"default"`
	PrivateDesktop        bool             `json:"windowsSandboxPrivateDesktop" wire:"default"`
}

// into writes the draft as the present form would say it.
func (d *draftSandbox) into(s *Sandbox) error {
	*s = Sandbox{
		Draft: d.Mode, WindowsSandboxLevel: WindowsDisabled,
		EnforceManagedNetwork: d.EnforceManagedNetwork, UseLegacyLandlock: d.UseLegacyLandlock,
	}
	if cwd := d.SandboxPolicyCwd; cwd != nil {
		s.Cwd, s.WorkspaceRoots = &cwd.PathURI, []PathURI{cwd.PathURI}
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
		p = d.Policy.Permissions
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

// draftFileSystem is what a draft says about files; Type and FileSystem count.
type draftFileSystem struct{ Permissions }

func (f *draftFileSystem) decodeWire(d *decoder) error {
	kind, err := d.tag("kind", "FileSystemSandboxPolicy", "restricted", "unrestricted", "external-sandbox")
	if err != nil {
		return err
	}
	f.Type = PermissionsManaged
	switch kind {
	case "restricted":
		var m struct {
			Entries          []SandboxEntry `json:"entries"`
			GlobScanMaxDepth *nonzero       `json:"glob_scan_max_depth"`
		}
		err = d.inside(&m)
		f.FileSystem = FileSystemPolicy{FileSystemRestricted, m.Entries, (*uint64)(m.GlobScanMaxDepth)}
		return err
	case "unrestricted":
		f.FileSystem.Type = FileSystemUnrestricted
	default:
		f.Type = PermissionsExternal
	}
	return d.value()
}

// legacyPolicy is an old policy, as permissions. Its type is managed or
// external, so that a network policy beside it can still restrict.
type legacyPolicy struct{ Permissions }

func (l *legacyPolicy) decodeWire(d *decoder) error {
	kind, err := d.tag("type", "SandboxPolicy", "danger-full-access", "read-only", "external-sandbox", "workspace-write")
	if err != nil {
		return err
	}
	p := Permissions{Type: PermissionsManaged, Network: NetworkRestricted}
	switch kind {
	case "danger-full-access":
		p.Network, p.FileSystem.Type = NetworkEnabled, FileSystemUnrestricted
		err = d.value()
	case "external-sandbox":
		var m struct {
			NetworkAccess *NetworkAccess `json:"network_access"`
		}
		p.Type = PermissionsExternal
		if err = d.inside(&m); m.NetworkAccess != nil {
			p.Network = *m.NetworkAccess
		}
	default:
		var m legacyMembers
		if err = d.inside(&m); m.NetworkAccess {
			p.Network = NetworkEnabled
		}
		p.FileSystem = FileSystemPolicy{Type: FileSystemRestricted, Entries: m.entries(kind == "workspace-write")}
	}
	l.Permissions = p
	return err
}

// legacyMembers are those of the policies that restrict files.
type legacyMembers struct {
	WritableRoots       []draftPath `json:"writable_roots" wire:"default"`
	NetworkAccess       bool        `json:"network_access" wire:"default"`
	ExcludeTmpdirEnvVar bool        `json:"exclude_tmpdir_env_var" wire:"default"`
	ExcludeSlashTmp     bool        `json:"exclude_slash_tmp" wire:"default"`
}

func (m *legacyMembers) entries(writes bool) []SandboxEntry {
	special := func(kind string, access Access) SandboxEntry {
		return SandboxEntry{Path: SandboxPath{Type: SandboxPathSpecial, Special: SpecialPath{Kind: kind}}, Access: access}
	}
	list := []SandboxEntry{special(SpecialRoot, AccessRead)}
	if !writes {
		return list
	}
	list = append(list, special(SpecialProjectRoots, AccessWrite))
	if !m.ExcludeSlashTmp {
		list = append(list, special(SpecialSlashTmp, AccessWrite))
	}
	if !m.ExcludeTmpdirEnvVar {
		list = append(list, special(SpecialTmpdir, AccessWrite))
	}
	for _, root := range m.WritableRoots {
		list = append(list, SandboxEntry{Path: SandboxPath{Type: SandboxPathURI, Path: root.PathURI}, Access: AccessWrite})
	}
	skip := MissingPathSkip
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		e := special(SpecialProjectRoots, AccessRead)
		e.Path.Special.Subpath, e.MissingPathBehavior = &name, &skip
		list = append(list, e)
	}
	return list
}

// draftPath is a file: URI or an absolute path.
type draftPath struct{ PathURI }

func (p *draftPath) decodeWire(d *decoder) error {
	s, err := d.text()
	if err != nil {
		return err
	}
	if isAbsolute(s) {
		s = PathToURI(s)
	}
	p.PathURI, err = ParsePathURI(s)
	return err
}
