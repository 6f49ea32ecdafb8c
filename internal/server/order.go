package server

import (
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/wire"
)

// order says what a request depends on, as of its arrival: jobs with the same key keep their order, and jobs that use the
// same paths do, if one of them changes something there.
func (c *conn) order(job *schedule.Job, params any) {
	switch p := params.(type) {
	case *wire.StartParams:
		job.Key = processKey(p.ProcessID)
		job.Paths = use(p.Cwd, false)
		job.Passing = p.ShellSnapshot != nil // it may wait for the start-up files of a shell
	case *wire.ReadParams:
		job.Key = processKey(p.ProcessID)
	case *wire.WriteParams:
		job.Key = processKey(p.ProcessID)
	case *wire.SignalParams:
		job.Key = processKey(p.ProcessID)
	case *wire.ProcessParams:
		job.Key = processKey(p.ProcessID)
	case *wire.ResizeParams:
		job.Key = processKey(p.ProcessID)
	case *wire.CloseStdinParams:
		job.Key = processKey(p.ProcessID)
	case *wire.SignalAnyParams:
		job.Key = processKey(p.ProcessID)
	case *wire.WriteAnyParams:
		job.Key = processKey(p.ProcessID)
	case *wire.TerminateAnyParams:
		job.Key = processKey(p.ProcessID)
	case *wire.StateParams:
		job.Key = processKey(p.ProcessID)
	case *wire.SearchParams:
		job.Key = processKey(p.ProcessID)
	case *wire.ObserveParams:
		job.Key = processKey(p.ProcessID)

	case *wire.ReadFileParams:
		job.Paths = use(p.Path, false)
	case *wire.MetadataParams:
		job.Paths = use(p.Path, false)
	case *wire.CanonicalizeParams:
		job.Paths = use(p.Path, false)
	case *wire.ReadDirectoryParams:
		job.Paths = use(p.Path, false)
	case *wire.WalkParams:
		job.Paths = use(p.Path, false)
	case *wire.WriteFileParams:
		job.Paths = use(p.Path, true)
	case *wire.CreateDirectoryParams:
		job.Paths = use(p.Path, true)
	case *wire.RemoveParams:
		job.Paths = use(p.Path, true)
	case *wire.SetAttributesParams:
		job.Paths = use(p.Path, true)
	case *wire.CopyParams:
		job.Paths = append(use(p.DestinationPath, true), use(p.SourcePath, false)...)
	case *wire.WatchMissingParams:
		job.Key = schedule.Key{Kind: schedule.Watch}

	case *wire.OpenParams:
		c.handles.expect(p)
		job.Key = handleKey(p.HandleID)
		job.Paths = use(p.Path, p.Mode == wire.OpenReplace)
	case *wire.ReadBlockParams:
		job.Key = handleKey(p.HandleID)
		job.Paths = c.handles.paths(p.HandleID, false)
	case *wire.WriteBlockParams:
		job.Key = handleKey(p.HandleID)
		job.Paths = c.handles.paths(p.HandleID, true)
	case *wire.HandleParams:
		job.Key = handleKey(p.HandleID)

	case *wire.UploadOpenParams:
		job.Key = uploadKey(p.UploadID)
	case *wire.UploadWriteParams:
		job.Key = uploadKey(p.UploadID)
	case *wire.UploadParams:
		job.Key = uploadKey(p.UploadID)
	case *wire.UploadCommitParams:
		job.Key = uploadKey(p.UploadID)
	}
}

func processKey(id string) schedule.Key { return schedule.Key{Kind: schedule.Process, ID: id} }
func handleKey(id string) schedule.Key  { return schedule.Key{Kind: schedule.FileHandle, ID: id} }
func uploadKey(id string) schedule.Key  { return schedule.Key{Kind: schedule.Upload, ID: id} }

// use returns the use of one path. A path that is invalid on this machine is left out: its request fails.
func use[P interface{ Native() (string, error) }](uri P, change bool) []schedule.PathUse {
	path, err := uri.Native()
	if err != nil {
		return nil
	}
	return []schedule.PathUse{{Path: path, Change: change}}
}
