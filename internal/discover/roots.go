package discover

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// Limits of the search.
const (
	MaxRoots       = 128
	maxParallel    = 8        // roots at a time
	maxFile        = 1 << 20  // bytes of one file
	maxBundle      = 16 << 20 // bytes per root
	maxTotal       = 48 << 20 // bytes per request, whose answer is one message
	maxDepth       = 6
	maxDirectories = 2000
	maxEntries     = 20_000
)

// Room is called before bytes are read for the answer. An error means that there is
// no room for them.
type Room func(bytes int64) error

// Opener returns the files as a sandbox shows them; without a sandbox, as this
// process sees them.
type Opener func(context.Context, *wire.Sandbox) (files.Files, error)

// Roots answers capabilityRoots/discoverV1. Results are in the order of the
// request. A root that cannot be read has an error and does not affect the others.
// The error is a *wire.Error.
func Roots(ctx context.Context, p *wire.DiscoverRootsParams, open Opener, room Room) (wire.DiscoverRootsResult, error) {
	if len(p.Roots) > MaxRoots {
		return wire.DiscoverRootsResult{}, wire.Errorf(wire.CodeInvalidRequest,
			"capability root discovery accepts at most %d roots", MaxRoots)
	}
	found := make([]wire.DiscoveredRoot, len(p.Roots))
	total := newBudget(room)
	inParallel(len(p.Roots), func(i int) { found[i] = discoverRoot(ctx, p.Roots[i], open, total) })
	return wire.DiscoverRootsResult{Roots: found}, nil
}

// inParallel calls do for each number below n, maxParallel at a time, and waits.
func inParallel(n int, do func(int)) {
	var running errgroup.Group
	running.SetLimit(maxParallel)
	for i := range n {
		running.Go(func() error { do(i); return nil })
	}
	running.Wait()
}

func discoverRoot(ctx context.Context, root wire.DiscoverRoot, open Opener, total *budget) wire.DiscoveredRoot {
	found := wire.DiscoveredRoot{
		ID: root.ID, Path: root.Path.String(),
		Skills: []wire.DiscoveredSkill{}, NamespaceManifests: []wire.CapabilityFile{}, Warnings: []string{},
	}
	s, err := inspectRoot(ctx, root, open, total)
	if err != nil {
		text := err.Error()
		found.Error = &text
		return found
	}
	listed := s.list()
	s.findManifests(listed)
	found.Plugin = s.pluginFiles()
	s.findSkills(listed)
	found.Skills = append(found.Skills, s.skills...)
	for _, m := range s.manifests {
		found.NamespaceManifests = append(found.NamespaceManifests, m.file)
	}
	found.Warnings = append(found.Warnings, s.warnings...)
	return found
}

// inspectRoot prepares the search of a directory.
func inspectRoot(ctx context.Context, root wire.DiscoverRoot, open Opener, total *budget) (*scan, error) {
	inspect := func(err error) error {
		return fmt.Errorf("failed to inspect capability root %s: %w", root.Path, err)
	}
	path, err := root.Path.Native()
	if err != nil {
		return nil, inspect(err)
	}
	files, err := open(ctx, root.Sandbox)
	if err != nil {
		return nil, inspect(err)
	}
	about, err := files.Metadata(ctx, path, true)
	if err != nil {
		return nil, inspect(err)
	}
	if !about.IsDirectory {
		return nil, fmt.Errorf("capability root %s is not a directory", root.Path)
	}
	return newScan(ctx, files, path, total), nil
}
