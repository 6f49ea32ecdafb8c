package wire

import "errors"

// A Sandbox says how a process or a file operation is to be confined.
type Sandbox struct {
	Permissions         Permissions  `json:"permissions"`
	WindowsSandboxLevel WindowsLevel `json:"windowsSandboxLevel"`

	// Cwd is the directory that relative rules start from; nil: the cwd of the process.
	// WorkspaceRoots are the directories of SpecialProjectRoots. A PolicyContext replaces
	// both.
	Cwd            *PathURI       `json:"cwd"`
	PolicyContext  *PolicyContext `json:"policyContext"`
	WorkspaceRoots []PathURI      `json:"workspaceRoots" wire:"default"`

	// Facts about the executor, as its client knows them.
	UserHomeDir          *PathURI   `json:"userHomeDir"`
	TemporaryDirectories *[]PathURI `json:"temporaryDirectories"`

	SandboxOverride                 *SandboxOverride   `json:"sandboxOverride,omitempty"` // how the client arrived at this policy
	WindowsSandboxProxySettingsMode *ProxySettingsMode `json:"windowsSandboxProxySettingsMode"`
	UseLegacyLandlock               bool               `json:"useLegacyLandlock" wire:"default"`

	// Draft is set if the sandbox came in its draft form; then answers write sandboxType in
	// kebab-case, and EnforceManagedNetwork replaces the parameter of the same name.
	Draft                 DraftMode `json:"-"`
	EnforceManagedNetwork bool      `json:"-"`
}

// Disabled reports whether the sandbox asks for no confinement at all. Only then may a server
// that cannot confine processes run the command.
func (s *Sandbox) Disabled() bool { return s.Permissions.Type == PermissionsDisabled }

// PolicyContext replaces the cwd and workspace roots of its Sandbox.
type PolicyContext struct {
	Cwd            *PathURI  `json:"cwd"`
	WorkspaceRoots []PathURI `json:"workspaceRoots" wire:"default"`
}

// WindowsLevel is required everywhere and matters on Windows only.
type WindowsLevel string

// The values of WindowsLevel. WindowsMXC is an error on other systems.
const (
	WindowsDisabled        WindowsLevel = "disabled"
	WindowsRestrictedToken WindowsLevel = "restricted-token"
	WindowsElevated        WindowsLevel = "elevated"
	WindowsMXC             WindowsLevel = "mxc"
)

func (WindowsLevel) variants() []string {
	return []string{"disabled", "restricted-token", "elevated", "mxc"}
}

// SandboxOverride says how the client arrived at this policy.
type SandboxOverride string

// The values of SandboxOverride.
const (
	OverrideNone      SandboxOverride = "noOverride"
	OverrideEscalated SandboxOverride = "escalatedSandboxWithRestrictions"
	OverrideBypass    SandboxOverride = "bypassSandboxFirstAttempt"
)

func (SandboxOverride) variants() []string {
	return []string{"noOverride", "escalatedSandboxWithRestrictions", "bypassSandboxFirstAttempt"}
}

// ProxySettingsMode matters on Windows only.
type ProxySettingsMode string

// The values of ProxySettingsMode.
const (
	ProxyReconcile ProxySettingsMode = "reconcile"
	ProxyPreserve  ProxySettingsMode = "preserve"
)

func (ProxySettingsMode) variants() []string { return []string{"reconcile", "preserve"} }

// NetworkAccess says whether the network is open to a confined process.
type NetworkAccess string

// The values of NetworkAccess.
const (
	NetworkRestricted NetworkAccess = "restricted"
	NetworkEnabled    NetworkAccess = "enabled"
)

func (NetworkAccess) variants() []string { return []string{"restricted", "enabled"} }

// Access is what an entry allows. Peers may write "none" for AccessDeny.
type Access string

// The values of Access.
const (
	AccessRead  Access = "read"
	AccessWrite Access = "write" // includes reading
	AccessDeny  Access = "deny"
)

func (a *Access) decodeWire(d *decoder) error {
	s, err := d.variant([]string{"read", "write", "deny", "none"})
	if s == "none" {
		s = string(AccessDeny)
	}
	*a = Access(s)
	return err
}

// MissingPath says what a back end that marks paths on disk does with a missing path.
type MissingPath string

// MissingPathSkip makes no mark.
const MissingPathSkip MissingPath = "skip"

func (MissingPath) variants() []string { return []string{string(MissingPathSkip)} }

// Types of Permissions.
const (
	PermissionsManaged  = "managed"  // confined as FileSystem and Network say
	PermissionsDisabled = "disabled" // not confined
	PermissionsExternal = "external" // another sandbox confines files; the executor confines the network
)

// Permissions is what a process may do. It is a union; Type selects the variant. From here on,
// names of members are in snake_case.
type Permissions struct {
	Type       string
	Network    NetworkAccess    // managed and external
	FileSystem FileSystemPolicy // managed
}

func (p *Permissions) decodeWire(d *decoder) error {
	var err error
	p.Type, err = d.tag("type", "ExecPermissionProfile",
		PermissionsManaged, PermissionsDisabled, PermissionsExternal)
	if err != nil {
		return err
	}
	switch p.Type {
	case PermissionsManaged:
		var m struct {
			FileSystem FileSystemPolicy `json:"file_system"`
			Network    NetworkAccess    `json:"network"`
		}
		err = d.inside(&m)
		p.FileSystem, p.Network = m.FileSystem, m.Network
	case PermissionsExternal:
		var m struct {
			Network NetworkAccess `json:"network"`
		}
		err = d.inside(&m)
		p.Network = m.Network
	default:
		err = d.inside(&struct{}{})
	}
	return err
}

// AppendJSON appends the members that belong to the type.
func (p Permissions) AppendJSON(b []byte) []byte {
	b = appendTag(b, "type", p.Type)
	if p.Type == PermissionsManaged {
		b = p.FileSystem.AppendJSON(append(b, `,"file_system":`...))
	}
	if p.Type != PermissionsDisabled {
		b = AppendString(append(b, `,"network":`...), string(p.Network))
	}
	return append(b, '}')
}

// Types of FileSystemPolicy.
const (
	FileSystemRestricted   = "restricted"
	FileSystemUnrestricted = "unrestricted"
)

// FileSystemPolicy is a union; Type selects the variant. When restricted, the most specific entry
// decides, and paths without an entry are denied.
type FileSystemPolicy struct {
	Type             string
	Entries          []SandboxEntry // restricted
	GlobScanMaxDepth *uint64        // restricted; at least 1; nil: no limit
}

func (p *FileSystemPolicy) decodeWire(d *decoder) error {
	var err error
	p.Type, err = d.tag("type", "ExecManagedFileSystemPermissions", FileSystemRestricted, FileSystemUnrestricted)
	if err != nil {
		return err
	}
	if p.Type == FileSystemUnrestricted {
		return d.inside(&struct{}{})
	}
	var m struct {
		Entries          []SandboxEntry `json:"entries"`
		GlobScanMaxDepth *nonzero       `json:"glob_scan_max_depth"`
	}
	err = d.inside(&m)
	p.Entries, p.GlobScanMaxDepth = m.Entries, (*uint64)(m.GlobScanMaxDepth)
	return err
}

// AppendJSON appends the members that belong to the type.
func (p FileSystemPolicy) AppendJSON(b []byte) []byte {
	b = appendTag(b, "type", p.Type)
	if p.Type == FileSystemRestricted {
		b = append(b, `,"entries":[`...)
		for i, e := range p.Entries {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.AppendJSON(b)
		}
		b = append(b, ']')
		if p.GlobScanMaxDepth != nil {
			b, _ = appendAny(append(b, `,"glob_scan_max_depth":`...), *p.GlobScanMaxDepth)
		}
	}
	return append(b, '}')
}

// A SandboxEntry is one access rule.
type SandboxEntry struct {
	Path                SandboxPath  `json:"path"`
	Access              Access       `json:"access"`
	MissingPathBehavior *MissingPath `json:"missing_path_behavior"`
}

// AppendJSON omits an absent behaviour.
func (e SandboxEntry) AppendJSON(b []byte) []byte {
	b = e.Path.AppendJSON(append(b, `{"path":`...))
	b = AppendString(append(b, `,"access":`...), string(e.Access))
	if e.MissingPathBehavior != nil {
		b = AppendString(append(b, `,"missing_path_behavior":`...), string(*e.MissingPathBehavior))
	}
	return append(b, '}')
}

// Types of SandboxPath.
const (
	SandboxPathURI     = "path"         // a file or a directory with all below it
	SandboxPathGlob    = "glob_pattern" // only meaningful with AccessDeny
	SandboxPathSpecial = "special"
)

// SandboxPath is the path of an entry. It is a union; Type selects the variant.
type SandboxPath struct {
	Type    string
	Path    PathURI     // path
	Pattern string      // glob_pattern
	Special SpecialPath // special
}

func (p *SandboxPath) decodeWire(d *decoder) error {
	var err error
	p.Type, err = d.tag("type", "ExecFileSystemPath", SandboxPathURI, SandboxPathGlob, SandboxPathSpecial)
	if err != nil {
		return err
	}
	switch p.Type {
	case SandboxPathURI:
		var m struct {
			Path PathURI `json:"path"`
		}
		err = d.inside(&m)
		p.Path = m.Path
	case SandboxPathGlob:
		var m struct {
			Pattern string `json:"pattern"`
		}
		err = d.inside(&m)
		p.Pattern = m.Pattern
	default:
		var m struct {
			Value SpecialPath `json:"value"`
		}
		err = d.inside(&m)
		p.Special = m.Value
	}
	return err
}

// AppendJSON appends the members that belong to the type.
func (p SandboxPath) AppendJSON(b []byte) []byte {
	b = appendTag(b, "type", p.Type)
	switch p.Type {
	case SandboxPathURI:
		b = p.Path.AppendJSON(append(b, `,"path":`...))
	case SandboxPathGlob:
		b = AppendString(append(b, `,"pattern":`...), p.Pattern)
	case SandboxPathSpecial:
		b = p.Special.AppendJSON(append(b, `,"value":`...))
	}
	return append(b, '}')
}

// Kinds of SpecialPath.
const (
	SpecialRoot         = "root"          // the whole file system
	SpecialMinimal      = "minimal"       // system directories, to read
	SpecialProjectRoots = "project_roots" // each workspace root; also spelled current_working_directory
	SpecialTmpdir       = "tmpdir"        // $TMPDIR of the child
	SpecialSlashTmp     = "slash_tmp"     // /tmp
	SpecialUnknown      = "unknown"       // something newer; to be ignored
)

// SpecialPath is a symbolic name for directories, which the executor resolves.
type SpecialPath struct {
	Kind    string
	Path    string  // unknown
	Subpath *string // project_roots and unknown; nil: the directory itself
}

func (p *SpecialPath) decodeWire(d *decoder) error {
	const alias = "current_working_directory"
	var err error
	p.Kind, err = d.tag("kind", "FileSystemSpecialPath", SpecialRoot, SpecialMinimal, alias,
		SpecialProjectRoots, SpecialTmpdir, SpecialSlashTmp, SpecialUnknown)
	if err != nil {
		return err
	}
	switch p.Kind {
	case SpecialProjectRoots, alias:
		p.Kind = SpecialProjectRoots
		var m struct {
			Subpath *string `json:"subpath"`
		}
		err = d.inside(&m)
		p.Subpath = m.Subpath
	case SpecialUnknown:
		var m struct {
			Path    string  `json:"path"`
			Subpath *string `json:"subpath"`
		}
		err = d.inside(&m)
		p.Path, p.Subpath = m.Path, m.Subpath
	default:
		err = d.inside(&struct{}{})
	}
	return err
}

// AppendJSON appends the members that belong to the kind.
func (p SpecialPath) AppendJSON(b []byte) []byte {
	b = appendTag(b, "kind", p.Kind)
	if p.Kind == SpecialUnknown {
		b = AppendString(append(b, `,"path":`...), p.Path)
	}
	if p.Subpath != nil {
		b = AppendString(append(b, `,"subpath":`...), *p.Subpath)
	}
	return append(b, '}')
}

func appendTag(b []byte, name, value string) []byte {
	b = append(append(append(b, `{"`...), name...), `":`...)
	return AppendString(b, value)
}

// tag reads the member that selects the variant of a union, and goes back to the start of the
// object.
func (d *decoder) tag(name, union string, variants ...string) (string, error) {
	outer := d.tagged
	start, depth := d.pos, d.depth
	defer func() { d.pos, d.depth, d.tagged = start, depth, outer }()
	var got string
	found := false
	d.tagged = true
	err := d.members("internally tagged enum "+union, func(key []byte) error {
		if string(key) != name {
			return d.value()
		}
		if d.tagged = outer; d.peek() != '"' {
			return d.mismatch("variant identifier")
		}
		found = true
		var err error
		got, err = d.variant(variants)
		d.tagged = true
		return err
	})
	if err == nil && !found {
		err = missingField(name)
	}
	d.tagName = name
	return got, err
}

// inside decodes the variant of a union, whose tag was read before, into the
// struct v points to.
func (d *decoder) inside(v any) error {
	outer := d.tagged
	defer func() { d.tagged = outer }()
	d.tagged = true
	return d.into(v)
}

// nonzero is a count of at least 1.
type nonzero uint64

func (n *nonzero) decodeWire(d *decoder) error {
	const expected = "a nonzero usize"
	start := d.pos
	text, err := d.literal(expected)
	if err != nil {
		return err
	}
	d.pos = start
	if err := d.into((*uint64)(n)); err == nil && *n > 0 {
		return nil
	}
	if isInteger(text) {
		return errors.New("invalid value: integer `" + text + "`, expected " + expected)
	}
	d.pos = start
	return d.mismatch(expected)
}
