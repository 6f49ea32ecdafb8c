package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// Every link in the documentation leads to a file of the repository, and its anchor to a heading of that file.
// Addresses on the web are not checked.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := []string{"../README.md", "../CHANGELOG.md", "../CONTRIBUTING.md", "../SECURITY.md"}
	for _, pattern := range []string{"*.md", "adr/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, names...)
	}
	found := 0
	for _, page := range pages {
		for _, link := range links(t, page) {
			if strings.Contains(link, "://") {
				continue
			}
			found++
			checkLink(t, page, link)
		}
	}
	if found < 100 {
		t.Errorf("found only %d links", found)
	}
}

func checkLink(t *testing.T, page, link string) {
	t.Helper()
	name, anchor, _ := strings.Cut(link, "#")
	target := page
	if name != "" {
		target = filepath.Join(filepath.Dir(page), name)
	}
	if _, err := os.Stat(target); err != nil {
		t.Errorf("%s: link to %s: %v", page, link, err)
	} else if anchor != "" && !slices.Contains(anchors(t, target), anchor) {
		t.Errorf("%s: link to %s: %s has no such heading", page, link, target)
	}
}

// A code span may look like a link: `a[b](c)`. A fenced block, too.
var (
	code    = regexp.MustCompile("(?ms)^```.*?^```$|``.*?``|`[^`\n]*`")
	linkTo  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fences  = regexp.MustCompile("(?ms)^```.*?^```$")
)

func links(t *testing.T, page string) (links []string) {
	for _, link := range linkTo.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), "x"), -1) {
		links = append(links, link[1])
	}
	return links
}

// anchors returns the anchors of a page, as GitHub makes them from its headings.
func anchors(t *testing.T, page string) (anchors []string) {
	for _, title := range heading.FindAllStringSubmatch(fences.ReplaceAllString(read(t, page), ""), -1) {
		anchors = append(anchors, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, title[1]))
	}
	return anchors
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
