package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tetherexec/tether/internal/toml"
)

// The keys at the top of a file.
const (
	keyServer  = "server"  // the name of the server that clients use by default
	keyServers = "servers" // tables of servers that clients can name
)

// Commands are the commands whose settings can be in a file: each has a table with its name.
var Commands = []string{"serve", "app-server", "gateway", "hub"}

// A File is a configuration file.
type File struct {
	Path     string
	Default  string               // the server that clients use by default; "": none
	Servers  map[string]Server    // by name
	Settings map[string][]Setting // by command
}

// A Server says how a client reaches a server. Paths are absolute.
type Server struct {
	URL, TokenFile         string
	TLSCA, TLSCert, TLSKey string
}

// fields returns the fields by their keys.
func (s *Server) fields() map[string]*string {
	return map[string]*string{"url": &s.URL, "token-file": &s.TokenFile, "tls-ca": &s.TLSCA, "tls-cert": &s.TLSCert, "tls-key": &s.TLSKey}
}

// A Setting is the value of a flag.
type Setting struct {
	Flag   string
	Values []string // one, unless it is a list
	List   bool
	Bool   bool // the value is true or false, not in quotes
}

// Read reads a file.
func Read(path string) (*File, error) {
	text, err := load(path)
	if err != nil {
		return nil, err
	}
	return parse(path, text)
}

func parse(path string, text []byte) (*File, error) {
	table, err := toml.Parse(context.Background(), text)
	if syntax, ok := errors.AsType[*toml.SyntaxError](err); ok {
		return nil, fmt.Errorf("%s:%d:%d: %s", path, syntax.Line, syntax.Column, syntax.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &File{Path: path, Servers: map[string]Server{}, Settings: map[string][]Setting{}}
	for _, key := range table.Keys {
		if err := f.take(key, table.Values[key]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if _, known := f.Servers[f.Default]; f.Default != "" && !known {
		return nil, fmt.Errorf("%s: %s: %w", path, keyServer, f.unknown(f.Default))
	}
	return f, nil
}

// take reads one key at the top of the file.
func (f *File) take(key string, value any) (err error) {
	table, isTable := value.(*toml.Table)
	switch {
	case key == keyServer:
		f.Default, err = text(keyServer, value)
	case key == keyServers && isTable:
		err = f.takeServers(table)
	case slices.Contains(Commands, key) && isTable:
		f.Settings[key], err = f.takeSettings(key, table)
	case key == keyServers || slices.Contains(Commands, key):
		err = fmt.Errorf("%s is a table: begin it with [%s]", key, key)
	default:
		err = Unknown(key, append([]string{keyServer, keyServers}, Commands...))
	}
	return err
}

func (f *File) takeServers(servers *toml.Table) error {
	for _, name := range servers.Keys {
		where := keyServers + "." + name
		table, ok := servers.Values[name].(*toml.Table)
		if !ok {
			return fmt.Errorf("%s is a table: begin it with [%s]", where, where)
		}
		var s Server
		fields := s.fields()
		for _, key := range table.Keys {
			field := fields[key]
			if field == nil {
				return fmt.Errorf("[%s] %w", where, Unknown(key, slices.Sorted(maps.Keys(fields))))
			}
			var err error
			if *field, err = text(key, table.Values[key]); err != nil {
				return fmt.Errorf("[%s] %w", where, err)
			}
			if key != "url" {
				*field = f.Join(*field)
			}
		}
		if s.URL == "" {
			return fmt.Errorf("[%s] has no url", where)
		}
		f.Servers[name] = s
	}
	return nil
}

// Named returns a server by its name.
func (f *File) Named(name string) (Server, error) {
	s, known := f.Servers[name]
	if !known {
		return s, fmt.Errorf("%s: %w", f.Path, f.unknown(name))
	}
	return s, nil
}

func (f *File) unknown(name string) error {
	if len(f.Servers) == 0 {
		return fmt.Errorf("there is no server %q: the file has no [%s.%s]", name, keyServers, name)
	}
	return fmt.Errorf("there is no server %q: the file has %s", name, strings.Join(slices.Sorted(maps.Keys(f.Servers)), ", "))
}

// Join makes a path of the file absolute. A relative path begins in the directory of the file.
func (f *File) Join(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.Path), path)
}

// takeSettings reads the table of a command. The owner of the flags checks their names and values.
func (f *File) takeSettings(command string, table *toml.Table) (settings []Setting, err error) {
	for _, key := range table.Keys {
		s := Setting{Flag: key}
		switch value := table.Values[key].(type) {
		case []any:
			s.List = true
			for _, item := range value {
				one, err := text(key, item)
				if err != nil {
					return nil, fmt.Errorf("[%s] %w", command, err)
				}
				s.Values = append(s.Values, one)
			}
		case toml.Raw:
			s.Bool = value == "true" || value == "false"
			s.Values = []string{strings.ReplaceAll(string(value), "_", "")}
		default:
			one, err := text(key, value)
			if err != nil {
				return nil, fmt.Errorf("[%s] %w", command, err)
			}
			s.Values = []string{one}
		}
		settings = append(settings, s)
	}
	return settings, nil
}

// text returns a value that has to be a text.
func text(key string, value any) (string, error) {
	s, ok := value.(string)
	if !ok {
		return "", fmt.Errorf("%s: expected a text in quotes", key)
	}
	return s, nil
}
