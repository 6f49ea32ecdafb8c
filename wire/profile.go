package wire

// ReadOnly is a sandbox in which a command can read everything, and cannot write or use the
// network.
func ReadOnly() *Sandbox {
	return &Sandbox{
		WindowsSandboxLevel: WindowsDisabled,
		Permissions: Permissions{
			Type: PermissionsManaged, Network: NetworkRestricted,
			FileSystem: FileSystemPolicy{Type: FileSystemRestricted, Entries: []SandboxEntry{specialEntry(SpecialRoot, AccessRead)}},
		},
	}
}

// WorkspaceWrite is ReadOnly with writable workspace and temporary directories. Directories that
// control programs, such as .git, stay read-only in the workspace.
func WorkspaceWrite() *Sandbox {
	s := ReadOnly()
	s.Permissions.FileSystem.Entries = append(s.Permissions.FileSystem.Entries, (&legacyWorkspace{}).writes()...)
	return s
}
