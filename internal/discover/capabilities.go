package discover

import (
	"context"
	"path/filepath"

	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// Warnings for a client when something is missing, once for all locations and once
// for each plugin or directory of skills. They do not name the file: the client may
// not be allowed to know its name.
const (
	warnLocations = "some capability locations could not be resolved; discovery may be incomplete"
	warnMetadata  = "some capability metadata could not be loaded; discovery may be incomplete"
)

// maxWarnings limits the warnings of an answer.
const maxWarnings = 64

// Capabilities answers capabilities/discoverV2 for a server with the environment
// env: the skills of the user and of the machine, and the plugins of CODEX_HOME.
// The error is a *wire.Error.
func Capabilities(ctx context.Context, env []string, p *wire.DiscoverCapabilitiesParams, open Opener, room Room) (wire.DiscoverCapabilitiesResult, error) {
	home, err := codexhome.Find(env)
	if err != nil {
		return wire.DiscoverCapabilitiesResult{}, wire.Errorf(wire.CodeInternal, "%v", err)
	}
	files, err := open(ctx, p.Sandbox)
	if err != nil {
		return wire.DiscoverCapabilitiesResult{}, wire.Errorf(wire.CodeInternal, "%v", err)
	}
	return capabilities(ctx, home, files, room), nil
}

func capabilities(ctx context.Context, home codexhome.Home, files files.Files, room Room) wire.DiscoverCapabilitiesResult {
	roots := []wire.SkillRoot{{ID: "codex-home-skills", Path: filepath.Join(home.Codex, "skills")}}
	if home.User != "" {
		roots = append(roots, wire.SkillRoot{ID: "user-agent-skills", Path: filepath.Join(home.User, ".agents", "skills")})
	}
	if home.System != "" {
		roots = append(roots, wire.SkillRoot{ID: "system-skills", Path: filepath.Join(home.System, "skills")})
	}
	total := newBudget(room)
	cached, located := findPlugins(ctx, files, filepath.Join(home.Codex, "plugins", "cache"), total)

	// A part is the result for one directory.
	type part struct {
		plugin   *wire.InstalledPlugin
		skills   []wire.InstalledSkill
		complete bool
	}
	parts := make([]part, len(cached)+len(roots))
	inParallel(len(parts), func(i int) {
		part := &parts[i]
		if i < len(cached) {
			part.plugin, part.complete = cached[i].load(ctx, files, total)
		} else {
			part.skills, part.complete = loadSkills(ctx, files, roots[i-len(cached)], total)
		}
	})
	result := wire.DiscoverCapabilitiesResult{Plugins: []wire.InstalledPlugin{}, Skills: []wire.InstalledSkill{}, Warnings: []string{}}
	if !located {
		result.Warnings = append(result.Warnings, warnLocations)
	}
	for _, part := range parts {
		if part.plugin != nil {
			result.Plugins = append(result.Plugins, *part.plugin)
		}
		result.Skills = append(result.Skills, part.skills...)
		if !part.complete && len(result.Warnings) < maxWarnings {
			result.Warnings = append(result.Warnings, warnMetadata)
		}
	}
	return result
}

// loadSkills reads the skills in a directory, which need not exist.
func loadSkills(ctx context.Context, files files.Files, root wire.SkillRoot, total *budget) (skills []wire.InstalledSkill, complete bool) {
	about, err := files.Metadata(ctx, root.Path, true)
	if err != nil || !about.IsDirectory {
		return nil, true
	}
	s := newScan(ctx, files, root.Path, total)
	listed := s.list()
	s.findManifests(listed)
	s.findSkills(listed)
	root.Path = wire.PathToURI(root.Path)
	skills, complete = s.describeSkills(&root)
	return skills, complete && len(s.warnings) == 0
}
