package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// As in internal/copy.
const (
	copyCheckpoint = 8 << 20 // bytes of a download between two entries in the journal
	worthResuming  = 4 << 20 // parts of smaller files are not kept
)

// cableToServer returns a cable to a new server.
func cableToServer(t *testing.T) *cable.Cable {
	t.Helper()
	return tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
}

// random makes a file of random bytes.
func random(t *testing.T, name string, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	rand.Read(data)
	if err := os.WriteFile(name, data, 0o640); err != nil {
		t.Fatal(err)
	}
	return data
}

func wantBytes(t *testing.T, name string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes (%v), not the %d that were copied", name, len(got), err, len(want))
	}
}

// onlyFiles checks that a directory has these names and nothing else.
func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("%s has %q, not %q (%v)", dir, names, want, err)
	}
}

// copyEvents are the lines of --json, by the name of the source.
func copyEvents(t *testing.T, stdout string) map[string]copyEvent {
	t.Helper()
	events := map[string]copyEvent{}
	lines := bufio.NewScanner(strings.NewReader(stdout))
	for lines.Scan() {
		var e copyEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		events[filepath.Base(string(e.Source))] = e
	}
	return events
}

// A transfer is one of the two directions.
type transfer struct {
	name     string
	remoteTo bool
	answer   string // the method whose answers carry blocks
	blocks   int    // how many are answered before the copy is stopped
	size     int    // of a file that is not complete then
}

// When its 5th block is answered, an upload has sent at most 8 MiB. When a download has got 48 blocks, in any order, those of
// the first 8 MiB are among them: it reads up to 16 blocks ahead.
var transfers = []transfer{
	{"upload", true, "tether/upload/write", 5, 9<<20 + 7},
	{"download", false, "fs/readBlock", 48, 12<<20 + 7},
}

// args returns a command line that copies from one directory to another.
func (tr transfer) args(url, from, to string, more ...string) []string {
	if tr.remoteTo {
		to = ":" + to
	} else {
		from = ":" + from
	}
	return append([]string{"cp", "--url", url, "--json"}, append(more, from, to)...)
}

func TestCopyThroughCuts(t *testing.T) {
	t.Parallel()
	for _, tr := range transfers {
		t.Run(tr.name, func(t *testing.T) {
			b, line := newTestEnv(t), cableToServer(t)
			from, to := filepath.Join(b.work, "file"), t.TempDir()
			data := random(t, from, 12<<20+7) // blocks that arrived although their answers were lost are not sent again
			line.On(cable.FromServer, cable.Answer(tr.answer).Nth(5), cable.SeverBefore)
			line.On(cable.FromServer, cable.Answer(tr.answer).Nth(9), cable.SeverAfter)
			line.On(cable.FromServer, cable.Answer("tether/upload/commit"), cable.SeverBefore)
			line.On(cable.FromServer, cable.Answer("fs/open"), cable.SeverBefore)
			if got := b.tether(nil, tr.args(line.URL(), from, to, "-q")...); got.code != 0 || got.stderr != "" { // not even of long outages
				t.Errorf("%+v", got)
			}
			wantBytes(t, filepath.Join(to, "file"), data)
			onlyFiles(t, to, "file")
			if n := line.Links(); n < 4 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// A copy that was interrupted continues where it stopped, unless the source or the target has changed.
func TestCopyResumes(t *testing.T) {
	t.Parallel()
	for _, tr := range transfers {
		for _, test := range []struct {
			name    string
			signal  syscall.Signal
			between func(t *testing.T, line *cable.Cable, from, to string)
			resumes bool
		}{
			{"interrupted", syscall.SIGINT, nil, true},
			{"killed", syscall.SIGKILL, nil, true},
			{"not noticed yet", syscall.SIGINT, func(t *testing.T, line *cable.Cable, _, _ string) {
				line.On(cable.FromServer, cable.Answer("initialize"), cable.Fail(wire.CodeSessionAttached, "attached"))
			}, true},
			{"source changed", syscall.SIGINT, func(t *testing.T, _ *cable.Cable, from, _ string) { random(t, from, tr.size) }, false},
			{"part changed", syscall.SIGINT, func(t *testing.T, _ *cable.Cable, _, to string) { spoilPart(t, to) }, false},
			{"server restarted", syscall.SIGINT, func(t *testing.T, line *cable.Cable, _, _ string) {
				line.Aim(tethertest.StartServer(t, server.Config{}).URL)
			}, !tr.remoteTo},
		} {
			if tr.remoteTo && test.name == "part changed" || !tr.remoteTo && test.name == "not noticed yet" {
				continue // the server's part is its own; a download needs no old session
			}
			t.Run(tr.name+" "+test.name, func(t *testing.T) {
				t.Parallel()
				b, line := newTestEnv(t), cableToServer(t)
				from, to := filepath.Join(b.work, "file"), t.TempDir()
				random(t, from, tr.size)
				stopCopy(t, b, line, tr, test.signal, from, to)
				if _, err := os.Stat(filepath.Join(to, "file")); err == nil {
					t.Error("an incomplete file is in its place")
				}
				if test.between != nil {
					test.between(t, line, from, to)
				}
				line.Mend()
				got := b.tether(nil, tr.args(line.URL(), from, to)...)
				resumed := copyEvents(t, got.stdout)["file"].Resumed
				if got.code != 0 || test.resumes != (resumed >= worthResuming) {
					t.Errorf("%+v; resumed at %d", got, resumed)
				}
				data, err := os.ReadFile(from)
				if err != nil {
					t.Fatal(err)
				}
				wantBytes(t, filepath.Join(to, "file"), data)
				if tr.remoteTo && !test.resumes && test.name == "server restarted" {
					return // the old server still has its part, until its session ends
				}
				onlyFiles(t, to, "file")
				onlyFiles(t, filepath.Join(b.state, "tether", "copies"))
			})
		}
	}
}

// stopCopy lets a copy begin, and ends it in the middle.
func stopCopy(t *testing.T, b *testEnv, line *cable.Cable, tr transfer, signal syscall.Signal, from, to string) {
	t.Helper()
	stop := line.On(cable.FromServer, cable.Answer(tr.answer).Nth(tr.blocks), cable.CutBefore)
	cmd := b.command(tr.args(line.URL(), from, to)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := stop.Await(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if !tr.remoteTo {
		tethertest.Eventually(t, func() error { return hasCheckpoint(b) })
	}
	cmd.Process.Signal(signal)
	cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case signal == syscall.SIGKILL:
	case status.ExitStatus() != 130 || !strings.Contains(stderr.String(), "interrupted; run the same command again to continue"):
		t.Errorf("%v, %q", cmd.ProcessState, stderr.String())
	}
}

// hasCheckpoint reports whether the journal has a checkpoint of a download.
func hasCheckpoint(b *testEnv) error {
	journals, _ := filepath.Glob(filepath.Join(b.state, "tether", "copies", "*"))
	for _, name := range journals {
		if text, _ := os.ReadFile(name); strings.Contains(string(text), fmt.Sprintf(`"got":%d`, copyCheckpoint)) {
			return nil
		}
	}
	return fmt.Errorf("no checkpoint in %v", journals)
}

// A run that cannot connect leaves the journal of an interrupted copy to the next run.
func TestCopyResumesAfterFailedConnection(t *testing.T) {
	t.Parallel()
	for _, tr := range transfers {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			b, line := newTestEnv(t), cableToServer(t)
			from, to := filepath.Join(b.work, "file"), t.TempDir()
			data := random(t, from, tr.size)
			stopCopy(t, b, line, tr, syscall.SIGINT, from, to) // the line stays cut
			if got := b.tether(nil, tr.args(line.URL(), from, to)...); got.code != exitError {
				t.Errorf("without a connection: %+v", got)
			}
			line.Mend()
			got := b.tether(nil, tr.args(line.URL(), from, to)...)
			if resumed := copyEvents(t, got.stdout)["file"].Resumed; got.code != 0 || resumed < worthResuming {
				t.Errorf("%+v; resumed at %d", got, resumed)
			}
			wantBytes(t, filepath.Join(to, "file"), data)
			onlyFiles(t, filepath.Join(b.state, "tether", "copies"))
		})
	}
}

// A copy that is interrupted before it is connected has no progress to go on with, and does not
// claim it.
func TestCopyInterruptedBeforeConnection(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	held := line.On(cable.FromServer, cable.Answer("initialize"), cable.Hold)
	from := filepath.Join(b.work, "file")
	random(t, from, 8)
	cmd := b.command("cp", "-q", "--url", line.URL(), from, ":"+t.TempDir())
	interruptAt(t, cmd, held)
	onlyFiles(t, filepath.Join(b.state, "tether", "copies"))
}

// interruptAt starts a command, interrupts it when the cable holds a message back, and checks that the
// command ends with that and says no more.
func interruptAt(t *testing.T, cmd *exec.Cmd, held *cable.Rule) {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := held.Await(tethertest.Within(t), 1); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGINT)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || stderr.String() != "tether: interrupted\n" {
		t.Errorf("ended with %v, %q", cmd.ProcessState, stderr.String())
	}
}

// spoilPart changes a byte of the partial file.
func spoilPart(t *testing.T, dir string) {
	t.Helper()
	parts, _ := filepath.Glob(filepath.Join(dir, ".file.*.part"))
	if len(parts) != 1 {
		t.Fatalf("parts: %v", parts)
	}
	f, err := os.OpenFile(parts[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one := make([]byte, 1)
	f.ReadAt(one, 1000)
	one[0]++
	f.WriteAt(one, 1000)
}

// Finished files of a tree are not sent again. If the answer to a commit was lost, the digest shows
// that the file has arrived.
func TestTreeCopyResumes(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	tree, to := filepath.Join(b.work, "tree"), t.TempDir()
	tr := transfer{"tree", true, "tether/upload/commit", 2, worthResuming + 3}
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		random(t, filepath.Join(tree, name), tr.size)
	}
	stopCopy(t, b, line, tr, syscall.SIGINT, tree, to)
	line.Mend()
	got := b.tether(nil, tr.args(line.URL(), tree, to, "--jobs", "1")...)
	events := copyEvents(t, got.stdout)
	if got.code != 0 || len(events) != 4 || events["a"].Resumed+events["b"].Resumed+events["c"].Resumed < 2*worthResuming {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		data, _ := os.ReadFile(filepath.Join(tree, name))
		wantBytes(t, filepath.Join(to, "tree", name), data)
	}
}

// If the session is lost, the copy ends with an exit code and a hint.
func TestCopyLosesItsSession(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	from := filepath.Join(b.work, "file")
	random(t, from, 5<<20)
	line.On(cable.FromServer, cable.Answer("tether/upload/write").Nth(3), cable.SeverBefore)
	line.On(cable.FromServer, cable.Answer("initialize").OnLink(2), cable.Fail(-32600, "unknown session"))
	got := b.tether(nil, "cp", "--url", line.URL(), from, ":"+t.TempDir())
	if got.code != exitError || !strings.HasSuffix(got.stderr, "run the same command again to continue\n") {
		t.Errorf("%+v", got)
	}
}

// The reference has no uploads, so a file that was sent is read back.
func TestCopyToServerWithoutUploads(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	line.On(cable.FromServer, cable.Answer("initialize").Always(), cable.Amend(func(members map[string]any) {
		delete(members["result"].(map[string]any), "tether")
	}))
	reads := line.On(cable.FromServer, cable.Answer("fs/readBlock").Always())
	from, to := filepath.Join(b.work, "file"), t.TempDir()
	data := random(t, from, 9<<20)
	if got := b.tether(nil, "cp", "-q", "--url", line.URL(), from, ":"+to); got != (end{}) || reads.Count() < 36 {
		t.Errorf("%+v, %d blocks read", got, reads.Count())
	}
	wantBytes(t, filepath.Join(to, "file"), data)
}

// Names that would lead out of the destination are refused.
func TestCopyFromMaliciousServer(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	line.On(cable.FromServer, cable.Answer("fs/readDirectory").Always(), cable.Amend(func(members map[string]any) {
		entries := []any{}
		for _, name := range []string{"../evil", "..", "/evil", "", "good"} {
			entries = append(entries, map[string]any{"fileName": name, "isDirectory": false, "isFile": true})
		}
		members["result"] = map[string]any{"entries": entries}
	}))
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	random(t, filepath.Join(from, "good"), 10)
	random(t, filepath.Join(from, "..", "evil"), 10)
	got := b.tether(nil, "cp", "--url", line.URL(), ":"+from, to)
	if got.code != exitError || strings.Count(got.stderr, "an invalid name") != 4 {
		t.Errorf("%+v", got)
	}
	onlyFiles(t, to, "good")
	onlyFiles(t, filepath.Dir(to), "to")
}

// A full disk, and files that may not be read or written, on either side. The program is root of
// a namespace, without the capability to ignore permissions.
func TestCopyRefused(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "--map-root-user", "--mount", "setpriv", "--bounding-set", "-dac_override", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v, %s", err, out)
	}
	b := newTestEnv(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--mount", "sh", "-e", "-c", prepareRefused)
	cmd.Dir, cmd.Env = b.work, append(b.env, "TETHER="+b.self, "TRY="+tryRefused)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != wantRefused {
		t.Errorf("%v, printed:\n%s", err, out)
	}
}

const prepareRefused = `
mkdir full closed both
mount -t tmpfs -o size=3m tmpfs full
head -c 4500000 /dev/urandom >big
head -c 1000000 /dev/urandom >small
cp big small both
echo secret >secret
chmod 000 secret
chmod 555 closed
exec setpriv --bounding-set -dac_override,-dac_read_search sh -e -c "$TRY"
`

const tryRefused = `
export TETHER_URL=unix://$PWD/t.sock
"$TETHER" serve --listen "$TETHER_URL" >serve.out 2>&1 &
server=$!
i=0
# While the server tries its sandboxes, processes that it starts have its open files for a moment: the space of a removed file is free later.
until test -e t.sock && grep -q sandbox serve.out; do
	i=$((i + 1))
	test $i -lt 2000
	sleep 0.05
done
try() {
	code=0
	"$TETHER" "$@" >out 2>err </dev/null || code=$?
	echo "$* => $code $(grep "^tether: " err | grep -v ETA | sed "s|$PWD|DIR|g; s|write [0-9]* bytes at [0-9]*|write N bytes|")"
}
# What fits is copied, what does not is told, and leaves nothing.
try cp --jobs 1 both :full
cmp small full/both/small
ls -A full/both
rm -r full/both
try cp --jobs 1 :both full
cmp small full/both/small
ls -A full/both
# A file that is not replaced stays as it was.
try cp big :full/both/small
cmp small full/both/small
try cp :big full/both/small
cmp small full/both/small
ls -A full/both
try cp :small /dev/full
try cp small :closed
try cp :small closed
try cp secret :taken
try cp :secret taken
try fs cat secret
try fs put - :closed/x
try fs ls closed/x
chmod 000 t.sock
try ps
ls -A closed
kill $server
wait $server || true
`

const wantRefused = `cp --jobs 1 both :full => 1 tether: :DIR/full/both/big: write N bytes: no space left on device
small
cp --jobs 1 :both full => 1 tether: full/both/big: no space left on device
small
cp big :full/both/small => 1 tether: :DIR/full/both/small: write N bytes: no space left on device
cp :big full/both/small => 1 tether: full/both/small: no space left on device
small
cp :small /dev/full => 1 tether: /dev/full: no space left on device
cp small :closed => 1 tether: :DIR/closed/small: permission denied for the user of the server
cp :small closed => 1 tether: closed/small: permission denied
cp secret :taken => 1 tether: secret: permission denied
cp :secret taken => 1 tether: :DIR/secret: permission denied for the user of the server
fs cat secret => 1 tether: secret: permission denied for the user of the server
fs put - :closed/x => 1 tether: :DIR/closed/x: permission denied for the user of the server
fs ls closed/x => 1 tether: closed/x: no such file or directory
ps => 1 tether: cannot connect to unix://DIR/t.sock: permission denied: the socket is for the user who runs the server
`

// On a terminal there is one line that is drawn again, also while the server does not answer, and
// removed at the end.
func TestCopyOnATerminal(t *testing.T) {
	t.Parallel()
	b, s, line := newTestEnv(t), newTestTerminal(t), cableToServer(t)
	t.Cleanup(s.leave)
	from, to := filepath.Join(b.work, "file"), t.TempDir()
	data := random(t, from, 6<<20)
	line.On(cable.FromServer, cable.Answer("tether/upload/write").Nth(4), cable.CutBefore)
	cmd := b.start(s, "cp", "--url", line.URL(), from, ":"+to)
	if drawn := s.until("connection lost, reconnecting ("); !strings.Contains(drawn, "\r\x1b[2K"+"[") || strings.Contains(drawn, "\n") {
		t.Errorf("drawn %q", drawn)
	}
	line.Mend()
	s.until("\r\x1b[2K" + "1 file, 6.0MiB in ")
	s.until("; the connection was lost 1 time\r\n")
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	wantBytes(t, filepath.Join(to, "file"), data)
}

// Two copies to the same place at once do not disturb each other.
func TestConcurrentCopiesToOneTarget(t *testing.T) {
	t.Parallel()
	for _, tr := range transfers {
		t.Run(tr.name, func(t *testing.T) {
			b, line := newTestEnv(t), cableToServer(t)
			from, to := filepath.Join(b.work, "file"), t.TempDir()
			data := random(t, from, 5<<20)
			held := line.On(cable.FromServer, cable.Answer(tr.answer).Nth(3), cable.Hold)
			first := b.command(tr.args(line.URL(), from, to)...)
			var stderr bytes.Buffer
			first.Stderr = &stderr
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := held.Await(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if got := b.tether(nil, tr.args(line.URL(), from, to)...); got.code != 0 {
				t.Errorf("%+v", got)
			}
			wantBytes(t, filepath.Join(to, "file"), data)
			held.Release()
			if err := first.Wait(); err != nil {
				t.Errorf("%v, %s", err, stderr.String())
			}
			wantBytes(t, filepath.Join(to, "file"), data)
			onlyFiles(t, to, "file")
		})
	}
}

// The part of a small file is not kept.
func TestSmallPartIsNotKept(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	from, to := filepath.Join(b.work, "file"), t.TempDir()
	random(t, from, worthResuming-1)
	held := line.On(cable.FromServer, cable.Answer("fs/readBlock").Nth(3), cable.Hold)
	cmd := b.command(transfers[1].args(line.URL(), from, to)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := held.Await(tethertest.Within(t), 1); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGINT)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	onlyFiles(t, to)
}

// Standard input cannot be read again, so no part of it is kept on either side, and no message says
// that the copy could continue.
func TestInterruptedStandardInputIsNotKept(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	url, to := tethertest.StartServer(t, server.Config{}).URL, t.TempDir()
	cmd := b.command("fs", "put", "--url", url, "-", filepath.Join(to, "file"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("some"))
	tethertest.Eventually(t, func() error {
		if spools, _ := filepath.Glob(filepath.Join(b.tmp, "*")); len(spools) != 1 {
			return fmt.Errorf("spools: %v", spools)
		}
		return nil
	})
	cmd.Process.Signal(syscall.SIGINT)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	onlyFiles(t, b.tmp)

	// tether waits at most 2 s for the end of its session. On a busy machine the server then removes the part when it ends
	// the session, after its time to live; a copy asks for a long one.
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{SessionTTL: time.Second, SessionTTLMax: time.Second}).URL)
	held := line.On(cable.FromServer, cable.Answer("tether/upload/write").Nth(2), cable.Hold)
	cmd = b.command("fs", "put", "-q", "--url", line.URL(), "-", filepath.Join(to, "file"))
	cmd.Stdin = bytes.NewReader(make([]byte, worthResuming+1<<20))
	interruptAt(t, cmd, held)
	onlyFiles(t, b.tmp)
	tethertest.Eventually(t, func() error {
		if left, err := os.ReadDir(to); err != nil || len(left) > 0 {
			return fmt.Errorf("left on the server: %v, %v", left, err)
		}
		return nil
	})
}

// The summary has the size of files that the server copied by itself.
func TestCopyOnTheServer(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	from, to := filepath.Join(b.work, "file"), filepath.Join(t.TempDir(), "copy")
	data := random(t, from, 1234)
	got := b.tether(nil, "cp", "--json", "--url", tethertest.StartServer(t, server.Config{}).URL, ":"+from, ":"+to)
	events := copyEvents(t, got.stdout)
	if got.code != 0 || events["file"].Bytes != 1234 || events["."].Bytes != 1234 {
		t.Errorf("%+v", got)
	}
	wantBytes(t, to, data)
}
