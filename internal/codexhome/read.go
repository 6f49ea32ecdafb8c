package codexhome

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tetherexec/tether/wire"
)

// Names of configuration files.
const (
	configFile       = "config.toml"
	managedFile      = "managed_config.toml"
	requirementsFile = "requirements.toml"
	projectDir       = ".codex"
)

// Read answers environmentConfig/read for a server with the environment env. It
// stops when ctx ends. Errors are *[Error].
func Read(ctx context.Context, env []string, p *wire.ConfigReadParams) (wire.ConfigReadResult, error) {
	cwd, err := check(p)
	if err != nil {
		return wire.ConfigReadResult{}, invalid(err)
	}
	home, err := Find(env)
	if err != nil {
		return wire.ConfigReadResult{}, failed(fmt.Errorf("failed to find Codex home: %w", err))
	}
	return home.read(ctx, cwd, p)
}

// check returns the request's directory.
func check(p *wire.ConfigReadParams) (cwd string, err error) {
	if len(p.ConfigPaths)+len(p.RequirementsPaths) == 0 {
		return "", errNoPaths
	}
	for _, paths := range [][][]string{p.ConfigPaths, p.RequirementsPaths} {
		for _, path := range paths {
			if len(path) == 0 {
				return "", errEmptyPath
			}
		}
	}
	return p.Cwd.Native()
}

func (h Home) read(ctx context.Context, cwd string, p *wire.ConfigReadParams) (wire.ConfigReadResult, error) {
	result := wire.ConfigReadResult{CodexHomeDir: wire.PathToURI(h.Codex)}
	if h.User != "" {
		uri := wire.PathToURI(h.User)
		result.UserHomeDir = &uri
	}
	if name, err := os.Hostname(); err == nil { // otherwise null
		result.Hostname = &name
	}
	files, err := h.load(newReader(ctx), filepath.Clean(cwd))
	if err != nil {
		if gone := context.Cause(ctx); gone != nil {
			err = gone
		}
		return wire.ConfigReadResult{}, failed(fmt.Errorf("failed to load executor-local config: %w", err))
	}
	result.Config, err = choose(p.ConfigPaths, files.system, files.user, files.projects, files.managed)
	if err == nil {
		result.Requirements, err = choose(p.RequirementsPaths, files.requirements, files.fromManaged)
	}
	if err != nil {
		return wire.ConfigReadResult{}, failed(fmt.Errorf("failed to load executor-local config: %w", err))
	}
	return result, nil
}

// choose makes the layers of the answer. The layers of a cloud go after the first
// group, which is the machine's.
func choose(paths [][]string, machine []layer, others ...[]layer) (wire.ConfigLayers, error) {
	chosen := wire.ConfigLayers{Layers: []wire.ConfigLayer{}}
	for i, group := range append([][]layer{machine}, others...) {
		for _, l := range group {
			selected, err := l.wire(paths)
			if err != nil {
				return wire.ConfigLayers{}, err
			}
			if selected != nil {
				chosen.Layers = append(chosen.Layers, *selected)
			}
		}
		if i == 0 {
			chosen.CloudInsertionIndex = len(chosen.Layers)
		}
	}
	return chosen, nil
}

// files are all configuration files that apply to a directory, lowest precedence
// first.
type files struct {
	system, user, projects, managed []layer // config
	requirements, fromManaged       []layer
}

func (h Home) load(r *reader, cwd string) (files, error) {
	var f files
	var err error
	if h.System != "" {
		if f, err = h.loadSystem(r); err != nil {
			return files{}, err
		}
	}
	f.user, err = r.ordinary("user (%s)", filepath.Join(h.Codex, configFile), "Failed to read config file %s: %s")
	if err != nil {
		return files{}, err
	}
	settings, err := projectSettings(f.system, f.user, f.managed)
	if err != nil {
		return files{}, err
	}
	f.projects, err = h.projects(r, cwd, settings)
	return f, err
}

// loadSystem reads the files of the machine.
func (h Home) loadSystem(r *reader) (f files, err error) {
	f.system, err = r.ordinary("system (%s)", filepath.Join(h.System, configFile), "Failed to read config file %s: %s")
	if err != nil {
		return files{}, err
	}
	f.managed, err = r.ordinary("legacy managed_config.toml (%s)", filepath.Join(h.System, managedFile), "%[2]s")
	if err != nil {
		return files{}, err
	}
	path := filepath.Join(h.System, requirementsFile)
	config, problem := r.readTOML(path)
	switch {
	case problem != nil && problem.syntax != nil:
		return files{}, fmt.Errorf("failed to parse requirements layer %s: %s", path, problem.syntax.Excerpt())
	case problem != nil:
		return files{}, fmt.Errorf("Failed to read requirements file %s: %s", path, problem.readText())
	case config != nil:
		f.requirements = []layer{{source: path, path: path, config: config}}
	}
	for _, l := range f.managed {
		required, err := requirementsOf(l.config)
		if err != nil {
			return files{}, fmt.Errorf("Failed to parse config requirements as TOML: %w", err)
		}
		f.fromManaged = []layer{{source: l.path, path: l.path, config: required}}
	}
	return f, nil
}

// ordinary reads a file that need not exist.
func (r *reader) ordinary(source, path, unreadable string) ([]layer, error) {
	config, problem := r.readTOML(path)
	switch {
	case problem != nil && problem.syntax != nil:
		return nil, problem
	case problem != nil:
		return nil, fmt.Errorf(unreadable, path, problem.readText())
	case config == nil:
		return nil, nil
	}
	return []layer{{source: fmt.Sprintf(source, path), path: path, config: config}}, nil
}
