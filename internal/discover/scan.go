package discover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// Names of files, relative to a plugin's or a skill's directory.
const (
	skillFile    = "SKILL.md"
	metadataFile = "agents/openai.yaml"
	mcpFile      = ".mcp.json"
	appsFile     = ".app.json"
)

// manifestFiles make a directory a plugin; the first that exists counts.
var manifestFiles = []string{".codex-plugin/plugin.json", ".claude-plugin/plugin.json", ".cursor-plugin/plugin.json"}

// A scan is the search of one directory.
type scan struct {
	ctx   context.Context // ends with the request
	files files.Files
	root  string // a native path
	left  int64  // bytes that may still be read for this root
	total *budget

	plugin    *wire.CapabilityFile // the root's own manifest
	manifests []manifest           // of every plugin that skills here may belong to
	skills    []wire.DiscoveredSkill
	warnings  []string
}

// A manifest is the manifest of the plugin in a directory.
type manifest struct {
	dir  string // a URI
	file wire.CapabilityFile

	parsed bool   // the fields below are set: a manifest is parsed once, not for each skill
	name   string // of the plugin
	valid  bool
}

// namespace is the name of the plugin; ok is false if the manifest is broken.
func (m *manifest) namespace() (name string, ok bool) {
	if !m.parsed {
		m.parsed = true
		if dir, err := native(m.dir); err == nil { // cannot fail: the URI was made from a path
			m.name, err = namespace(m.file.Contents, dir)
			m.valid = err == nil
		}
	}
	return m.name, m.valid
}

// A budget limits the bytes that all searches of a request read together, so that
// the answer fits into a message. Concurrent searches may exceed it by one file
// each.
type budget struct {
	left atomic.Int64
	room Room // nil: there is always room
}

func newBudget(room Room) *budget {
	b := &budget{room: room}
	b.left.Store(maxTotal)
	return b
}

func newScan(ctx context.Context, files files.Files, root string, total *budget) *scan {
	return &scan{ctx: ctx, files: files, root: filepath.Clean(root), left: maxBundle, total: total}
}

func (s *scan) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

// list returns the URIs of the files below the root.
func (s *scan) list() []string {
	result, err := s.files.Walk(s.ctx, s.root, wire.WalkOptions{
		MaxDepth: maxDepth, MaxDirectories: maxDirectories, MaxEntries: maxEntries, FollowDirectorySymlinks: true,
	})
	uri := wire.PathToURI(s.root)
	if err != nil {
		s.warn("failed to scan capability path %s: %v", uri, err)
		return nil
	}
	for _, e := range result.Errors {
		s.warn("failed to scan capability path %s: %s", e.Path, e.Message)
	}
	if result.Truncated {
		s.warn("capability scan reached its traversal limit (root: %s)", uri)
	}
	var listed []string
	for _, entry := range result.Entries {
		if entry.Kind == wire.WalkFile {
			listed = append(listed, entry.Path)
		}
	}
	slices.Sort(listed)
	return listed
}

// findManifests reads the root's manifest, or else that of the plugin around it,
// and those of the plugins inside.
func (s *scan) findManifests(listed []string) {
	root := wire.PathToURI(s.root)
	if s.plugin = s.manifestOf(s.root, manifestFiles); s.plugin != nil {
		s.manifests = append(s.manifests, manifest{dir: root, file: *s.plugin})
	} else {
		s.findOuterManifest()
	}
	inner := map[string]string{} // the first manifest file found, by directory
	for _, name := range manifestFiles {
		for _, uri := range listed {
			if dir, ok := strings.CutSuffix(uri, "/"+name); ok && inner[dir] == "" {
				inner[dir] = name
			}
		}
	}
	for _, dir := range sortedKeys(inner) {
		if dir == root && s.plugin != nil {
			continue
		}
		path, err := native(dir)
		if err != nil {
			continue // cannot happen: the URI was made from a path
		}
		if file := s.read(filepath.Join(path, inner[dir])); file != nil {
			s.manifests = append(s.manifests, manifest{dir: dir, file: *file})
		}
	}
}

func (s *scan) findOuterManifest() {
	for dir := s.root; filepath.Dir(dir) != dir; {
		dir = filepath.Dir(dir)
		if file := s.manifestOf(dir, manifestFiles); file != nil {
			s.manifests = append(s.manifests, manifest{dir: wire.PathToURI(dir), file: *file})
			return
		}
	}
}

func (s *scan) manifestOf(dir string, names []string) *wire.CapabilityFile {
	for _, name := range names {
		if file := s.read(filepath.Join(dir, name)); file != nil {
			return file
		}
	}
	return nil
}

func (s *scan) findSkills(listed []string) {
	for _, uri := range listed {
		if !strings.HasSuffix(uri, "/"+skillFile) {
			continue
		}
		path, err := native(uri)
		if err != nil {
			continue // cannot happen: the URI was made from a path
		}
		instructions := s.read(path)
		if instructions == nil {
			continue
		}
		s.skills = append(s.skills, wire.DiscoveredSkill{
			Instructions: *instructions,
			Metadata:     s.read(filepath.Join(filepath.Dir(path), metadataFile)),
		})
	}
}

// read returns a file's content, or nil if there is no such file. If something is
// wrong with it, read warns and returns nil.
func (s *scan) read(path string) *wire.CapabilityFile {
	uri := wire.PathToURI(path)
	about, err := s.files.Metadata(s.ctx, path, true)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.warn("failed to inspect capability file %s: %v", uri, err)
		}
		return nil
	}
	if !about.IsFile {
		return nil
	}
	content, err := s.content(path, int64(about.Size))
	switch {
	case errors.Is(err, errFileSize):
		s.warn("capability file %s exceeds the %d-byte limit", uri, maxFile)
	case errors.Is(err, errBundleSize), errors.Is(err, errTotalSize):
		s.warn("%v", err)
	case err != nil:
		s.warn("failed to read capability file %s: %v", uri, err)
	case !utf8.Valid(content):
		s.warn("capability file %s is not UTF-8: %s", uri, notUTF8(content))
	default:
		s.left -= int64(len(content))
		s.total.left.Add(-int64(len(content)))
		return &wire.CapabilityFile{Path: uri, Contents: string(content)}
	}
	return nil
}

var (
	errFileSize   = errors.New("file too large")
	errBundleSize = fmt.Errorf("capability root bundle exceeds the %d-byte limit", maxBundle)
	errTotalSize  = errors.New("capability discovery size limit reached")
)

// content reads a file that had the given size a moment ago.
func (s *scan) content(path string, size int64) ([]byte, error) {
	if err := s.allow(size); err != nil {
		return nil, err
	}
	if s.total.room != nil && s.total.room(size) != nil {
		return nil, errTotalSize
	}
	f, err := s.files.Open(s.ctx, path, true)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading only
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, &files.Error{Err: err}
	}
	return content, s.allow(int64(len(content))) // the file may have grown
}

func (s *scan) allow(size int64) error {
	if size > maxFile {
		return errFileSize
	}
	if size > s.left {
		return errBundleSize
	}
	if size > s.total.left.Load() {
		return errTotalSize
	}
	return nil
}

// notUTF8 says where a text stops being UTF-8, in the words of the reference.
func notUTF8(b []byte) string {
	i := 0
	for i < len(b) {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		i += size
	}
	if !utf8.FullRune(b[i:]) {
		return fmt.Sprintf("incomplete utf-8 byte sequence from index %d", i)
	}
	bad := 1 // number of bytes that were the beginning of a valid character
	for bad < 3 && !utf8.FullRune(b[i:i+bad+1]) {
		bad++
	}
	return fmt.Sprintf("invalid utf-8 sequence of %d bytes from index %d", bad, i)
}

func native(uri string) (string, error) {
	u, err := wire.ParsePathURI(uri)
	if err != nil {
		return "", err
	}
	return u.Native()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
