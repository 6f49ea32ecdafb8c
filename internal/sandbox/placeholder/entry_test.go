package placeholder

import (
	"errors"
	"strings"
	"testing"
)

func TestEntryPhases(t *testing.T) {
	want := Want{Path: "/ws/a \"b\"\n.git", Dir: true}
	first, second := inodeID{1, 2, 3}, inodeID{1, 2, 4}
	for _, tc := range []struct {
		name  string
		lines []string
		phase phase
		id    inodeID
	}{
		{"announced", nil, nothing, inodeID{}},
		{"making", []string{lineMake}, making, inodeID{}},
		{"made", []string{lineMake, lineMade(first)}, made, first},
		{"gone", []string{lineMake, lineGone}, nothing, inodeID{}},
		{"made again", []string{lineMake, lineMade(first), lineMake, lineMade(second)}, made, second},
		{"cut short the second time", []string{lineMake, lineMade(first), lineMake}, making, first},
		{"incomplete line", []string{lineMake, strings.TrimSuffix(lineMade(first), "\n")}, making, inodeID{}},
		{"real", []string{lineMake, lineMade(first), lineReal(first)}, nothing, first},
		{"real was an earlier one", []string{lineMake, lineMade(second), lineReal(first)}, made, second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := decode([]byte(lineWant(want) + strings.Join(tc.lines, "")))
			if err != nil || got != (registryEntry{want, tc.phase, tc.id}) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestEntryDamaged(t *testing.T) {
	good := lineWant(Want{Path: "/ws/.git", Dir: true})
	for _, text := range []string{
		"make\n",
		"\n",
		good + "\n",
		good + good,
		good + "make now\n",
		good + "made 1 2\n",
		good + "made 1 2 x\n",
		good + "made -1 2 3\n",
		good + "unmade\n",
		"placeholder dir \"relative\"\n",
		"placeholder dir \"/\"\n",
		"placeholder dir \"/ws/../etc\"\n",
		"placeholder dir \"/ws/\\x00\"\n",
		"placeholder dir /ws\n",
		"placeholder link \"/ws\"\n",
		lineWant(Want{Path: "/" + strings.Repeat("a", maxPath)}),
		good + strings.Repeat(lineMake, maxEntry/len(lineMake)),
	} {
		if got, err := decode([]byte(text)); !errors.Is(err, errDamaged) || got != (registryEntry{}) {
			t.Errorf("decode(%.60q) = %+v, %v", text, got, err)
		}
	}
}

// FuzzEntry: for any content of a file, an entry that could remove something
// has a path that may be a placeholder, and decodes to the same entry when
// written again.
func FuzzEntry(f *testing.F) {
	good := lineWant(Want{Path: "/ws/.git", Dir: true})
	f.Add([]byte(""))
	f.Add([]byte(good))
	f.Add([]byte(good + lineMake + lineMade(inodeID{1, 2, 3}) + lineReal(inodeID{1, 2, 3})))
	f.Add([]byte(lineWant(Want{Path: "/ws/\xff\n\""}) + lineMake + lineGone + "ma"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data)
		if err != nil {
			if got != (registryEntry{}) {
				t.Fatalf("an error and an entry: %+v", got)
			}
			return
		}
		if got.want.Path == "" {
			if got != (registryEntry{}) {
				t.Fatalf("no path: %+v", got)
			}
			return
		}
		if err := checkPath(got.want.Path); err != nil {
			t.Fatalf("path %q: %v", got.want.Path, err)
		}
		text := lineWant(got.want)
		switch got.phase {
		case making:
			text += lineMake
		case made:
			text += lineMade(got.id)
		}
		again, err := decode([]byte(text))
		if err != nil || again.want != got.want || again.phase != got.phase || got.phase == made && again.id != got.id {
			t.Fatalf("written again: %+v, then %+v, %v", got, again, err)
		}
	})
}

func TestRegistryName(t *testing.T) {
	if name := registryName("/ws/.git"); !isRegistryName(name) || name == registryName("/ws/.aws") {
		t.Errorf("name %q", name)
	}
	for _, name := range []string{"", "lock", strings.Repeat("g", nameLen), strings.Repeat("A", nameLen), strings.Repeat("a", nameLen+2)} {
		if isRegistryName(name) {
			t.Errorf("%q is taken for a registry file", name)
		}
	}
}
