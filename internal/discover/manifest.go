package discover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tetherexec/tether/wire"
)

var (
	errNotRelative = errors.New("path must start with `./`")
	errNotBelow    = errors.New("path must remain below the capability root")

	errNotObject     = errors.New("not a JSON object")
	errJSONSize      = errors.New("too much JSON")
	errHalfCharacter = errors.New("half a surrogate pair")
)

// pluginFiles returns the files of the plugin whose directory was searched.
func (s *scan) pluginFiles() *wire.DiscoveredPlugin {
	if s.plugin == nil {
		return nil
	}
	found := &wire.DiscoveredPlugin{Manifest: *s.plugin}
	fields, err := object([]byte(s.plugin.Contents), "mcpServers", "apps")
	for _, value := range fields {
		if err == nil {
			_, err = compact(value)
		}
	}
	if err != nil {
		fields = nil // treated as empty: the client reports what is wrong with it
	}
	mcp := fields["mcpServers"]
	if path, ok := s.named("mcpServers", mcp); ok {
		found.MCPConfig = s.read(path)
	} else if !isObject(mcp) {
		found.MCPConfig = s.read(filepath.Join(s.root, mcpFile))
	}
	if path, ok := s.named("apps", fields["apps"]); ok {
		found.AppsConfig = s.read(path)
	}
	return found
}

// named returns the file that a field of the root's manifest names, if the field is
// an acceptable string.
func (s *scan) named(field string, value json.RawMessage) (path string, ok bool) {
	var name string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &name) != nil {
		return "", false
	}
	below, err := localPath(name)
	if err != nil {
		s.warn("ignoring %s in %s: %v", field, s.plugin.Path, err)
		return "", false
	}
	return filepath.Join(s.root, below), true
}

// localPath checks the path of a file below a plugin's directory.
func localPath(name string) (string, error) {
	below, ok := strings.CutPrefix(name, "./")
	if !ok {
		return "", errNotRelative
	}
	for part := range strings.FieldsFuncSeq(below, func(c rune) bool { return c == '/' || c == '\\' }) {
		if part == ".." {
			return "", errNotBelow
		}
	}
	if strings.Contains(below, "\x00") || below == "" || strings.HasPrefix(below, "/") || !filepath.IsLocal(below) {
		return "", errNotBelow
	}
	return below, nil
}

// maxJSON is the size of the largest manifest that is parsed. While it is parsed, each
// of its values takes many times its size.
const maxJSON = 256 << 10

// object reads the known fields of a JSON object. A duplicate field is an error:
// readers would not agree on which one counts.
func object(text []byte, known ...string) (map[string]json.RawMessage, error) {
	if len(text) > maxJSON {
		return nil, errJSONSize
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errNotObject
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		before := d.InputOffset()
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if halfCharacter(text[before:d.InputOffset()]) {
			return nil, errHalfCharacter
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if !slices.Contains(known, name) {
			continue
		}
		if _, ok := fields[name]; ok {
			return nil, fmt.Errorf("duplicate field `%s`", name)
		}
		fields[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("trailing characters")
	}
	return fields, nil
}

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }
