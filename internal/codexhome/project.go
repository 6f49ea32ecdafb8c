package codexhome

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetherexec/tether/internal/toml"
)

// notForProjects are keys that a project may not set: they decide where requests,
// and so credentials, are sent, and which programs run beside the agent.
var notForProjects = []string{
	"apps_mcp_product_sku", "chatgpt_base_url", "experimental_realtime_webrtc_call_base_url",
	"experimental_realtime_ws_base_url", "model_provider", "model_providers", "notify", "openai_base_url",
	"otel", "profile", "profiles",
}

// hooksKey is taken from the main worktree for a linked one: hooks are trusted
// where the user has seen them.
const hooksKey = "hooks"

// settings are the user's settings about projects.
type settings struct {
	markers []string        // files that make a directory a project's root
	trusted map[string]bool // by directory; absent: unknown
}

var errMarkers = errors.New("project_root_markers must be an array of strings")

// projectSettings reads the settings from layers, lowest precedence first.
func projectSettings(groups ...[]layer) (settings, error) {
	s := settings{markers: []string{".git"}, trusted: map[string]bool{}}
	for _, group := range groups {
		for _, l := range group {
			if value, ok := l.config.Values["project_root_markers"]; ok {
				markers, err := stringList(value)
				if err != nil {
					return settings{}, err
				}
				s.markers = markers
			}
			if value, ok := l.config.Values["projects"]; ok {
				if err := s.addTrust(value); err != nil {
					return settings{}, err
				}
			}
		}
	}
	return s, nil
}

func stringList(value any) ([]string, error) {
	list, ok := value.([]any)
	if !ok {
		return nil, errMarkers
	}
	texts := make([]string, 0, len(list))
	for _, item := range list {
		text, ok := item.(string)
		if !ok {
			return nil, errMarkers
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func (s settings) addTrust(value any) error {
	projects, ok := value.(*toml.Table)
	if !ok {
		return within(unexpected(value, "a map"), "projects")
	}
	for _, dir := range projects.Keys {
		project, ok := projects.Values[dir].(*toml.Table)
		if !ok {
			return within(unexpected(projects.Values[dir], "struct ProjectConfig"), "projects."+dir)
		}
		level, err := variant(project.Values["trust_level"], "trusted", "untrusted")
		if err != nil {
			return within(err, "projects."+dir+".trust_level")
		}
		if level != "" {
			s.trusted[dir] = level == "trusted"
		}
	}
	return nil
}

func unexpected(value any, want string) error {
	switch value := value.(type) {
	case toml.Raw:
		return fmt.Errorf("invalid type: integer `%s`, expected %s", value, want)
	case string:
		return fmt.Errorf("invalid type: string %q, expected %s", value, want)
	case []any:
		return fmt.Errorf("invalid type: sequence, expected %s", want)
	}
	return fmt.Errorf("invalid type: map, expected %s", want)
}

// projects reads the files of the project around cwd, outermost first, as far as
// the user trusts them. Files of other directories are not opened.
func (h Home) projects(r *reader, cwd string, s settings) ([]layer, error) {
	root := projectRoot(cwd, s.markers)
	worktree, mainTree := repository(cwd)
	var layers []layer
	for _, dir := range between(root, cwd) {
		if !s.trusts(dir, root, mainTree) {
			continue
		}
		own := filepath.Join(dir, projectDir)
		if info, err := os.Stat(own); err != nil || !info.IsDir() || h.isCodexDir(own) {
			continue
		}
		config, err := r.readProject(own)
		if err != nil {
			return nil, err
		}
		linked := worktree != mainTree
		if config != nil {
			l := projectLayer(own, config.Without(notForProjects...))
			if linked {
				l.config = l.config.Without(hooksKey)
			}
			layers = append(layers, l)
		}
		below, err := filepath.Rel(worktree, dir)
		if !linked || err != nil || !filepath.IsLocal(below) {
			continue
		}
		counterpart := filepath.Join(mainTree, below, projectDir)
		config, err = r.readProject(counterpart)
		if err != nil {
			return nil, err
		}
		if config != nil {
			layers = append(layers, projectLayer(counterpart, config.Keep([][]string{{hooksKey}})))
		}
	}
	return layers, nil
}

func projectLayer(dir string, config *toml.Table) layer {
	path := filepath.Join(dir, configFile)
	return layer{source: "project (" + path + ")", path: path, config: config}
}

func (r *reader) readProject(dir string) (*toml.Table, error) {
	path := filepath.Join(dir, configFile)
	config, problem := r.readTOML(path)
	switch {
	case problem != nil && problem.syntax != nil:
		return nil, fmt.Errorf("Error parsing project config file %s: %s", path, problem.syntax.Excerpt())
	case problem != nil:
		return nil, fmt.Errorf("Failed to read project config file %s: %s", path, problem.readText())
	}
	return config, nil
}

// trusts checks the settings for a directory, then for the project, then for the
// main worktree of its repository. The first that has a setting decides.
func (s settings) trusts(places ...string) bool {
	for _, place := range places {
		names := []string{place}
		if real, err := filepath.EvalSymlinks(place); err == nil {
			names = append(names, real)
		}
		for _, name := range names {
			if trusted, ok := s.trusted[name]; ok && place != "" {
				return trusted
			}
		}
	}
	return false
}

// isCodexDir reports whether dir is the user's own configuration directory, which
// belongs to no project.
func (h Home) isCodexDir(dir string) bool {
	if dir == h.Codex {
		return true
	}
	a, errA := os.Stat(dir)
	b, errB := os.Stat(h.Codex)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// projectRoot is the nearest directory with a marker; without a marker, cwd itself.
func projectRoot(cwd string, markers []string) string {
	if root, ok := nearest(cwd, markers...); ok {
		return root
	}
	return cwd
}

// nearest finds the innermost directory from dir upwards that has one of names.
func nearest(dir string, names ...string) (string, bool) {
	for {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return dir, true
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// between lists the directories from root down to dir.
func between(root, dir string) []string {
	dirs := []string{dir}
	for dir != root {
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
		dirs = append([]string{dir}, dirs...)
	}
	return dirs
}

// repository finds the Git worktree around dir and the main worktree of its
// repository. They differ for a linked worktree only. Outside of Git both are
// empty.
func repository(dir string) (worktree, mainTree string) {
	worktree, ok := nearest(dir, ".git")
	if !ok {
		return "", ""
	}
	// In a linked worktree .git is a file: "gitdir: MAIN/.git/worktrees/NAME".
	text, err := readFile(filepath.Join(worktree, ".git"))
	if err != nil {
		return worktree, worktree
	}
	gitDir, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir:")
	if !ok {
		return worktree, worktree
	}
	gitDir = strings.TrimSpace(gitDir)
	if !filepath.IsAbs(gitDir) {
		gitDir = filepath.Join(worktree, gitDir)
	}
	worktrees := filepath.Dir(gitDir)
	common := filepath.Dir(worktrees)
	if filepath.Base(worktrees) != "worktrees" || filepath.Base(common) != ".git" || !pointsBack(gitDir, worktree) {
		return worktree, worktree
	}
	return worktree, filepath.Dir(common)
}

// pointsBack reports whether a repository lists the worktree that claims to belong
// to it. Otherwise any directory could claim the trust of another.
func pointsBack(gitDir, worktree string) bool {
	text, err := readFile(filepath.Join(gitDir, "gitdir"))
	if err != nil {
		return false
	}
	back := strings.TrimSpace(string(text))
	if !filepath.IsAbs(back) {
		back = filepath.Join(gitDir, back)
	}
	a, errA := os.Stat(back)
	b, errB := os.Stat(filepath.Join(worktree, ".git"))
	return errA == nil && errB == nil && os.SameFile(a, b)
}
