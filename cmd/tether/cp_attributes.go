package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/sandbox"
)

// errNoAttributes: without them a copy would not be what -p promises.
var errNoAttributes = errors.New("this server does not tell and set permissions of files, so that -p cannot keep them; copy without -p")

// keepRemote gives a file or directory on the server's machine the time and the permissions
// of its source, if -p asks for that.
func (c *copying) keepRemote(ctx context.Context, j job) error {
	if !c.keep || !j.hasMode {
		return nil
	}
	a := client.Attributes{Permissions: &j.mode, Modified: &j.modified}
	return insist(func() error { return c.files.SetAttributes(ctx, j.to, a) })
}

// keepLocal does the same for a local one at a path.
func (c *copying) keepLocal(j job, path string) error {
	if !c.keep || !j.hasMode {
		return nil
	}
	if err := os.Chtimes(path, time.Time{}, j.modified); err != nil {
		return err
	}
	return os.Chmod(path, j.mode)
}

// keepDirectories does the same for directories, when all is in them. Those that are deeper
// come first: the permissions of one above could forbid the way there.
func (c *copying) keepDirectories(ctx context.Context, directories []job) error {
	depth := func(j job) int { return strings.Count(j.to, "/") + strings.Count(j.to, string(os.PathSeparator)) }
	sorted := slices.SortedStableFunc(slices.Values(directories), func(a, b job) int { return cmp.Compare(depth(b), depth(a)) })
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

func (c *copying) keepDirectory(ctx context.Context, j job) error {
	if c.destination.remote {
		return c.keepRemote(ctx, j)
	}
	return c.keepLocal(j, j.to)
}

// parseExcludes reads the patterns of --exclude.
func parseExcludes(patterns []string) ([]sandbox.Glob, error) {
	var globs []sandbox.Glob
	for _, p := range patterns {
		refuse := func(text string) ([]sandbox.Glob, error) {
			return nil, usageError{fmt.Errorf("--exclude %q: %s", p, text)}
		}
		if strings.Trim(p, "/") == "" {
			return refuse("the pattern is empty")
		}
		for part := range strings.SplitSeq(p, "/") {
			if part == "." || part == ".." {
				return refuse("no name below a source has . or .. in its path; /NAME is what is directly below it")
			}
		}
		g, ok := sandbox.ParseGlob(p)
		if !ok {
			return refuse("the braces have too many alternatives")
		}
		globs = append(globs, g)
	}
	return globs, nil
}

// excludes reports whether a path below a source, given by its components, is left out.
func (c *copying) excludes(inside []string, isDir bool) bool {
	return slices.ContainsFunc(c.excluded, func(g sandbox.Glob) bool { return g.Match(inside, isDir) })
}

// planOnServer plans a copy from the server's machine to itself file by file, so that each
// can be left out, and gets time and permissions.
func (c *copying) planOnServer(ctx context.Context, plan *copyPlan, from, to string) error {
	info, err := c.files.Stat(ctx, from)
	if err != nil {
		return c.tolerate(ctx, from, err)
	}
	return c.planRemoteTree(ctx, plan, info, from, to, nil)
}

func (c *copying) planRemoteTree(ctx context.Context, plan *copyPlan, info client.FileInfo, from, to string, inside []string) error {
	made := remoteJob(info, from, to)
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
	entries, err := listRemote(ctx, c.files, from)
	if err != nil {
		return c.tolerate(ctx, from, err)
	}
	for _, e := range entries {
		name, below := joinRemote(from, e.name), append(inside[:len(inside):len(inside)], e.name)
		switch {
		case c.excludes(below, e.err == nil && e.info.IsDir()):
		case e.err != nil:
			err = c.tolerate(ctx, name, e.err)
		default:
			err = c.planRemoteTree(ctx, plan, e.info, name, joinRemote(to, e.name), below)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
