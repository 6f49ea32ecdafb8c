package copy

import (
	"context"
	"errors"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tetherexec/tether/client/files"
)

// ErrNoAttributes means that times and permissions cannot be kept.
var ErrNoAttributes = errors.New("this server cannot report and set permissions of files")

// keepRemote gives a file or directory on the server's machine the time and the permissions
// of its source, if Preserve is set.
func (c *copier) keepRemote(ctx context.Context, it item) error {
	if !c.Preserve || !it.hasMode {
		return nil
	}
	a := files.Attributes{Permissions: &it.mode, Modified: &it.modified}
	return RetryIdempotent(func() error { return c.files.SetAttributes(ctx, it.to, a) })
}

// keepLocal does the same for a local file or directory.
func (c *copier) keepLocal(it item, path string) error {
	if !c.Preserve || !it.hasMode {
		return nil
	}
	if err := os.Chtimes(path, time.Time{}, it.modified); err != nil {
		return err
	}
	return os.Chmod(path, it.mode)
}

// keepDirectories does the same for directories, after their content was made. Deeper directories
// come first, because the permissions of a parent could deny access to them.
func (c *copier) keepDirectories(ctx context.Context, directories []item) error {
	depth := func(it item) int { return strings.Count(it.to, "/") + strings.Count(it.to, string(os.PathSeparator)) }
	sorted := slices.Clone(directories)
	sort.SliceStable(sorted, func(i, j int) bool { return depth(sorted[i]) > depth(sorted[j]) })
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && depth(sorted[n]) == depth(sorted[0]) {
			n++
		}
		if err := c.all(ctx, sorted[:n], c.keepDirectory); err != nil {
			return err
		}
		sorted = sorted[n:]
	}
	return nil
}

func (c *copier) keepDirectory(ctx context.Context, it item) error {
	if c.Destination.Remote {
		return c.keepRemote(ctx, it)
	}
	return c.keepLocal(it, it.to)
}

// excludes reports whether a path below a source, given by its components, is left out.
func (c *copier) excludes(inside []string, isDir bool) bool {
	return c.Excluded != nil && c.Excluded(inside, isDir)
}

// planOnServer plans a copy within the server's machine file by file, so that files can be left
// out, and get time and permissions.
func (c *copier) planOnServer(ctx context.Context, plan *plan, from, to string) error {
	info, err := c.files.Stat(ctx, from)
	if err != nil {
		return c.tolerate(ctx, from, err)
	}
	return c.planRemoteTree(ctx, plan, info, from, to, nil)
}

func (c *copier) planRemoteTree(ctx context.Context, plan *plan, info files.FileInfo, from, to string, inside []string) error {
	made := remoteItem(info, from, to)
	switch {
	case info.IsLink():
		made.hasMode, made.size = false, 0 // the server copies the link itself
		plan.files = append(plan.files, made)
		return nil
	case info.Mode().IsRegular():
		made.regular = true
		plan.files = append(plan.files, made)
		return nil
	case !info.IsDir():
		return c.tolerate(ctx, from, errNotRegular)
	}
	plan.directories = append(plan.directories, made)
	entries, err := List(ctx, c.files, from)
	if err != nil {
		return c.tolerate(ctx, from, err)
	}
	for _, e := range entries {
		name, below := Join(from, e.Name), append(inside[:len(inside):len(inside)], e.Name)
		switch {
		case c.excludes(below, e.Err == nil && e.Info.IsDir()):
		case e.Err != nil:
			err = c.tolerate(ctx, name, e.Err)
		default:
			err = c.planRemoteTree(ctx, plan, e.Info, name, Join(to, e.Name), below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
