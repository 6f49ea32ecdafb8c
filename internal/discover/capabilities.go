package discover

import (
	"context"
	"path/filepath"

	"github.com/tetherexec/tether/internal/codexhome"
	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// CapabilitiesResult answers capabilities/discoverV2.
type CapabilitiesResult struct {
	Plugins  []Plugin `json:"plugins"`
	Skills   []Skill  `json:"skills"`
	Warnings []string `json:"warnings"`
}

// Plugin is an installed plugin.
type Plugin struct {
	ID             string                `json:"id"` // NAME@MARKETPLACE
	DisplayName    string                `json:"displayName"`
	RemotePluginID *string               `json:"remotePluginId"`
	Version        string                `json:"version"`
	Root           string                `json:"root"` // a URI
	Files          wire.DiscoveredPlugin `json:"files"`
	Skills         []Skill               `json:"skills"`
}

// Skill is the description of a skill by its own files.
type Skill struct {
	Name             string        `json:"name"`
	Description      string        `json:"description"`
	ShortDescription *string       `json:"shortDescription"`
	Path             string        `json:"path"` // a URI
	DiscoveryRoot    *SkillRoot    `json:"discoveryRoot,omitempty"`
	Dependencies     *Dependencies `json:"dependencies"`
	Policy           *Policy       `json:"policy"`
}

// SkillRoot is a directory of skills. Skills of a plugin have none.
type SkillRoot struct {
	ID   string `json:"id"`
	Path string `json:"path"` // a URI
}

// Dependencies are the tools that a skill needs.
type Dependencies struct {
	Tools []Tool `json:"tools"`
}

// Tool is a tool that a skill uses.
type Tool struct {
	Type              string  `json:"type"`
	Value             string  `json:"value"`
	Description       *string `json:"description"`
	Transport         *string `json:"transport"`
	Command           *string `json:"command"`
	URL               *string `json:"url"`
	OAuthCallbackPort *uint16 `json:"oauthCallbackPort"`
}

// Policy says when a skill may be used.
type Policy struct {
	AllowImplicitInvocation *bool    `json:"allowImplicitInvocation"`
	Products                []string `json:"products"`
}

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
func Capabilities(ctx context.Context, env []string, p *wire.DiscoverCapabilitiesParams, open Opener, room Room) (CapabilitiesResult, error) {
	home, err := codexhome.Find(env)
	if err != nil {
		return CapabilitiesResult{}, wire.Errorf(wire.CodeInternal, "%v", err)
	}
	files, err := open(ctx, p.Sandbox)
	if err != nil {
		return CapabilitiesResult{}, wire.Errorf(wire.CodeInternal, "%v", err)
	}
	return capabilities(ctx, home, files, room), nil
}

func capabilities(ctx context.Context, home codexhome.Home, files files.Files, room Room) CapabilitiesResult {
	roots := []SkillRoot{{ID: "codex-home-skills", Path: filepath.Join(home.Codex, "skills")}}
	if home.User != "" {
		roots = append(roots, SkillRoot{ID: "user-agent-skills", Path: filepath.Join(home.User, ".agents", "skills")})
	}
	if home.System != "" {
		roots = append(roots, SkillRoot{ID: "system-skills", Path: filepath.Join(home.System, "skills")})
	}
	total := newBudget(room)
	cached, located := findPlugins(ctx, files, filepath.Join(home.Codex, "plugins", "cache"), total)

	// A part is the result for one directory.
	type part struct {
		plugin   *Plugin
		skills   []Skill
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
	result := CapabilitiesResult{Plugins: []Plugin{}, Skills: []Skill{}, Warnings: []string{}}
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
func loadSkills(ctx context.Context, files files.Files, root SkillRoot, total *budget) (skills []Skill, complete bool) {
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
