package server

import (
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/wire"
)

// order says what a request depends on at its arrival: jobs with the same key keep their order, and so do jobs that use
// the same paths, if one of the two changes something there.
func (c *conn) order(job *schedule.Job, params any) {
	job.Key, job.Paths = keyOf(params), c.pathsOf(params)
	if start, ok := params.(*wire.StartParams); ok {
		job.Passing = start.ShellSnapshot != nil // the start may wait for the start-up files of a shell
	}
}

func keyOf(params any) schedule.Key {
	switch p := params.(type) {
	case *wire.StartParams:
		return processKey(p.ProcessID)
	case *wire.ReadParams:
		return processKey(p.ProcessID)
	case *wire.WriteParams:
		return processKey(p.ProcessID)
	case *wire.SignalParams:
		return processKey(p.ProcessID)
	case *wire.ProcessParams:
		return processKey(p.ProcessID)
	case *wire.ResizeParams:
		return processKey(p.ProcessID)
	case *wire.CloseStdinParams:
		return processKey(p.ProcessID)
	case *wire.SignalAnyParams:
		return processKey(p.ProcessID)
	case *wire.WriteAnyParams:
		return processKey(p.ProcessID)
	case *wire.TerminateAnyParams:
		return processKey(p.ProcessID)
	case *wire.StateParams:
		return processKey(p.ProcessID)
	case *wire.SearchParams:
		return processKey(p.ProcessID)
	case *wire.ReadAnyParams:
		return processKey(p.ProcessID)
	case *wire.DescribeParams:
		return processKey(p.ProcessID)
	case *wire.ControlParams:
		return processKey(p.ProcessID)
	case *wire.ObserveParams:
		return processKey(p.ProcessID)
	case *wire.PortOpenParams:
		if p.ProcessID != nil {
			return processKey(*p.ProcessID)
		}
	case *wire.OpenParams:
		return handleKey(p.HandleID)
	case *wire.ReadBlockParams:
		return handleKey(p.HandleID)
	case *wire.WriteBlockParams:
		return handleKey(p.HandleID)
	case *wire.HandleParams:
		return handleKey(p.HandleID)
	case *wire.UploadOpenParams:
		return uploadKey(p.UploadID)
	case *wire.UploadWriteParams:
		return uploadKey(p.UploadID)
	case *wire.UploadParams:
		return uploadKey(p.UploadID)
	case *wire.UploadCommitParams:
		return uploadKey(p.UploadID)
	case *wire.WatchMissingParams:
		return schedule.Key{Kind: schedule.Watch}
	}
	return schedule.Key{}
}

func (c *conn) pathsOf(params any) []schedule.PathUse {
	switch p := params.(type) {
	case *wire.StartParams:
		return use(p.Cwd, false)
	case *wire.ReadFileParams:
		return use(p.Path, false)
	case *wire.MetadataParams:
		return use(p.Path, false)
	case *wire.CanonicalizeParams:
		return use(p.Path, false)
	case *wire.ReadDirectoryParams:
		return use(p.Path, false)
	case *wire.WalkParams:
		return use(p.Path, false)
	case *wire.WriteFileParams:
		return use(p.Path, true)
	case *wire.CreateDirectoryParams:
		return use(p.Path, true)
	case *wire.RemoveParams:
		return use(p.Path, true)
	case *wire.SetAttributesParams:
		return use(p.Path, true)
	case *wire.CopyParams:
		return append(use(p.DestinationPath, true), use(p.SourcePath, false)...)
	case *wire.OpenParams:
		c.handles.expect(p)
		return use(p.Path, p.Mode == wire.OpenReplace)
	case *wire.ReadBlockParams:
		return c.handles.paths(p.HandleID, false)
	case *wire.WriteBlockParams:
		return c.handles.paths(p.HandleID, true)
	}
	return nil
}

func processKey(id string) schedule.Key { return schedule.Key{Kind: schedule.Process, ID: id} }
func handleKey(id string) schedule.Key  { return schedule.Key{Kind: schedule.FileHandle, ID: id} }
func uploadKey(id string) schedule.Key  { return schedule.Key{Kind: schedule.Upload, ID: id} }

// use returns the use of one path. A path that is invalid on this machine is left out, because its
// request will fail.
func use[P interface{ Native() (string, error) }](uri P, change bool) []schedule.PathUse {
	path, err := uri.Native()
	if err != nil {
		return nil
	}
	return []schedule.PathUse{{Path: path, Change: change}}
}
