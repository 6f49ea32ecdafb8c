package unifiedexec

import (
	"path"
	"slices"
	"strings"
)

// parseScript splits the text for a shell into its commands. plain means that the text is nothing
// but these commands: words and quotes, joined by && || ; | and line ends. Otherwise the parts are
// a guess, good enough to warn but not to allow.
func parseScript(text string) (parts [][]string, plain bool) {
	p := scriptParser{plain: true}
	for i := 0; i < len(text); i++ {
		i = p.take(text, i)
	}
	p.endCommand()
	return p.parts, p.plain && !p.open && len(p.parts) > 0
}

type scriptParser struct {
	parts  [][]string
	part   []string
	word   strings.Builder
	inWord bool
	plain  bool
	open   bool // a quote does not end
}

// take reads the next element, which begins at i, and returns its last position.
func (p *scriptParser) take(text string, i int) int {
	switch c := text[i]; c {
	case ' ', '\t':
		p.endWord()
	case '\n', ';':
		p.endCommand()
	case '|', '&':
		doubled := i+1 < len(text) && text[i+1] == c
		if c == '&' && !doubled { // in the background, or a redirection
			p.plain = false
		}
		p.endCommand()
		if doubled {
			i++
		}
	case '\'':
		n := strings.IndexByte(text[i+1:], '\'')
		if n < 0 {
			p.open = true
			return len(text)
		}
		p.add(text[i+1 : i+1+n])
		return i + 1 + n
	case '"':
		n := strings.IndexByte(text[i+1:], '"')
		if n < 0 {
			p.open = true
			return len(text)
		}
		inside := text[i+1 : i+1+n]
		if strings.ContainsAny(inside, "$`\\!") {
			p.plain = false
		}
		p.add(inside)
		return i + 1 + n
	case '(', ')', '{', '}':
		p.plain = false
		p.endCommand()
	case '$', '`', '<', '>', '*', '?', '[', ']', '~', '#', '\\', '!', '=':
		p.plain = p.plain && c == '=' && p.inWord && len(p.part) > 0 // --name=value
		p.add(text[i : i+1])
	default:
		p.add(text[i : i+1])
	}
	return i
}

func (p *scriptParser) add(text string) {
	p.word.WriteString(text)
	p.inWord = true
}

func (p *scriptParser) endWord() {
	if p.inWord {
		p.part = append(p.part, p.word.String())
	}
	p.word.Reset()
	p.inWord = false
}

func (p *scriptParser) endCommand() {
	p.endWord()
	if len(p.part) > 0 {
		p.parts = append(p.parts, p.part)
	}
	p.part = nil
}

// dangerous reports whether a command deletes files without asking: rm -f.
func dangerous(part []string) bool {
	for len(part) > 0 && path.Base(part[0]) == "sudo" {
		part = part[1:]
	}
	if len(part) == 0 || path.Base(part[0]) != "rm" {
		return false
	}
	for _, word := range part[1:] {
		switch {
		case word == "--":
			return false
		case word == "--force", strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.Contains(word, "f"):
			return true
		}
	}
	return false
}

// proposeRule returns a rule for the user to approve: the one that the model asks for if all parts
// of the command begin with it, otherwise all words of the command. whole has all parts of the
// command. nil: no rule fits the command, or it would allow any command.
func proposeRule(asked []string, whole [][]string, plain bool) []string {
	if plain && len(asked) > 0 && !allowsAnything(asked) && !slices.ContainsFunc(whole, func(part []string) bool { return !startsWith(part, asked) }) {
		return asked
	}
	if len(whole) != 1 || plain && allowsAnything(whole[0]) {
		return nil
	}
	return whole[0]
}

func startsWith(words, beginning []string) bool {
	return len(words) >= len(beginning) && slices.Equal(words[:len(beginning)], beginning)
}
