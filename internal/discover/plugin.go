package discover

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// Limits of the plugin cache.
const (
	maxCacheEntries = maxEntries
	maxPlugins      = 512
	maxRemoteID     = 1024 // bytes
)

// remoteFile says where an installed plugin came from.
const remoteFile = ".codex-remote-plugin-install.json"

// localVersion is the directory of a plugin that its user develops. It has
// precedence over all versions.
const localVersion = "local"

// A cachedPlugin is an installed plugin's directory: CACHE/MARKETPLACE/NAME/VERSION.
type cachedPlugin struct {
	id, dir, version string
	remote           *string
}

// findPlugins lists the installed plugins by id, each in its newest version. The
// cache need not exist. complete is false if some could not be read.
func findPlugins(ctx context.Context, files files.Files, cache string, total *budget) (found []cachedPlugin, complete bool) {
	c := &cacheReader{ctx: ctx, files: files, total: total, left: maxCacheEntries, complete: true}
	for _, market := range c.list(cache, isPluginName) {
		for _, name := range c.list(filepath.Join(cache, market), isPluginName) {
			dir := filepath.Join(cache, market, name)
			versions := slices.DeleteFunc(c.list(dir, isVersion), func(v string) bool {
				return c.isLink(filepath.Join(dir, v))
			})
			if len(versions) == 0 {
				continue
			}
			if len(found) == maxPlugins {
				return found, false
			}
			version := slices.MaxFunc(versions, compareVersions)
			found = append(found, cachedPlugin{
				id: name + "@" + market, dir: filepath.Join(dir, version), version: version, remote: c.remoteID(dir),
			})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].id < found[j].id })
	return found, c.complete
}

type cacheReader struct {
	ctx      context.Context
	files    files.Files
	total    *budget
	left     int // directory entries that may still be read
	complete bool
}

// list returns the names of the directories in dir that are acceptable.
func (c *cacheReader) list(dir string, acceptable func(string) bool) (names []string) {
	entries, err := c.files.ReadDirectory(c.ctx, dir)
	if err != nil {
		return nil // it does not exist, or may not be read
	}
	for _, entry := range entries {
		if c.left == 0 {
			c.complete = false
			break
		}
		c.left--
		if entry.IsDirectory && acceptable(entry.FileName) {
			names = append(names, entry.FileName)
		}
	}
	return names
}

func (c *cacheReader) isLink(path string) bool {
	about, err := c.files.Metadata(c.ctx, path, true)
	return err != nil || about.IsSymlink
}

func (c *cacheReader) remoteID(dir string) *string {
	path := filepath.Join(dir, remoteFile)
	if _, err := c.files.Metadata(c.ctx, path, true); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var remote struct {
		SchemaVersion  int    `json:"schema_version"`
		RemotePluginID string `json:"remote_plugin_id"`
	}
	s := newScan(c.ctx, c.files, dir, c.total)
	file := s.read(path)
	if file == nil || json.Unmarshal([]byte(file.Contents), &remote) != nil || remote.SchemaVersion != 1 ||
		remote.RemotePluginID == "" || len(remote.RemotePluginID) > maxRemoteID {
		c.complete = false
		return nil
	}
	return &remote.RemotePluginID
}

func isPluginName(name string) bool { return isMadeOf(name, "_-") }
func isVersion(name string) bool    { return isMadeOf(name, "_-.+") && name != "." && name != ".." }

// isMadeOf reports whether s consists of ASCII letters, digits and the characters
// of others.
func isMadeOf(s, others string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return s != ""
}

// load reads a plugin. It returns nil if the plugin has no valid manifest.
func (c cachedPlugin) load(ctx context.Context, files files.Files, total *budget) (found *wire.InstalledPlugin, complete bool) {
	s := newScan(ctx, files, c.dir, total)
	listed := s.list()
	s.findManifests(listed)
	s.findSkills(listed)
	if s.plugin == nil {
		return nil, false
	}
	about, err := readManifest(s.plugin.Contents)
	if err != nil {
		return nil, false
	}
	found = &wire.InstalledPlugin{
		ID: c.id, DisplayName: about.displayName(c.dir), RemotePluginID: c.remote, Version: c.version,
		Root: wire.PathToURI(c.dir), Files: s.installedFiles(about),
	}
	found.Skills, complete = s.describeSkills(nil)
	return found, complete && len(s.warnings) == 0
}

// installedFiles returns the files of an installed plugin. Unlike those of a root
// that a client named, they include servers in the manifest itself, apps have a
// default path too, and a file that the manifest names has to exist.
func (s *scan) installedFiles(about pluginManifest) wire.DiscoveredPlugin {
	files := wire.DiscoveredPlugin{Manifest: *s.plugin}
	if isObject(about.mcpServers) {
		files.MCPConfig = &wire.CapabilityFile{Path: s.plugin.Path, Contents: string(about.mcpServers)}
	} else {
		files.MCPConfig = s.namedOrUsual("mcpServers", about.mcpServers, mcpFile)
	}
	files.AppsConfig = s.namedOrUsual("apps", about.apps, appsFile)
	return files
}

func (s *scan) namedOrUsual(field string, value json.RawMessage, usual string) *wire.CapabilityFile {
	path, ok := s.named(field, value)
	if !ok {
		return s.read(filepath.Join(s.root, usual))
	}
	file := s.read(path)
	if file == nil {
		s.warn("ignoring %s in %s: no such file", field, s.plugin.Path)
	}
	return file
}

// pluginManifest has the fields of a manifest that the server itself needs.
type pluginManifest struct {
	name, shown string // shown is the display name, may be empty

	apps, mcpServers json.RawMessage // mcpServers is in one line
}

var errManifest = errors.New("invalid plugin manifest")

func readManifest(text string) (m pluginManifest, err error) {
	fields, err := object([]byte(text), "name", "interface", "apps", "mcpServers")
	if err != nil {
		return m, err
	}
	if m.name, err = readName(fields); err != nil {
		return m, err
	}
	if about := fields["interface"]; !isNone(about) {
		inner, err := object(about, "displayName")
		if err != nil || readText(inner["displayName"], &m.shown) != nil {
			return m, errManifest
		}
	}
	if m.apps = fields["apps"]; readText(m.apps, new(string)) != nil {
		return m, errManifest
	}
	if servers := fields["mcpServers"]; servers != nil {
		m.mcpServers, err = compact(servers)
	}
	return m, err
}

// readName reads a manifest's name, which may be missing.
func readName(fields map[string]json.RawMessage) (name string, err error) {
	if value, ok := fields["name"]; ok && (isNone(value) || readText(value, &name) != nil) {
		return "", errManifest
	}
	return name, nil
}

// readText reads a string that may be missing.
func readText(value json.RawMessage, s *string) error {
	if isNone(value) {
		return nil
	}
	if halfCharacter(value) {
		return errHalfCharacter
	}
	return json.Unmarshal(value, s)
}

func isNone(value json.RawMessage) bool { return value == nil || string(value) == "null" }

// namespace is the name of the plugin in dir, or the name of the directory if the
// manifest has none. Other fields of the manifest do not matter.
func namespace(manifest, dir string) (string, error) {
	fields, err := object([]byte(manifest), "name")
	if err != nil {
		return "", err
	}
	name, err := readName(fields)
	return nameOr(name, dir), err
}

func nameOr(name, dir string) string {
	if strings.TrimSpace(name) == "" {
		return filepath.Base(dir)
	}
	return name
}

func (m pluginManifest) displayName(dir string) string {
	if name := strings.TrimSpace(m.shown); name != "" {
		return name
	}
	return nameOr(m.name, dir)
}
