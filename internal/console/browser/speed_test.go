package browser

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/tethertest"
)

// The goals of the page. With TETHER_SOAK=1, on a machine that does nothing else, the tests check them; otherwise they print the figures of a short run.
const (
	mostPaint  = 300 // ms until the first paint, on loopback
	mostEcho   = 100 // ms from a key to the picture with its letter
	mostMemory = 300 // MB of the page's process
	leastRate  = 0.9 // of a command that the page watches
	mostFrame  = 34  // ms: 30 pictures a second while the list scrolls
)

// A command prints 50 MB/s, in lines, for some seconds, and the page that watches it stays usable: it says that it skips, its memory is bounded, a
// key is seen at once, and the command is not slowed down.
func TestFlood(t *testing.T) {
	took := tethertest.Scaled(2*time.Second, time.Minute)
	if !tethertest.Soak() {
		t.Parallel()
	}
	r := newRig(t, console.Config{})
	file := t.TempDir() + "/lines"
	if err := os.WriteFile(file, []byte(strings.Repeat("a line of output, as a program prints it when it is in a hurry\n", 80_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	paint := eval[float64](r, `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0`)
	alone := r.flood("alone", file, took/2, func() {})
	var echo []float64
	var memory uint64
	watched := r.flood("watched", file, took, func() {
		r.choose("watched")
		r.wait("that it skips", `document.querySelector(".mode").textContent.startsWith("Too fast to read")`)
		echo = r.echoes()
		memory = r.memory()
		if lines := eval[int](r, `document.querySelectorAll(".xterm-rows > div").length`); lines > 200 {
			t.Errorf("the page has %d lines of a terminal", lines)
		}
	})
	t.Logf("first paint %.0f ms; a key is seen after %.0f ms (median), %.0f ms (9 of 10); the page's process has %d MB; rate %.1f MB/s, alone %.1f MB/s: %.3f",
		paint, echo[len(echo)/2], echo[len(echo)*9/10], memory, watched, alone, watched/alone)
	if tethertest.Soak() && (paint > mostPaint || echo[len(echo)/2] > mostEcho || memory > mostMemory || watched < leastRate*alone) {
		t.Error("a goal is not reached")
	}
	r.clean()
}

// flood runs a command that prints 50 MB/s, for a while and until something beside it is done. It returns the rate at which its own client got the output, in MB/s.
func (r *rig) flood(name, file string, during time.Duration, beside func()) float64 {
	r.t.Helper()
	rounds, gate := int(during/(100*time.Millisecond)), filepath.Join(r.t.TempDir(), "gate")
	// 5 MB ten times a second.
	p := r.start(client.Command{Argv: []string{"sh", "-c", fmt.Sprintf(`: %s; i=0; while [ $i -lt %d ] || [ ! -e %s ]; do i=$((i+1)); sleep 0.1 & cat %s; wait; done`, name, rounds, gate, file)}})
	done := make(chan float64, 1)
	began := time.Now()
	go func() { // flood waits for it
		n, _ := io.Copy(io.Discard, p.Output())
		done <- float64(n) / 1e6 / time.Since(began).Seconds()
	}()
	beside()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return <-done
}

// echoes types into the filter of the list, and measures the time from each key to the frame after the one in which the page has drawn its letter, in ms, sorted.
func (r *rig) echoes() []float64 {
	r.t.Helper()
	r.run(`window.echoes = [];
		addEventListener("input", (event) => requestAnimationFrame(() => requestAnimationFrame(() => echoes.push(performance.now() - event.timeStamp))), true)`)
	r.press(0, "/")
	r.wait("the filter", `document.activeElement.classList.contains("filter")`)
	const keys = 20
	for i := range keys {
		r.press(0, "l")
		r.wait("the letter", fmt.Sprintf("echoes.length === %d", i+1))
	}
	r.press(0, "Escape")
	echoes := eval[[]float64](r, "echoes")
	slices.Sort(echoes)
	return echoes
}

// memory is the resident memory of the largest process of a page, in MB.
func (r *rig) memory() (most uint64) {
	r.t.Helper()
	r.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		info, err := cdp.Call(ctx, chromedp.FromContext(ctx).Browser, systeminfo.GetProcessInfo, cdp.Empty{})
		if err != nil {
			return err
		}
		for _, process := range info.ProcessInfo {
			if process.Type != "renderer" {
				continue
			}
			statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", process.ID))
			if err != nil {
				continue // it has just ended
			}
			fields := strings.Fields(string(statm))
			if pages, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				most = max(most, pages*uint64(os.Getpagesize())/1e6)
			}
		}
		return nil
	}))
	return most
}
