package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// plantedMistakes are changes of the source that lose or double something if a worker dies at the wrong moment. Each replaces
// texts of a file, each of which must occur once.
var plantedMistakes = map[string]struct {
	file    string
	replace []string // old and new text in turn
}{
	"the pid is noted after the fork": {"internal/proc/fork_linux.go", []string{
		"command.Note, command.Sibling = forkNote(r.slot), r.sibling",
		"command.Sibling = r.sibling",
		"		pointCloned.Passed()\n",
		"		pointCloned.Passed()\n		forkNote(r.slot).Pid = int32(child.Pid)\n",
	}},
	"output is read, and then appended": {"internal/outlog/memory.go", []string{
		"	\"time\"\n",
		"	\"time\"\n\n	\"golang.org/x/sys/unix\"\n",
		"		moved, err := slot.Arena().Splice(pipe, &slot.Off, n)\n",
		"		b := make([]byte, n)\n		moved, err := unix.Read(pipe, b)\n",
		"			pointSplice.Passed()\n",
		"			pointSplice.Passed()\n			off := int64(slot.Off.Load())\n" +
			"			unix.Pwrite(int(slot.Arena().File().Fd()), b[:moved], off)\n			slot.Off.Store(uint64(off)+uint64(moved), pointOff)\n",
	}},
	"an entry takes two stores": {"internal/outlog/memory.go", []string{
		"		b.Put(i, r)\n		b.Commit(i+1, pointCount)\n",
		"		b.Commit(i+1, pointCount)\n		b.Put(i, r)\n",
	}},
	"input is noted after it was written": {"internal/arena/input.go", []string{
		"	n, err := in.slot.arena.sendfile(fd, &in.slot.InputPos, pending)\n",
		"	pos := in.slot.InputPos\n	n, err := in.slot.arena.sendfile(fd, &pos, pending)\n",
		"		pointInputSent.Passed()\n",
		"		pointInputSent.Passed()\n		in.slot.InputPos.Store(pos.Load(), pointInputSent)\n",
	}},
	"an exit is reaped before it is recorded": {"internal/proc/process.go", []string{
		"	p.child.kept.exited(code)\n",
		"	p.child.reap()\n	p.child.kept.exited(code)\n",
	}},
}

const (
	// plantedDeaths is within how many deaths of workers a mistake must be found.
	plantedDeaths = 2000
	// plantedClients find a mistake sooner than many clients: workers take over faster.
	plantedClients = 8
)

// A storm finds mistakes that were made on purpose, within a bounded number of deaths.
func TestKeeperStormFindsPlantedMistakes(t *testing.T) {
	tethertest.SoakOnly(t)
	for name := range plantedMistakes {
		t.Run(name, func(t *testing.T) {
			s := startStorm(t, buildPlanted(t, name))
			s.deaths, s.clients = plantedDeaths, plantedClients
			begin := time.Now()
			s.run(t)
			found := s.faults()
			if len(found) == 0 {
				t.Fatalf("the mistake was not found within %d deaths", s.log.deaths())
			}
			t.Logf("found after %d deaths and %v: %s", s.log.deaths(), time.Since(begin).Round(time.Second), found[0])
		})
	}
}

// buildPlanted builds the program with a mistake.
func buildPlanted(t *testing.T, name string) string {
	t.Helper()
	mistake, dir := plantedMistakes[name], t.TempDir()
	original, err := filepath.Abs(filepath.Join("..", "..", mistake.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(mistake.replace); i += 2 {
		if n := strings.Count(string(text), mistake.replace[i]); n != 1 {
			t.Fatalf("%s has %d times %q: adapt the mistake to the source", mistake.file, n, mistake.replace[i])
		}
		text = []byte(strings.Replace(string(text), mistake.replace[i], mistake.replace[i+1], 1))
	}
	changed, overlay, program := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tether")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err == nil {
		err = os.WriteFile(changed, text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return program
}
