package discover

import (
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/tetherexec/tether/wire"
)

// Lengths in characters.
const (
	maxName     = 64
	maxFullName = maxName + 1 + maxName // with the plugin's name
	maxText     = 1024                  // of the fields of a tool
)

var (
	errNoFrontMatter = errors.New("no front matter")
	errNoDescription = errors.New("no description")
	errName          = errors.New("name too long")
	errProduct       = errors.New("unknown product")
)

// describeSkills reads the descriptions of the found skills. complete is false if
// one of them is invalid.
func (s *scan) describeSkills(root *wire.SkillRoot) (skills []wire.InstalledSkill, complete bool) {
	skills, complete = []wire.InstalledSkill{}, true
	for _, found := range s.skills {
		if s.ctx.Err() != nil { // the client has left, so the answer is not needed
			return nil, false
		}
		skill, err := describe(found)
		if err != nil {
			complete = false
			continue
		}
		if namespace := s.namespaceOf(skill.Path); namespace != "" {
			skill.Name = namespace + ":" + skill.Name
		}
		if utf8.RuneCountInString(skill.Name) > maxFullName {
			complete = false
			continue
		}
		skill.DiscoveryRoot = root
		skills = append(skills, skill)
	}
	return skills, complete
}

// namespaceOf is the name of the innermost plugin around a skill. A broken manifest
// does not count.
func (s *scan) namespaceOf(uri string) (name string) {
	depth := -1
	for i := range s.manifests {
		m := &s.manifests[i]
		if !strings.HasPrefix(uri, strings.TrimSuffix(m.dir, "/")+"/") || len(m.dir) <= depth {
			continue
		}
		if inner, ok := m.namespace(); ok {
			name, depth = inner, len(m.dir)
		}
	}
	return name
}

// frontMatter is the YAML header of a skill.
type frontMatter struct{ name, description, shortDescription string }

func readFrontMatter(text string) (front frontMatter, err error) {
	return front, readYAML(text, keys{
		"name":        intoText(&front.name),
		"description": intoText(&front.description),
		"metadata":    into(keys{"short-description": intoText(&front.shortDescription)}),
	})
}

func describe(found wire.DiscoveredSkill) (wire.InstalledSkill, error) {
	text, ok := head(found.Instructions.Contents)
	if !ok {
		return wire.InstalledSkill{}, errNoFrontMatter
	}
	front, err := readFrontMatter(text)
	if err != nil && !errors.Is(err, errYAMLSize) {
		front, err = readFrontMatter(repair(text))
	}
	if err != nil {
		return wire.InstalledSkill{}, err
	}
	skill := wire.InstalledSkill{
		Name:             oneLine(front.name),
		Description:      oneLine(front.description),
		ShortDescription: optional(oneLine(front.shortDescription), 0),
		Path:             found.Instructions.Path,
	}
	if skill.Name == "" {
		dir, err := native(path.Dir(skill.Path))
		if err != nil {
			return wire.InstalledSkill{}, err
		}
		skill.Name = oneLine(filepath.Base(dir))
	}
	if utf8.RuneCountInString(skill.Name) > maxName {
		return wire.InstalledSkill{}, errName
	}
	if skill.Description == "" {
		return wire.InstalledSkill{}, errNoDescription
	}
	if found.Metadata != nil {
		skill.Dependencies, skill.Policy = readMetadata(found.Metadata.Contents)
	}
	return skill, nil
}

// head is the text between the first line and the next line that is "---".
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

// repair quotes values that people write and YAML does not allow, line by line:
// "description: do this: that", "hint: [file] [word]". Block texts are not changed.
func repair(text string) string {
	var b strings.Builder
	block := -1 // indentation of the line that began a block text
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		indentation := strings.Index(line, trimmed)
		if block >= 0 && (trimmed == "" || indentation > block) {
			b.WriteString(line)
			continue
		}
		block = -1
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		ok = ok && strings.TrimLeft(value, " \t") != value
		value, _, _ = strings.Cut(value, " #") // a comment
		value = strings.TrimSpace(value)
		switch {
		case ok && value != "" && (value[0] == '|' || value[0] == '>'):
			block = indentation
		case ok && needsQuotes(value):
			line = key + ": '" + strings.ReplaceAll(value, "'", "''") + "'\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

func needsQuotes(value string) bool {
	if value == "" || value[0] == '"' || value[0] == '\'' {
		return false
	}
	if strings.Contains(value, ": ") || strings.Contains(value, ":\t") {
		return true
	}
	if strings.IndexByte("[{`@", value[0]) < 0 {
		return false
	}
	_, err := parseYAML(value)
	return err != nil
}

// skillMetadata has the used fields of a skill's second file.
type skillMetadata struct {
	tools  []wire.SkillTool
	policy *wire.SkillPolicy
}

var products = []string{"chatgpt", "codex", "atlas"}

// readMetadata reads the file; an invalid file counts as empty.
func readMetadata(text string) (*wire.SkillDependencies, *wire.SkillPolicy) {
	var m skillMetadata
	if err := readYAML(text, m.keys()); err != nil {
		return nil, nil
	}
	if m.tools == nil {
		return nil, m.policy
	}
	return &wire.SkillDependencies{Tools: m.tools}, m.policy
}

func (m *skillMetadata) keys() keys {
	about := keys{} // not in the answer, but an invalid value makes the whole file invalid
	for _, key := range []string{"display_name", "short_description", "icon_small", "icon_large", "brand_color", "default_prompt"} {
		about[key] = intoText(new(string))
	}
	return keys{
		"interface":    unlessNull(into(about)),
		"dependencies": unlessNull(into(keys{"tools": each(m.addTool)})),
		"policy":       unlessNull(m.readPolicy),
	}
}

func (m *skillMetadata) readPolicy(n *yaml.Node) error {
	m.policy = &wire.SkillPolicy{Products: []string{}}
	return into(keys{
		"allow_implicit_invocation": intoBool(&m.policy.AllowImplicitInvocation),
		"products":                  each(m.addProduct),
	})(n)
}

func (m *skillMetadata) addProduct(n *yaml.Node) error {
	name, err := variant(n)
	if err != nil {
		return err
	}
	lower := strings.ToLower(name)
	if !slices.Contains(products, lower) || name != lower && name != strings.ToUpper(name) {
		return errProduct
	}
	m.policy.Products = append(m.policy.Products, lower)
	return nil
}

// addTool reads a tool and drops one without a type or value.
func (m *skillMetadata) addTool(n *yaml.Node) error {
	var kind, value, description, transport, command, url string
	var port *uint16
	err := into(keys{
		"type": intoText(&kind), "value": intoText(&value), "description": intoText(&description),
		"transport": intoText(&transport), "command": intoText(&command), "url": intoText(&url),
		"oauth": unlessNull(into(keys{"callback_port": intoPort(&port)})),
	})(n)
	if err != nil {
		return err
	}
	shortKind, shortValue := optional(oneLine(kind), maxName), optional(oneLine(value), maxText)
	if shortKind == nil || shortValue == nil {
		return nil
	}
	m.tools = append(m.tools, wire.SkillTool{
		Type: *shortKind, Value: *shortValue,
		Description:       optional(oneLine(description), maxText),
		Transport:         optional(oneLine(transport), maxName),
		Command:           optional(oneLine(command), maxText),
		URL:               optional(oneLine(url), maxText),
		OAuthCallbackPort: port,
	})
	return nil
}

// oneLine replaces each run of white space by one space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// optional is nil for an empty text and for a text that is too long; 0 is no limit.
func optional(s string, limit int) *string {
	if s == "" || limit > 0 && utf8.RuneCountInString(s) > limit {
		return nil
	}
	return &s
}
