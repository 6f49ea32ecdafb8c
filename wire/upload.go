package wire

// Methods of uploads. An upload is a file that is sent in blocks, over any number of connections,
// and takes its place in one step. It belongs to the session.
const (
	MethodUploadOpen   = "tether/upload/open"
	MethodUploadWrite  = "tether/upload/write"
	MethodUploadStatus = "tether/upload/status"
	MethodUploadCommit = "tether/upload/commit"
	MethodUploadAbort  = "tether/upload/abort"
)

// UploadOpenParams starts an upload, or continues it: the same parameters again, at any time in
// the same session, change nothing.
type UploadOpenParams struct {
	UploadID string   `json:"uploadId"` // 1 to 64 bytes that the client has not used before
	Path     PathURI  `json:"path"`     // the file to make or replace; links are followed
	Size     uint64   `json:"size"`     // of the whole file, in bytes
	Mode     *uint32  `json:"mode"`     // permissions of a new file, regardless of the umask; nil: the default
	Sandbox  *Sandbox `json:"sandbox"`
}

// UploadOpenResult answers tether/upload/open.
type UploadOpenResult struct {
	Offset    uint64 `json:"offset"`    // all bytes before it have arrived: continue here
	MaxBlock  uint64 `json:"maxBlock"`  // bytes of one tether/upload/write
	Committed bool   `json:"committed"` // the file is in its place
}

// UploadWriteParams sends a block. Blocks may be sent in any order and more than once.
type UploadWriteParams struct {
	UploadID string `json:"uploadId"`
	Offset   uint64 `json:"offset"`
	Chunk    Base64 `json:"chunk"`
}

// UploadWriteResult answers tether/upload/write.
type UploadWriteResult struct {
	Received uint64 `json:"received"` // number of bytes that have arrived
	Offset   uint64 `json:"offset"`   // all bytes before it have arrived
}

// UploadParams names an upload, for tether/upload/status and tether/upload/abort.
type UploadParams struct {
	UploadID string `json:"uploadId"`
}

// UploadStatusResult answers tether/upload/status.
type UploadStatusResult struct {
	Size      uint64        `json:"size"`
	Received  uint64        `json:"received"`
	Offset    uint64        `json:"offset"`
	Ranges    []UploadRange `json:"ranges"` // the parts that have arrived, in order, with gaps between them
	Committed bool          `json:"committed"`
}

// UploadRange is a part of a file: from Start up to, but without, End.
type UploadRange struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
}

// UploadCommitParams puts the file in its place if it is complete. After that, the same parameters
// again succeed and do nothing.
type UploadCommitParams struct {
	UploadID string `json:"uploadId"`
	SHA256   string `json:"sha256"` // of the whole file, 64 hexadecimal digits
}
