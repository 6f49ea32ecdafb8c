package wire

// File methods of the reference protocol.
const (
	MethodFsReadFile        = "fs/readFile"
	MethodFsOpen            = "fs/open"
	MethodFsReadBlock       = "fs/readBlock"
	MethodFsWriteBlock      = "fs/writeBlock"
	MethodFsClose           = "fs/close"
	MethodFsWriteFile       = "fs/writeFile"
	MethodFsCreateDirectory = "fs/createDirectory"
	MethodFsGetMetadata     = "fs/getMetadata"
	MethodFsCanonicalize    = "fs/canonicalize"
	MethodFsReadDirectory   = "fs/readDirectory"
	MethodFsWalk            = "fs/walk"
	MethodFsRemove          = "fs/remove"
	MethodFsCopy            = "fs/copy"
	MethodFsWatchMissing    = "fs/watchMissing"

	NoteFsMissingChanged = "fs/missingChanged" // notification to the client
)

// ReadFileParams asks for the content of a file.
type ReadFileParams struct {
	Path           PathURI  `json:"path"`
	FollowSymlinks *bool    `json:"followSymlinks"` // nil: true
	Sandbox        *Sandbox `json:"sandbox"`
}

// ReadFileResult answers fs/readFile. The server writes it without this type.
type ReadFileResult struct {
	DataBase64 Base64 `json:"dataBase64"`
}

// WriteFileParams replaces the content of a file. The data stays encoded: the method decodes
// it, and has its own errors for malformed data.
type WriteFileParams struct {
	Path           PathURI  `json:"path"`
	DataBase64     string   `json:"dataBase64"`
	FollowSymlinks *bool    `json:"followSymlinks"` // nil: true
	Sandbox        *Sandbox `json:"sandbox"`
}

// OpenMode is the purpose for which a file is opened.
type OpenMode string

// The values of OpenMode.
const (
	OpenRead    OpenMode = "read"
	OpenReplace OpenMode = "replace" // created, or emptied at once
)

func (OpenMode) variants() []string { return []string{"read", "replace"} }

// OpenParams opens a file under an id that the client chooses.
type OpenParams struct {
	HandleID string   `json:"handleId"`
	Path     PathURI  `json:"path"`
	Mode     OpenMode `json:"mode,omitempty" wire:"default"` // absent: OpenRead
	Sandbox  *Sandbox `json:"sandbox"`
}

// HandleParams names an open file.
type HandleParams struct {
	HandleID string `json:"handleId"`
}

// HandleResult answers fs/open.
type HandleResult struct {
	HandleID string `json:"handleId"`
}

// ReadBlockParams asks for a part of an open file.
type ReadBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Len      uint64 `json:"len"`
}

// ReadBlockResult answers fs/readBlock. The server writes it without this type.
type ReadBlockResult struct {
	Chunk Base64 `json:"chunk"`
	EOF   bool   `json:"eof"`
}

// WriteBlockParams writes a part of an open file.
type WriteBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Chunk    Base64 `json:"chunk"`
}

// CreateDirectoryParams makes a directory.
type CreateDirectoryParams struct {
	Path           PathURI  `json:"path"`
	Recursive      *bool    `json:"recursive"`      // nil: true
	FollowSymlinks *bool    `json:"followSymlinks"` // nil: true
	Sandbox        *Sandbox `json:"sandbox"`
}

// MetadataParams asks for the facts about a file.
type MetadataParams struct {
	Path           PathURI  `json:"path"`
	FollowSymlinks *bool    `json:"followSymlinks"` // nil: true
	Sandbox        *Sandbox `json:"sandbox"`
	TetherMode     *bool    `json:"tetherMode,omitempty"` // tether's addition: report the permissions
}

// MetadataResult answers fs/getMetadata. For a symbolic link, it has type, size and times of
// the target.
type MetadataResult struct {
	IsDirectory  bool   `json:"isDirectory"`
	IsFile       bool   `json:"isFile"`
	IsSymlink    bool   `json:"isSymlink"` // the path itself is a link
	Size         uint64 `json:"size"`
	CreatedAtMs  int64  `json:"createdAtMs"` // Unix time; 0: unknown
	ModifiedAtMs int64  `json:"modifiedAtMs"`

	// TetherMode is tether's addition: the nine bits of the permissions, if they were
	// requested.
	TetherMode *uint32 `json:"tetherMode,omitempty"`
}

// MethodFsSetAttributes is tether's addition to the file methods.
const MethodFsSetAttributes = "tether/fs/setAttributes"

// MaxMode has all bits of permissions: a mode has no others.
const MaxMode = 0o777

// SetAttributesParams changes permissions and time of a file or directory. Links are followed.
type SetAttributesParams struct {
	Path         PathURI  `json:"path"`
	Mode         *uint32  `json:"mode,omitempty"`         // permissions, at most MaxMode; nil: as they are
	ModifiedAtMs *int64   `json:"modifiedAtMs,omitempty"` // Unix time of the last change; nil: as it is
	Sandbox      *Sandbox `json:"sandbox"`
}

// CanonicalizeParams asks for the path of a file without links.
type CanonicalizeParams struct {
	Path    PathURI  `json:"path"`
	Sandbox *Sandbox `json:"sandbox"`
}

// CanonicalizeResult answers fs/canonicalize.
type CanonicalizeResult struct {
	Path string `json:"path"` // a URI
}

// ReadDirectoryParams asks for the names in a directory.
type ReadDirectoryParams struct {
	Path    PathURI  `json:"path"`
	Sandbox *Sandbox `json:"sandbox"`
}

// ReadDirectoryResult answers fs/readDirectory.
type ReadDirectoryResult struct {
	Entries []DirectoryEntry `json:"entries"`
}

// DirectoryEntry is a name in a directory. Links are followed for the flags.
type DirectoryEntry struct {
	FileName    string `json:"fileName"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
}

// WalkParams asks for all files and directories below a directory.
type WalkParams struct {
	Path    PathURI     `json:"path"`
	Options WalkOptions `json:"options"`
	Sandbox *Sandbox    `json:"sandbox"`
}

// WalkOptions bound a walk.
type WalkOptions struct {
	MaxDepth                uint64 `json:"maxDepth"`
	MaxDirectories          uint64 `json:"maxDirectories"`
	MaxEntries              uint64 `json:"maxEntries"`
	FollowDirectorySymlinks bool   `json:"followDirectorySymlinks"`
	PruneHiddenDirectories  bool   `json:"pruneHiddenDirectories" wire:"default"`
}

// WalkResult answers fs/walk.
type WalkResult struct {
	Entries   []WalkEntry `json:"entries"`
	Errors    []WalkError `json:"errors"`
	Truncated bool        `json:"truncated"`
}

// WalkEntry is a file or directory that was found.
type WalkEntry struct {
	Path string `json:"path"` // a URI
	Kind string `json:"kind"` // WalkFile or WalkDirectory
}

// Kinds of WalkEntry.
const (
	WalkFile      = "file"
	WalkDirectory = "directory"
)

// WalkError is a path that could not be read.
type WalkError struct {
	Path    string `json:"path"` // a URI
	Message string `json:"message"`
}

// RemoveParams removes a file or a directory.
type RemoveParams struct {
	Path           PathURI  `json:"path"`
	Recursive      *bool    `json:"recursive"`      // nil: true
	Force          *bool    `json:"force"`          // nil: true
	FollowSymlinks *bool    `json:"followSymlinks"` // nil: true
	Sandbox        *Sandbox `json:"sandbox"`
}

// CopyParams copies a file, a link or a directory.
type CopyParams struct {
	SourcePath      PathURI  `json:"sourcePath"`
	DestinationPath PathURI  `json:"destinationPath"`
	Recursive       bool     `json:"recursive"`
	Sandbox         *Sandbox `json:"sandbox"`
}

// WatchMissingParams asks for a notification when one of the missing paths is created, or when
// the present one changes.
type WatchMissingParams struct {
	WatchID uint64    `json:"watchId"`
	Missing []PathURI `json:"missing"`
	Present *PathURI  `json:"present"`
}

// WatchMissingResult answers fs/watchMissing.
type WatchMissingResult struct {
	Watching bool `json:"watching"`
}

// MissingChanged is the notification fs/missingChanged.
type MissingChanged struct {
	WatchID uint64 `json:"watchId"`
}

// FollowsLinks reports whether a method with this parameter follows links.
func FollowsLinks(followSymlinks *bool) bool { return followSymlinks == nil || *followSymlinks }
