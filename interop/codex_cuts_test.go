//go:build interop

package interop_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// cutLines is 40 MB of output in lines of 15 bytes.
const cutLines = 2_700_000

// paced prints n numbered lines in portions with short pauses, so that the command
// is still printing when the cable is cut and goes on while it is.
func paced(n, portion int, pause string) string {
	return fmt.Sprintf(`i=1; while [ $i -le %d ]; do seq -f LINE-%%09.0f $i $((i+%d-1)); i=$((i+%d)); sleep %s; done`,
		n, portion, portion, pause)
}

// cutWhen cuts the cable for d each time the client has got so many bytes more.
func cutWhen(every int, times int, d time.Duration) func(ctx context.Context, r *codexRun) {
	return func(ctx context.Context, r *codexRun) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 1; n <= times; n++ {
			for r.recorder.total() < n*every {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
			r.cable.CutFor(d)
		}
	}
}

// TestCodexSurvivesOneLongCut cuts the connection for five seconds while the
// command prints 40 MB: nothing may be lost and the command must end well.
func TestCodexSurvivesOneLongCut(t *testing.T) {
	program(t, tether)
	r := runCodex(t, tether, oneCommand(map[string]any{"cmd": paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}),
		cutWhen(4<<20, 1, 5*time.Second))
	r.wantExit(t)
	if links := r.cable.Links(); links < 2 {
		t.Errorf("%d connections: the cut hit nothing", links)
	}
	r.wantOutput(t, numbered(cutLines))
}

// TestCodexSurvivesSixCuts does the same with six short ones.
func TestCodexSurvivesSixCuts(t *testing.T) {
	program(t, tether)
	r := runCodex(t, tether, oneCommand(map[string]any{"cmd": paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}),
		cutWhen(5<<20, 6, 700*time.Millisecond))
	r.wantExit(t)
	if links := r.cable.Links(); links < 7 {
		t.Errorf("%d connections, want at least 7", links)
	}
	r.wantOutput(t, numbered(cutLines))
}

// TestCodexShortCutOfAQuietCommand is a cut that the reference survives too: it
// shows that the harness itself can.
func TestCodexShortCutOfAQuietCommand(t *testing.T) {
	onProducts(t, func(t *testing.T, who product) {
		r := runCodex(t, who, oneCommand(map[string]any{"cmd": paced(20_000, 1000, "0.1"), "yield_time_ms": 30000}),
			cutWhen(60_000, 1, 500*time.Millisecond))
		r.wantExit(t)
		if links := r.cable.Links(); links < 2 {
			t.Errorf("%d connections: the cut hit nothing", links)
		}
		r.wantOutput(t, numbered(20_000))
	})
}

// TestReferenceKillsTheCommandOnACut states the reference's defect that the tests
// above are about. When it fails, the reference has got better.
func TestReferenceKillsTheCommandOnACut(t *testing.T) {
	program(t, ref)
	r := runCodex(t, ref, oneCommand(map[string]any{"cmd": paced(cutLines, 67_500, "0.1"), "yield_time_ms": 30000}),
		cutWhen(4<<20, 1, 5*time.Second))
	if strings.Contains(r.last(), "Process exited with code 0") {
		t.Errorf("the command survived:\n%s", r.last())
	}
}
