//go:build interop

package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// watchRounds is how many watches of another connection fire before a watch counts as silent.
const watchRounds = 5

// awaitWatches gives a server the time to report changes that were made before: another connection watches a path, which is
// created now, and gets its notification, several times, because the server may process both changes at the same time. A
// request that is then answered on the first connection follows the notifications that the server has sent there. A wait of a
// fixed length would prove no more, and less on a busy machine.
func awaitWatches(p *player) {
	p.t.Helper()
	dir := ownDir(p.t, "watched")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), timeLimit)
	defer cancel()
	c := p.caller()
	defer c.Close()
	for id := range watchRounds {
		path := filepath.Join(dir, fmt.Sprint(id))
		if answer := c.call("fs/watchMissing", map[string]any{"watchId": id + 1, "missing": []string{"file://" + path}}); !strings.Contains(answer, "true") {
			p.t.Fatalf("watch of %s: %s", path, answer)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			p.t.Fatal(err)
		}
		if _, err := c.Take(ctx, func(m tethertest.Message) bool { return m.Method == "fs/missingChanged" }); err != nil {
			p.t.Fatalf("a watch that must fire: %v", err)
		}
	}
}

// A watchRow is one fs/watchMissing and a change on the host. missing is a list of paths; @ is the directory with the file f and the
// directory d.
type watchRow struct {
	label, before, missing, present, act string
}

var watchMissingRows = []watchRow{
	{"file appears", "", "@/m", "", "touch @/m"},
	{"directory appears", "", "@/m", "", "mkdir @/m"},
	{"link appears", "", "@/m", "", "ln -s nowhere @/m"},
	{"renamed to it", "", "@/m", "", "mv @/f @/m"},
	{"linked to it", "", "@/m", "", "ln @/f @/m"},
	{"ancestor appears", "", "@/m/a/b", "", "mkdir @/m"},
	{"sibling", "", "@/m", "", "touch @/other; rm @/f"},
	{"parent renamed", "", "@/d/m", "", "mv @/d @/e"},
	{"parent removed", "", "@/d/m", "", "rmdir @/d"},
	{"grandparent renamed", "", "@/d/m", "", "mv @ @2; rm -rf @2"},
	{"parent replaced", "", "@/d/m", "", "mkdir -p @/n/m; mv @/d @/o; mv @/n @/d"},
	{"mode of the parent", "", "@/d/m", "", "chmod 700 @/d"},
	{"sibling in the parent", "", "@/d/m", "", "touch @/d/x"},
	{"no path", "", "", "", ""},
	{"only present", "", "", "@/f", ""},
	{"64 paths", "", many(64), "", "touch @/m63"},
	{"65 paths", "", many(65), "", ""},
	{"same path thrice", "", "@/m @/m @/m", "", "touch @/m"},
	{"exists", "", "@/f", "", ""},
	{"one exists", "", "@/m @/d", "", ""},
	{"present is missing", "", "@/m", "@/nope", ""},
	{"Windows", "", "file:///C:/x", "", ""},
	{"another host", "", "file://h/x", "", ""},
	{"present on Windows", "", "@/m", "file:///C:/x", ""},
	{"file as ancestor", "", "@/f/m", "", "rm @/f; mkdir -p @/f/m"},
	{"link as ancestor", "ln -s @/d @/l", "@/l/m", "", "touch @/d/m"},
	{"dangling link", "ln -s no @/l", "@/l", "", ""},
	{"dangling link as ancestor", "ln -s no @/l", "@/l/m", "", ""},
	{"present is a link", "ln -s @/f @/l", "@/m", "@/l", ""},
	{"present through a link", "ln -s @/d @/l; touch @/d/p", "@/m", "@/l/p", ""},
	{"present is missing too", "", "@/f", "@/f", ""},
	{"present is a pipe", "mkfifo @/p", "@/m", "@/p", "chmod 600 @/p"},
	{"present is a device", "", "@/m", "/dev/null", ""},
	{"present is the root", "", "@/m", "/", ""},
	{"the root", "", "/", "", ""},
	{"proc", "", "/proc/nonexistent", "", ""},
	{"dots in a name", "", "file://@/d%2F..%2Fm", "", "touch @/m"},
	{"slash at the end", "", "@/m/", "", "touch @/m"},
	{"two slashes", "", "@//m", "", "touch @/m"},
	{"long name", "", "@/" + strings.Repeat("x", 300), "", ""},
	{"present file grows", "", "@/m", "@/f", "echo y >> @/f"},
	{"present file truncated", "", "@/m", "@/f", "truncate -s 0 @/f"},
	{"present file mode", "", "@/m", "@/f", "chmod 600 @/f"},
	{"present file time", "", "@/m", "@/f", "touch -d 2001-01-01 @/f"},
	{"present file access time", "", "@/m", "@/f", "touch -a -d 2001-01-01 @/f"},
	{"present file removed", "", "@/m", "@/f", "rm @/f"},
	{"present file replaced", "", "@/m", "@/f", "echo z > @/t; mv @/t @/f"},
	{"present file read", "", "@/m", "@/f", "cat @/f > /dev/null"},
	{"present file linked", "", "@/m", "@/f", "ln @/f @/h"},
	{"present file opened", "", "@/m", "@/f", ": >> @/f"},
	{"present file same content", "", "@/m", "@/f", "printf x > @/f"},
	{"present file, parent renamed", "", "@/m", "@/f", "mv @ @2; rm -rf @2"},
	{"present directory gets a file", "", "@/m", "@/d", "touch @/d/x"},
	{"present directory gets a directory", "", "@/m", "@/d", "mkdir @/d/x"},
	{"present directory mode", "", "@/m", "@/d", "chmod 700 @/d"},
	{"present directory time", "", "@/m", "@/d", "touch -d 2001-01-01 @/d"},
	{"present directory removed", "", "@/m", "@/d", "rmdir @/d"},
	{"present directory renamed", "", "@/m", "@/d", "mv @/d @/d2"},
	{"present directory replaced", "", "@/m", "@/d", "mv @/d @/d2; mkdir @/d"},
	{"present is the parent, sibling", "", "@/d/m", "@/d", "touch @/d/x"},
	{"present is the parent, appears", "", "@/d/m", "@/d", "touch @/d/m"},
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "@/m%d ", i)
	}
	return b.String()
}

// A missingWatcher sends fs/watchMissing and records the notifications.
type missingWatcher struct {
	*userDirs
	p *player
	c *caller
}

func (l *missingWatcher) sh(script string) {
	l.t.Helper()
	if out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(script, "@", l.path("root"))).CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// reset makes the directory with a file and a directory.
func (l *missingWatcher) reset() {
	l.sh("rm -rf @ && mkdir -p @/d && printf x > @/f && chmod 755 @/d && chmod 644 @/f")
}

// watch sends the request and returns the answer.
func (l *missingWatcher) watch(id any, missing, present string) string {
	uri := func(path string) string {
		path = strings.ReplaceAll(path, "@", l.path("root"))
		if strings.HasPrefix(path, "file:") {
			return path
		}
		return "file://" + path
	}
	params := map[string]any{"watchId": id, "missing": []string{}}
	for path := range strings.FieldsSeq(missing) {
		params["missing"] = append(params["missing"].([]string), uri(path))
	}
	if present != "" {
		params["present"] = uri(present)
	}
	return l.c.call("fs/watchMissing", params)
}

// silentRows are the rows whose watches do not fire.
var silentRows = []string{"sibling", "sibling in the parent", "present file access time", "present file read", "present file linked", "present file opened",
	"present directory gets a file", "present directory gets a directory", "present is the parent, sibling"}

// fired returns the ids of the next notifications. If one is expected, it waits for that one first.
func (l *missingWatcher) fired(expected string) []string {
	ids := []string{}
	take := func(limit time.Duration) bool {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		m, err := l.c.Take(ctx, func(m tethertest.Message) bool { return m.Method != "" })
		if err != nil {
			return false
		}
		var params map[string]json.Number
		json.Unmarshal(m.Params, &params)
		ids = append(ids, m.Method+" "+params["watchId"].String())
		return true
	}
	for expected != "" && !slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(id, " "+expected) }) {
		if !take(timeLimit) {
			return ids
		}
	}
	awaitWatches(l.p)
	l.c.call("environment/status", map[string]any{})
	for take(0) {
	}
	return ids
}

func TestWatchMissing(t *testing.T) {
	t.Parallel()
	for i, row := range watchMissingRows {
		t.Run(row.label, func(t *testing.T) {
			t.Parallel()
			playBoth(t, exchange{name: row.label, compares: whatWasRead, play: func(p *player) {
				l := &missingWatcher{userDirs: newUserDirs(p.t), p: p, c: p.caller()}
				l.reset()
				l.sh(row.before)
				answer := l.watch(i+1, row.missing, row.present)
				seen := map[string]any{"answer": answer}
				if strings.Contains(answer, "true") && row.act != "" {
					l.sh(row.act)
					expected := fmt.Sprint(i + 1)
					if slices.Contains(silentRows, row.label) {
						expected = ""
					}
					seen["fired"] = l.fired(expected)
				}
				p.note("watch", seen)
			}}, shared)
		})
	}
}

// TestWatchMissingIDs replaces watches and uses ids again.
func TestWatchMissingIDs(t *testing.T) {
	t.Parallel()
	playBoth(t, exchange{name: "watch ids", compares: whatWasRead, play: func(p *player) {
		l := &missingWatcher{userDirs: newUserDirs(p.t), p: p, c: p.caller()}
		l.reset()
		ask := func(label string, id any, missing string) { p.note(label, l.watch(id, missing, "")) }
		look := func(label, script, expected string) { l.sh(script); p.note(label, l.fired(expected)) }
		ask("zero", 0, "@/m")
		ask("zero again", 0, "@/m")
		ask("five", 5, "@/m")
		ask("five again", 5, "@/m")
		ask("four", 4, "@/m")
		look("fires", "touch @/m", "5")
		look("not twice", "rm @/m; touch @/m", "")
		l.reset()
		ask("six", 6, "@/m")
		ask("seven is refused", 7, "@/f")
		look("six is gone", "touch @/m", "")
		l.reset()
		ask("seven again", 7, "@/m")
		ask("eight", 8, "@/m")
		ask("nine", 9, "@/n")
		look("eight is replaced", "touch @/m", "")
		look("nine fires", "touch @/n", "9")
		ask("largest", json.Number("18446744073709551615"), "@/z")
		ask("too large", json.Number("18446744073709551616"), "@/z")
		ask("negative", -1, "@/z")
		ask("text", "1", "@/z")
		other := &missingWatcher{userDirs: l.userDirs, p: p, c: p.caller()}
		p.note("another connection counts for itself", other.watch(1, "@/z", ""))
		look("largest fires", "touch @/z", "18446744073709551615")
		p.note("the other one too", other.fired("1"))
	}}, shared)
}
