package discover

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML is read from its nodes, not into Go types, because null, numbers and
// duplicate keys must be recognised as the reference does. There is no merge key,
// only one document, and null is neither a list nor a mapping.

var (
	errYAMLSize  = errors.New("too much YAML")
	errDocuments = errors.New("more than one document")
	errNotMap    = errors.New("not a mapping")
	errNotList   = errors.New("not a list")
	errNotText   = errors.New("not a plain value")
	errNotNull   = errors.New("not null")
	errNotBool   = errors.New("not a boolean")
	errNotPort   = errors.New("not a port")
	errVariant   = errors.New("not a name")
)

// A reader stores the value of a node, which is not an alias.
type reader func(*yaml.Node) error

// keys are the keys of a mapping that are used.
type keys map[string]reader

// aliases are other spellings of keys.
var aliases = map[string]string{"callbackPort": "callback_port"}

// readYAML reads a text that is one mapping.
func readYAML(text string, k keys) error {
	n, err := parseYAML(text)
	if err != nil {
		return err
	}
	return into(k)(target(n))
}

// maxYAML is the size of the largest text that is parsed: at worst it takes a
// second.
const maxYAML = 256 << 10

// parseYAML reads a text that is one document.
func parseYAML(text string) (*yaml.Node, error) {
	if len(text) > maxYAML {
		return nil, errYAMLSize
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	var doc yaml.Node
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errDocuments
	}
	return doc.Content[0], nil
}

// target is the node that an alias refers to, otherwise the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// into reads a mapping. Unknown keys are ignored, even if they are duplicate.
func into(k keys) reader {
	return func(n *yaml.Node) error {
		if isNothing(n) {
			return nil
		}
		if n.Kind != yaml.MappingNode {
			return errNotMap
		}
		var seen []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := target(n.Content[i])
			if key.Kind != yaml.ScalarNode {
				return errNotText
			}
			name := key.Value
			if usual, ok := aliases[name]; ok {
				name = usual
			}
			read := k[name]
			if read == nil {
				continue
			}
			if slices.Contains(seen, name) {
				return fmt.Errorf("duplicate field `%s`", name)
			}
			seen = append(seen, name)
			if err := read(target(n.Content[i+1])); err != nil {
				return err
			}
		}
		return nil
	}
}

// each reads the elements of a list.
func each(read reader) reader {
	return func(n *yaml.Node) error {
		if isNothing(n) {
			return nil
		}
		if n.Kind != yaml.SequenceNode {
			return errNotList
		}
		for _, element := range n.Content {
			if err := read(target(element)); err != nil {
				return err
			}
		}
		return nil
	}
}

// unlessNull reads a value that may be missing.
func unlessNull(read reader) reader {
	return func(n *yaml.Node) error {
		null := isPlain(n) && isNull(n.Value)
		switch {
		case n.Kind == yaml.ScalarNode && tag(n) == "!!null" && isPlain(n):
			if !null {
				return errNotNull
			}
			return nil
		case tag(n) == "" && (null || isNothing(n)):
			return nil
		}
		return read(n)
	}
}

// intoText reads any plain value as it is written: a skill may be called 007.
func intoText(s *string) reader {
	return unlessNull(func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode {
			return errNotText
		}
		*s = n.Value
		return nil
	})
}

func intoBool(b **bool) reader {
	return unlessNull(func(n *yaml.Node) error {
		value := slices.Contains([]string{"true", "True", "TRUE"}, n.Value)
		if !isPlain(n) || !value && !slices.Contains([]string{"false", "False", "FALSE"}, n.Value) {
			return errNotBool
		}
		*b = &value
		return nil
	})
}

func intoPort(p **uint16) reader {
	return unlessNull(func(n *yaml.Node) error {
		port, err := parsePort(n.Value)
		if !isPlain(n) || err != nil {
			return errNotPort
		}
		*p = &port
		return nil
	})
}

func parsePort(s string) (uint16, error) {
	s = strings.TrimPrefix(s, "+")
	base := 10
	for prefix, b := range map[string]int{"0x": 16, "0o": 8, "0b": 2} {
		if digits, ok := strings.CutPrefix(s, prefix); ok {
			s, base = digits, b
			break
		}
	}
	if base == 10 && len(s) > 1 && s[0] == '0' { // some parsers read it as text, others as octal
		return 0, errNotPort
	}
	n, err := strconv.ParseUint(s, base, 16)
	return uint16(n), err
}

// variant reads one of several names: a plain value, or null with the name as its
// tag.
func variant(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errVariant
	}
	name, tagged := strings.CutPrefix(tag(n), "!")
	if !tagged || strings.HasPrefix(name, "!") {
		return n.Value, nil
	}
	if !isPlain(n) || !isNull(n.Value) {
		return "", errVariant
	}
	return name, nil
}

// isNothing reports whether there is no value, at most a tag.
func isNothing(n *yaml.Node) bool { return isPlain(n) && n.Value == "" }

// isPlain reports whether a node is a value without quotes.
func isPlain(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style&^yaml.TaggedStyle == 0 }

func isNull(text string) bool { return slices.Contains([]string{"~", "null", "Null", "NULL"}, text) }

// tag is the tag that is written at a node, if any.
func tag(n *yaml.Node) string {
	if n.Style&yaml.TaggedStyle == 0 {
		return ""
	}
	return n.ShortTag()
}
