//go:build interop

package interop_test

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

// referenceVersion is the version whose observations are in testdata. scripts/with-reference installs it.
const referenceVersion = "0.166.0"

var (
	live   = flag.Bool("live", false, "play exchanges with the reference too: compare tether and the recording with it")
	record = flag.Bool("record", false, "play exchanges with the reference only, and write what it does to testdata")
)

// compareWith plays an exchange with tether and compares the observations with those of the reference. These come from the recording,
// or with -live from the reference.
func (x exchange) compareWith(t *testing.T, play func(t *testing.T, who product) []observation) {
	t.Helper()
	want := x.referenceSays(t, play)
	if want == nil || *record {
		return
	}
	if ours := playAs(t, tether, play); ours != nil {
		x.compare(t, want, ours)
	}
}

// referenceSays returns the observations of the reference in the exchange of this test; nil if the test was skipped or has failed.
func (x exchange) referenceSays(t *testing.T, play func(t *testing.T, who product) []observation) []observation {
	t.Helper()
	if x.asRoot && os.Geteuid() != 0 {
		x.liveOnly = "it was recorded as root, and observes what only root may do"
	}
	switch {
	case x.liveOnly != "" && *record:
		t.Skip("not recorded:", x.liveOnly)
	case x.liveOnly != "" && !*live:
		t.Skip("compared with the live reference only (make interop):", x.liveOnly)
	case x.liveOnly != "":
		return playAs(t, ref, play)
	case !*live && !*record:
		recorded, known := recordings.find(t)
		if !known {
			t.Fatal("there is no recording of the reference for this test: run make record")
		}
		return recorded
	}
	seen := playAs(t, ref, play)
	if seen == nil || t.Failed() {
		return nil
	}
	for i, o := range seen {
		if slices.Contains(x.varies, o.label[len("000 "):]) {
			if _, ok := x.intended(o.label); !ok {
				t.Errorf("%s varies, and the exchange does not say what tether does", o.label)
			}
			seen[i].value = "varies"
		}
	}
	if *record {
		recordings.put(t, seen)
		return seen
	}
	if recorded, _ := recordings.find(t); !slices.Equal(recorded, seen) {
		t.Errorf("the recording of the reference is out of date, run make record: %s", firstDifference(recorded, seen))
	}
	return seen
}

// referenceOnly skips a test about the reference alone, unless -live is set.
func referenceOnly(t *testing.T) {
	t.Helper()
	if !*live {
		t.Skip("about the reference alone: runs in make interop")
	}
	program(t, ref)
}

// playAs plays an exchange with one product, in a subtest of its own.
func playAs(t *testing.T, who product, play func(t *testing.T, who product) []observation) (log []observation) {
	t.Helper()
	t.Run(string(who), func(t *testing.T) {
		program(t, who)
		log = play(t, who)
		if *show {
			for _, o := range log {
				t.Logf("%s\n\t%s", o.label, o.value)
			}
		}
	})
	return log
}

func firstDifference(recorded, seen []observation) string {
	for i, o := range seen {
		switch {
		case i >= len(recorded):
			return fmt.Sprintf("%s is not recorded", o.label)
		case o != recorded[i]:
			return fmt.Sprintf("\nrecorded %s: %s\nnow      %s: %s", recorded[i].label, recorded[i].value, o.label, o.value)
		}
	}
	return fmt.Sprintf("%s was recorded and is no longer seen", recorded[len(seen)].label)
}

// recordings has the files below testdata. The last part of a test's name is the section, the rest is the name of the file.
var recordings = recordingFiles{files: map[string]map[string][]observation{}}

type recordingFiles struct {
	mu    sync.Mutex
	files map[string]map[string][]observation // by path and section, as far as they were needed
}

// situation is what scenario.Name adds to the name of a row.
var situation = regexp.MustCompile(`^([A-Z]{1,2}[0-9]{2}[^:]*):_.*`)

// place is where the observations of a test are recorded. The situation of a scenario is not part of it: it may be worded
// differently one day.
func place(t *testing.T) (file, section string) {
	dir, section := path.Split(t.Name())
	if dir == "" {
		dir, section = section, "all"
	}
	section = situation.ReplaceAllString(section, "$1")
	return filepath.Join("testdata", referenceVersion, filepath.Clean(dir)+".txtar"), section
}

func (r *recordingFiles) find(t *testing.T) ([]observation, bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	file, section := place(t)
	log, ok := r.loadLocked(t, file)[section]
	return log, ok
}

func (r *recordingFiles) loadLocked(t *testing.T, file string) map[string][]observation {
	t.Helper()
	if sections, ok := r.files[file]; ok {
		return sections
	}
	sections := map[string][]observation{}
	r.files[file] = sections
	archive, err := txtar.ParseFile(file)
	if os.IsNotExist(err) {
		return sections
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		log, err := decodeObservations(string(f.Data))
		if err != nil {
			t.Fatalf("%s, section %s: %v", file, f.Name, err)
		}
		sections[f.Name] = log
	}
	return sections
}

// put replaces the recording of a test, and leaves those of other tests in the file.
func (r *recordingFiles) put(t *testing.T, log []observation) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	file, section := place(t)
	sections := r.loadLocked(t, file)
	sections[section] = log
	archive := &txtar.Archive{Comment: []byte("What the reference " + referenceVersion + " does in " + strings.TrimSuffix(strings.SplitN(file, string(filepath.Separator), 3)[2], ".txtar") + ". Written by make record.\n")}
	for name, log := range sections {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(encodeObservations(log))})
	}
	slices.SortFunc(archive.Files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Observations as text: the label stands on a line of its own, each line of the value
// below it after a tab and a bar. A value that is not plain text is quoted as in Go, after
// a tab.

func encodeObservations(log []observation) string {
	var b strings.Builder
	for _, o := range log {
		label := o.label
		if !plainText(label) || strings.Contains(label, "\n") {
			label = strconv.Quote(label)
		}
		b.WriteString(label + "\n")
		if !plainText(o.value) {
			b.WriteString("\t" + strconv.Quote(o.value) + "\n")
			continue
		}
		for line := range strings.SplitSeq(o.value, "\n") {
			b.WriteString("\t|" + line + "\n")
		}
	}
	return b.String()
}

// plainText reports whether text can be written as it is: every character is printable or
// ends a line.
func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

func decodeObservations(text string) (log []observation, err error) {
	log = []observation{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		value, isValue := strings.CutPrefix(line, "\t")
		switch {
		case !isValue:
			if strings.HasPrefix(line, `"`) {
				if line, err = strconv.Unquote(line); err != nil {
					return nil, fmt.Errorf("label %s: %w", line, err)
				}
			}
			log = append(log, observation{label: line, value: unset})
		case len(log) == 0:
			return nil, fmt.Errorf("no label before %q", line)
		default:
			o := &log[len(log)-1]
			if o.value, err = decodeValue(o.value, value); err != nil {
				return nil, fmt.Errorf("%s: %w", o.label, err)
			}
		}
	}
	return log, nil
}

// unset is the value of an observation before its first line.
const unset = "\x00unset"

func decodeValue(before, line string) (string, error) {
	text, plain := strings.CutPrefix(line, "|")
	switch {
	case !plain && before == unset:
		return strconv.Unquote(line)
	case !plain:
		return "", fmt.Errorf("%q follows a value", line)
	case before == unset:
		return text, nil
	}
	return before + "\n" + text, nil
}

// TestRecordingText writes observations and reads them again.
func TestRecordingText(t *testing.T) {
	log := []observation{{"001 plain", `{"a":"b"}`}, {"002 empty", ""}, {"003 lines", "one\n\ntwo\n"}, {"004 bytes", "a\x00b\xff\r\n"},
		{"005 looks quoted", `"x"`}, {"006 looks like a section", "-- x --\n-- y --"}, {"007 label\nof two lines", "\n"}, {"008 tab", "\t|x"}, {"009 ü", " ü "}}
	got, err := decodeObservations(encodeObservations(log))
	if err != nil || !slices.Equal(got, log) {
		t.Errorf("%q, %v; want\n%q\nfrom\n%s", got, err, log, encodeObservations(log))
	}
	for _, bad := range []string{"\t|x\n", "a\n\tx\n", "a\n\t|x\n\t\"y\"\n", "\"a\n"} {
		if log, err := decodeObservations(bad); err == nil {
			t.Errorf("%q was read as %q", bad, log)
		}
	}
}
