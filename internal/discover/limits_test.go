package discover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// manySkills is a search that has found a plugin with a manifest of about size bytes and
// skills in it.
func manySkills(ctx context.Context, size int) *scan {
	s := &scan{ctx: ctx}
	text := `{"name":"plug","x":[` + strings.Repeat("0,", size/2-20) + "0]}"
	s.manifests = []manifest{{dir: "file:///plug", file: wire.CapabilityFile{Path: "file:///plug/plugin.json", Contents: text}}}
	for i := range 100 {
		s.skills = append(s.skills, wire.DiscoveredSkill{Instructions: wire.CapabilityFile{
			Path: fmt.Sprintf("file:///plug/s%d/SKILL.md", i), Contents: "---\nname: s\ndescription: d\n---\n",
		}})
	}
	return s
}

// A manifest is parsed once, however many skills belong to its plugin.
func TestManifestIsParsedOnce(t *testing.T) {
	s := manySkills(t.Context(), maxJSON-1)
	skills, complete := s.describeSkills(nil)
	if len(skills) != len(s.skills) || !complete || skills[0].Name != "plug:s" {
		t.Fatalf("%d skills, complete %v", len(skills), complete)
	}
	again := testing.AllocsPerRun(10, func() {
		if s.namespaceOf(skills[0].Path) != "plug" {
			t.Error("a skill has another namespace")
		}
	})
	if again > 10 {
		t.Errorf("the name costs %.0f allocations each time", again)
	}
}

func TestDescribingEndsWithTheClient(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if skills, complete := manySkills(ctx, 100).describeSkills(nil); len(skills) != 0 || complete {
		t.Errorf("%d skills, complete %v", len(skills), complete)
	}
}

func TestLimitOfManifests(t *testing.T) {
	large := `{"name":"` + strings.Repeat("n", maxJSON) + `"}`
	if _, err := namespace(large, "/plug"); !errors.Is(err, errJSONSize) {
		t.Errorf("name: %v", err)
	}
	if _, err := readManifest(large); !errors.Is(err, errJSONSize) {
		t.Errorf("manifest: %v", err)
	}
}
