//go:build amd64 || arm64

package arena

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/crash"
)

// workerSteps is how much a worker does at most. The journal is rewritten several times.
const workerSteps = 3000

func init() { worker = runWorker }

// runWorker appends and drops notes, takes and frees slots in the arena at descriptor 3, and
// tells what it does on its standard output.
func runWorker(seed uint64) {
	a, err := Open(os.NewFile(3, "arena"))
	check(err)
	random := rand.New(rand.NewPCG(seed, 0))
	live := map[uint64]*Note{}
	last := uint64(0)
	check(a.journal.Replay(func(n *Note, _ NoteKind, payload []byte) error {
		last = noteNumber(payload)
		live[last] = n
		return nil
	}))
	drop := func() {
		for number, n := range live {
			if len(live) <= 20 {
				break
			}
			fmt.Println("drop", number)
			a.journal.Drop(n)
			delete(live, number)
		}
	}
	drop() // dropped notes may have come back
	slots := a.Slots()
	for range workerSteps {
		switch op := random.IntN(10); {
		case op < 5:
			last++
			fmt.Println("append", last)
			n, err := a.journal.Append(1, notePayload(last))
			check(err)
			live[last] = n
			fmt.Println("appended", last)
		case op < 8:
			drop()
		case op < 9 && len(slots) < 10:
			s, err := a.TakeSlot()
			check(err)
			slots = append(slots, s)
			fmt.Println("took", s.Serial.Load())
		case len(slots) > 0:
			s := slots[0]
			slots = slots[1:]
			fmt.Println("free", s.Serial.Load())
			s.Free()
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(3)
	}
}

// notePayload is the content of a note, of a length between 8 and 500 bytes.
func notePayload(number uint64) []byte {
	return fmt.Appendf(nil, "%08d %s", number, strings.Repeat("x", int(number*number%491)))
}

func noteNumber(payload []byte) (number uint64) {
	fmt.Sscanf(string(payload), "%d", &number)
	return number
}

// A witness knows what workers have done.
type witness struct {
	begun, appended, dropped map[uint64]bool // notes
	took, freed              map[uint64]bool // slots, by serial number
}

func (w *witness) hear(output string) {
	for scanner := bufio.NewScanner(strings.NewReader(output)); scanner.Scan(); {
		var what string
		var n uint64
		fmt.Sscan(scanner.Text(), &what, &n)
		map[string]map[uint64]bool{"append": w.begun, "appended": w.appended, "drop": w.dropped, "took": w.took, "free": w.freed}[what][n] = true
	}
}

// compare checks what is in the arena against what workers have done.
func (w *witness) compare(t *testing.T, a *Arena) {
	t.Helper()
	next := a.again(t)
	found, last := map[uint64]bool{}, uint64(0)
	err := next.journal.Replay(func(_ *Note, _ NoteKind, payload []byte) error {
		n := noteNumber(payload)
		if n <= last || !w.begun[n] || string(payload) != string(notePayload(n)) {
			t.Errorf("note %d after %d: %.20q", n, last, payload)
		}
		last = n
		found[n] = true
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for n := range w.appended {
		if !w.dropped[n] && !found[n] {
			t.Errorf("note %d is lost", n)
		}
	}
	used := map[uint64]bool{}
	for _, s := range next.Slots() {
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		if serial := s.Serial.Load(); used[serial] {
			t.Errorf("two slots have the serial number %d", serial)
		}
		used[s.Serial.Load()] = true
	}
	for serial := range w.took {
		if !w.freed[serial] && !used[serial] {
			t.Errorf("slot with serial number %d is lost", serial)
		}
	}
}

// A worker dies behind each lasting effect of the journal and the slots. What it had told
// is there, and the next one goes on.
func TestArenaSurvivesDeathAtEachPoint(t *testing.T) {
	t.Parallel()
	for name, counts := range map[string][]int{
		"arena.slot.serial":    {1, 7},
		"arena.slot.clear":     {1, 2, 7, 8},
		"arena.slot.take":      {1, 7},
		"arena.slots.used":     {1},
		"arena.slot.free":      {1, 7},
		"arena.journal.note":   {1, 100, 700},
		"arena.journal.commit": {1, 100, 700},
		"arena.journal.copy":   {1, 2, 3, 4},
		"arena.journal.switch": {1, 2},
		"arena.punch":          {1, 2},
	} {
		for _, n := range counts {
			spec := fmt.Sprintf("%s:%d", name, n)
			t.Run(spec, func(t *testing.T) {
				t.Parallel()
				a := create(t, small)
				w := &witness{map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}}
				for seed := range 3 {
					cmd := exec.Command(os.Args[0])
					cmd.ExtraFiles = []*os.File{a.File()}
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", workerVariable, seed+1), crash.Variable+"="+spec, "GORACE=atexit_sleep_ms=0")
					var stderr strings.Builder
					cmd.Stderr = &stderr
					output, err := cmd.Output()
					exit, died := errors.AsType[*exec.ExitError](err)
					if seed == 0 && !died || died && exit.ProcessState.String() != "signal: killed" {
						t.Fatalf("the worker ended with %v: %s", err, stderr.String())
					}
					w.hear(string(output))
					w.compare(t, a)
				}
			})
		}
	}
}
