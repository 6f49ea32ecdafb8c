//go:build interop

package interop_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// cutLines is 40 MB of output in lines of 15 bytes; in make test 10 MB.
var cutLines = tethertest.Scaled(675_000, 2_700_000)

// paced prints n numbered lines in portions with short pauses, so that the command
// is still printing when the cable is cut and goes on while it is.
func paced(n, portion int, pause string) string {
	return fmt.Sprintf(`i=1; while [ $i -le %d ]; do seq -f LINE-%%09.0f $i $((i+%d-1)); i=$((i+%d)); sleep %s; done`,
		n, portion, portion, pause)
}

// A cutter ends the connection each time the client has received a number of bytes. Its command prints the last part only
// after the last cut.
type cutter struct {
	every, times int
	cut          func(r *codexRun) bool // false: not possible yet
	done         string                 // a file, there after the last cut
}

// newCutter returns a cutter that cuts the cable for a while.
func newCutter(t *testing.T, every, times int, pause time.Duration) cutter {
	return cutter{every, times, func(r *codexRun) bool { r.cable.CutFor(pause); return true }, filepath.Join(t.TempDir(), "done")}
}

// paced returns the command. It prints the last tenth of its output after the cuts.
func (c cutter) paced(n, portion int, pause string) string {
	await := fmt.Sprintf("[ $i -le %d ] || until [ -e %s ]; do sleep 0.02; done; ", n-n/10, c.done)
	return strings.Replace(paced(n, portion, pause), "; do ", "; do "+await, 1)
}

// run makes the cuts. Each waits until the client has reconnected after the one before.
func (c cutter) run(ctx context.Context, r *codexRun) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 1; n <= c.times; n++ {
		for r.recorder.total() < n*c.every || r.cable.Links() < n || !c.cut(r) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
	os.WriteFile(c.done, nil, 0o600) // without it the command does not end
}

// TestCodexSurvivesOneLongCut cuts the connection for five seconds (in make test: for
// one) while the command prints 10 MB a second: nothing may be lost and the command must
// end well.
func TestCodexSurvivesOneLongCut(t *testing.T) {
	t.Parallel()
	program(t, tether)
	c := newCutter(t, 4<<20, 1, tethertest.Scaled(time.Second, 5*time.Second))
	r := runCodex(t, tether, oneCommand(map[string]any{"cmd": c.paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}), c.run)
	r.wantExit(t)
	if links := r.cable.Links(); links < 2 {
		t.Errorf("%d connections: the cut interrupted no connection", links)
	}
	r.wantOutput(t, numbered(cutLines))
}

// TestCodexSurvivesSixCuts does the same with six short ones.
func TestCodexSurvivesSixCuts(t *testing.T) {
	t.Parallel()
	program(t, tether)
	c := newCutter(t, tethertest.Scaled(1<<20, 5<<20), 6, tethertest.Scaled(100*time.Millisecond, 700*time.Millisecond))
	r := runCodex(t, tether, oneCommand(map[string]any{"cmd": c.paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}), c.run)
	r.wantExit(t)
	if links := r.cable.Links(); links < 7 {
		t.Errorf("%d connections, want at least 7", links)
	}
	r.wantOutput(t, numbered(cutLines))
}

// TestCodexSurvivesSixCutsThroughGateways does the same with the server in a fleet of three gateways. Each connection goes through
// another gateway than the one before.
func TestCodexSurvivesSixCutsThroughGateways(t *testing.T) {
	t.Parallel()
	program(t, tether)
	program(t, ref)
	server := startBehindGateways(t, 3)
	t.Cleanup(server.stop)
	c := newCutter(t, tethertest.Scaled(1<<20, 5<<20), 6, tethertest.Scaled(100*time.Millisecond, 700*time.Millisecond))
	r := runCodexAt(t, server, oneCommand(map[string]any{"cmd": c.paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}), c.run)
	r.wantExit(t)
	if links := r.cable.Links(); links < 7 {
		t.Errorf("%d connections, want at least 7", links)
	}
	r.wantOutput(t, numbered(cutLines))
}

// TestCodexShortCutOfAQuietCommand makes a cut that the reference survives too. It shows that the test setup works.
func TestCodexShortCutOfAQuietCommand(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		c := newCutter(t, 60_000, 1, 500*time.Millisecond)
		r := runCodex(t, who, oneCommand(map[string]any{"cmd": c.paced(20_000, 1000, "0.1"), "yield_time_ms": 30000}), c.run)
		r.wantExit(t)
		if links := r.cable.Links(); links < 2 {
			t.Errorf("%d connections: the cut interrupted no connection", links)
		}
		r.wantOutput(t, numbered(20_000))
	})
}

// TestReferenceKillsTheCommandOnACut shows the defect of the reference that the tests above are about. If it fails, the reference
// has been repaired.
func TestReferenceKillsTheCommandOnACut(t *testing.T) {
	t.Parallel()
	referenceOnly(t)
	c := newCutter(t, 4<<20, 1, 5*time.Second)
	r := runCodex(t, ref, oneCommand(map[string]any{"cmd": c.paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}), c.run)
	if strings.Contains(r.last(), "Process exited with code 0") {
		t.Errorf("the command survived:\n%s", r.last())
	}
}
