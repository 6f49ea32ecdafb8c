package seatbelt

import (
	"fmt"
	"strings"

	"github.com/tetherexec/tether/internal/sandbox"
)

// A regex is a glob as a regular expression of a profile. It matches everything that the glob matches, and everything below that. It
// may match more, because globs only deny.
type regex struct {
	dir  string
	text string
}

func (b *builder) addGlob(g sandbox.BookGlob) error {
	parsed, ok := sandbox.ParseGlob(g.Pattern)
	if !ok || !strings.HasPrefix(g.Dir, "/") {
		return fmt.Errorf("the pattern %q below %q cannot be denied by Seatbelt", g.Pattern, g.Dir)
	}
	dir := strings.TrimRight(g.Dir, "/")
	for _, parts := range parsed.Alternatives() {
		var t strings.Builder
		t.WriteString("^")
		literal(&t, dir)
		t.WriteString("/")
		for i, part := range parts {
			if part == "**" {
				t.WriteString("(.*/)?")
				continue
			}
			component(&t, part)
			if i < len(parts)-1 {
				t.WriteString("/")
			}
		}
		t.WriteString("(/.*)?$")
		b.globs = append(b.globs, regex{g.Dir, t.String()})
	}
	return nil
}

// component translates one component of a pattern. Classes are not translated: from the first one on, the component may be anything.
func component(t *strings.Builder, part string) {
	for i := 0; i < len(part); i++ {
		switch part[i] {
		case '*':
			t.WriteString("[^/]*")
		case '?':
			t.WriteString("[^/]+") // a character may have several bytes
		case '[':
			t.WriteString("[^/]*")
			return
		case '\\':
			if i++; i < len(part) {
				literal(t, part[i:i+1])
			}
		default:
			literal(t, part[i:i+1])
		}
	}
}

// literal writes text that stands for itself. A character that could mean something to the regular expression or to the profile may be
// anything, unless a class of one character makes it harmless.
func literal(t *strings.Builder, text string) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '/', c == '_', c == '-', c == ',', c == '@', c == '%', c == '=', c == ':', c == ' ':
			t.WriteByte(c)
		case c == '.', c == '+', c == '(', c == ')', c == '{', c == '}', c == '$':
			t.WriteByte('[') // it needs no backslash
			t.WriteByte(c)
			t.WriteByte(']')
		default:
			t.WriteString("[^/]*") // it may be a part of a character
		}
	}
}
