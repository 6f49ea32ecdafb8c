package discover

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/tetherexec/tether/wire"
)

// Lengths in characters.
const (
	maxName = 64
	maxText = 1024 // of what a tool says about itself
)

// maxYAML is the size of YAML that is still parsed: the time that the parser takes
// grows with the square of the number of keys.
const maxYAML = 64 << 10

var (
	errNoFrontMatter = errors.New("no front matter")
	errNoDescription = errors.New("no description")
	errName          = errors.New("name too long")
	errYAMLSize      = errors.New("too much YAML")
)

// describeSkills reads what the found skills say about themselves. complete is
// false if one of them says it wrongly.
func (s *scan) describeSkills(root *SkillRoot) (skills []Skill, complete bool) {
	skills, complete = []Skill{}, true
	for _, found := range s.skills {
		skill, err := describe(found)
		if err != nil {
			complete = false
			continue
		}
		if namespace := s.namespaceOf(skill.Path); namespace != "" {
			skill.Name = namespace + ":" + skill.Name
		}
		skill.DiscoveryRoot = root
		skills = append(skills, skill)
	}
	return skills, complete
}

// namespaceOf is the name of the innermost plugin around a skill; a broken manifest
// does not count.
func (s *scan) namespaceOf(uri string) (name string) {
	depth := -1
	for _, m := range s.manifests {
		if !strings.HasPrefix(uri, strings.TrimSuffix(m.dir, "/")+"/") || len(m.dir) <= depth {
			continue
		}
		about, err := readManifest(m.file.Contents)
		if err != nil {
			continue
		}
		dir, err := native(m.dir)
		if err != nil {
			continue // cannot be: it was made of a path
		}
		name, depth = about.namespace(dir), len(m.dir)
	}
	return name
}

// scalar is any plain YAML value, as it is written: a skill may be called 007.
type scalar string

var errNotScalar = errors.New("not a plain value")

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *scalar) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return errNotScalar
	}
	if n.ShortTag() != "!!null" {
		*s = scalar(n.Value)
	}
	return nil
}

// frontMatter is the head of a skill.
type frontMatter struct {
	Name        scalar
	Description scalar
	Metadata    struct {
		ShortDescription scalar `yaml:"short-description"`
	}
}

func describe(found wire.DiscoveredSkill) (Skill, error) {
	text, ok := head(found.Instructions.Contents)
	if !ok {
		return Skill{}, errNoFrontMatter
	}
	var front frontMatter
	if err := unmarshal(text, &front); err != nil {
		front = frontMatter{}
		if err := unmarshal(quoteColons(text), &front); err != nil {
			return Skill{}, err
		}
	}
	skill := Skill{
		Name:             oneLine(front.Name),
		Description:      oneLine(front.Description),
		ShortDescription: optional(oneLine(front.Metadata.ShortDescription), 0),
		Path:             found.Instructions.Path,
	}
	if skill.Name == "" {
		dir, err := native(path.Dir(skill.Path))
		if err != nil {
			return Skill{}, err
		}
		skill.Name = oneLine(filepath.Base(dir))
	}
	if utf8.RuneCountInString(skill.Name) > maxName {
		return Skill{}, errName
	}
	if skill.Description == "" {
		return Skill{}, errNoDescription
	}
	if found.Metadata != nil {
		skill.Dependencies, skill.Policy = readMetadata(found.Metadata.Contents)
	}
	return skill, nil
}

// head is the text between the first line and the next that is "---".
func head(text string) (string, bool) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimSpace(first) != "---" {
		return "", false
	}
	var b strings.Builder
	for line := range strings.Lines(rest) {
		if strings.TrimSpace(line) == "---" {
			return b.String(), b.Len() > 0
		}
		b.WriteString(line)
	}
	return "", false
}

// quoteColons quotes plain values with a colon in them, which YAML does not allow
// and people write: "description: do this: that".
func quoteColons(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		value, _, _ = strings.Cut(value, " #") // a comment
		value = strings.TrimSpace(value)
		plain := ok && value != "" && !strings.ContainsRune("\"'[{|>&*!#", rune(value[0]))
		if plain && strings.Contains(value, ": ") {
			line = key + ": '" + strings.ReplaceAll(value, "'", "''") + "'\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// skillMetadata is a skill's second file, as far as it is of use here.
type skillMetadata struct {
	Interface struct { // not in the answer, but a wrong one spoils the file
		DisplayName      scalar `yaml:"display_name"`
		ShortDescription scalar `yaml:"short_description"`
		IconSmall        scalar `yaml:"icon_small"`
		IconLarge        scalar `yaml:"icon_large"`
		BrandColor       scalar `yaml:"brand_color"`
		DefaultPrompt    scalar `yaml:"default_prompt"`
	}
	Dependencies struct {
		Tools []struct {
			Type, Value, Description, Transport, Command, URL scalar

			OAuth struct {
				CallbackPort  *uint16 `yaml:"callback_port"`
				CallbackPort2 *uint16 `yaml:"callbackPort"`
			} `yaml:"oauth"`
		}
	}
	Policy *struct {
		AllowImplicitInvocation *bool `yaml:"allow_implicit_invocation"`
		Products                []string
	}
}

var products = []string{"chatgpt", "codex", "atlas"}

// readMetadata reads the file; one that is wrong says nothing.
func readMetadata(text string) (*Dependencies, *Policy) {
	var m skillMetadata
	if err := unmarshal(text, &m); err != nil {
		return nil, nil
	}
	var policy *Policy
	if m.Policy != nil {
		policy = &Policy{AllowImplicitInvocation: m.Policy.AllowImplicitInvocation, Products: []string{}}
		for _, name := range m.Policy.Products {
			lower := strings.ToLower(name)
			if !slices.Contains(products, lower) || name != lower && name != strings.ToUpper(name) {
				return nil, nil
			}
			policy.Products = append(policy.Products, lower)
		}
	}
	var tools []Tool
	for _, t := range m.Dependencies.Tools {
		kind, value := optional(oneLine(t.Type), maxName), optional(oneLine(t.Value), maxText)
		if kind == nil || value == nil {
			continue
		}
		port := t.OAuth.CallbackPort
		if port == nil {
			port = t.OAuth.CallbackPort2
		}
		tools = append(tools, Tool{
			Type: *kind, Value: *value,
			Description:       optional(oneLine(t.Description), maxText),
			Transport:         optional(oneLine(t.Transport), maxName),
			Command:           optional(oneLine(t.Command), maxText),
			URL:               optional(oneLine(t.URL), maxText),
			OAuthCallbackPort: port,
		})
	}
	if tools == nil {
		return nil, policy
	}
	return &Dependencies{Tools: tools}, policy
}

func unmarshal(text string, v any) error {
	if len(text) > maxYAML {
		return errYAMLSize
	}
	return yaml.Unmarshal([]byte(text), v)
}

// oneLine makes each run of white space one space.
func oneLine[S ~string](s S) string { return strings.Join(strings.Fields(string(s)), " ") }

// optional is nil for an empty text and for one that is too long; 0 is no limit.
func optional(s string, limit int) *string {
	if s == "" || limit > 0 && utf8.RuneCountInString(s) > limit {
		return nil
	}
	return &s
}
