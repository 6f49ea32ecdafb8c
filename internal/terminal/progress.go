package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
)

const (
	// barStep is how often the bar is drawn: often enough to look alive.
	barStep = 100 * time.Millisecond

	// lineStep is how often a line shows the progress if there is no terminal.
	lineStep = 10 * time.Second

	// rateSpan is the time over which the rate is measured: long enough to be
	// readable, short enough to notice that nothing moves.
	rateSpan = 5 * time.Second

	// barWidth is the width of the bar without its ends; narrow terminals have a shorter one.
	barWidth = 24
)

// escClearLine goes to the start of the line and empties it.
const escClearLine = "\r\x1b[2K"

// A Progress shows the progress of a copy: on a terminal in one line that is drawn again and
// again, elsewhere in a plain line from time to time. It is safe for concurrent use. A goroutine
// draws until Close.
type Progress struct {
	to       io.Writer
	terminal bool
	quiet    bool
	width    func() int

	stop    chan struct{}
	drawing sync.WaitGroup

	mu     sync.Mutex
	copy   copyState
	lost   time.Time // when the connection was lost; zero while connected
	reason string    // why it was lost; may be empty
	drawn  bool
}

// A copyState is the progress of a copy.
type copyState struct {
	now       func() time.Time
	started   time.Time
	planned   bool
	files     int
	filesDone int
	total     int64
	done      int64
	resumed   int64 // the part of done that an earlier run copied
	current   string
	samples   []sample // of the last rateSpan, oldest first
}

// A sample is the progress at a time.
type sample struct {
	at    time.Time
	bytes int64
}

func NewProgress(stderr io.Writer, quiet bool) *Progress {
	p := &Progress{to: stderr, terminal: Is(stderr), quiet: quiet, stop: make(chan struct{})}
	p.width = func() int {
		f, ok := stderr.(*os.File)
		if !ok {
			return 80
		}
		if _, cols := Size(f); cols > 0 {
			return int(cols)
		}
		return 80
	}
	p.copy.now = time.Now
	p.copy.started = p.copy.now()
	if !quiet {
		p.drawing.Go(p.draw)
	}
	return p
}

func (p *Progress) draw() {
	step := lineStep
	if p.terminal {
		step = barStep
	}
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		p.copy.measure()
		switch {
		case p.terminal:
			p.drawn = true
			io.WriteString(p.to, escClearLine+p.line(p.width()-1))
		case p.copy.planned:
			fmt.Fprintf(p.to, "tether: %s\n", p.line(0))
		}
		p.mu.Unlock()
	}
}

// Close removes the line; nothing is drawn after it.
func (p *Progress) Close() {
	if p.quiet {
		return
	}
	close(p.stop)
	p.drawing.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
}

// hide removes the line. The caller holds p.mu.
func (p *Progress) hide() {
	if p.drawn {
		io.WriteString(p.to, escClearLine)
		p.drawn = false
	}
}

// Say prints a line that stays.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	fmt.Fprintf(p.to, format+"\n", args...)
}

// Plan sets the size of the whole copy.
func (p *Progress) Plan(files int, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copy.planned, p.copy.files, p.copy.total = true, files, total
	p.copy.started, p.copy.samples = p.copy.now(), nil
}

// Begin says which file is copied now.
func (p *Progress) Begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copy.current = Name(name)
}

// Add counts copied bytes; n is negative when a file begins again.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copy.done += n
}

// Resize corrects the total: a file has another size than it had when it was planned.
func (p *Progress) Resize(by int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copy.total += by
}

// Skip counts bytes that were copied earlier.
func (p *Progress) Skip(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copy.done += n
	p.copy.resumed += n
}

// Finish counts a file.
func (p *Progress) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copy.filesDone++
}

// Tell is client.Options.OnState.
func (p *Progress) Tell(status client.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch status.State {
	case client.Connecting:
		if status.Attempt == 1 && !p.quiet {
			p.hide()
			fmt.Fprintf(p.to, "tether: %s\n", connectingText(status))
		}
	case client.Recovering:
		p.reason = status.Reason()
		if p.lost.IsZero() {
			p.lost = p.copy.now()
		}
	case client.Connected:
		p.lost = time.Time{}
	}
}

// measure takes a sample.
func (c *copyState) measure() {
	now := c.now()
	c.samples = append(c.samples, sample{now, c.done - c.resumed})
	for len(c.samples) > 2 && now.Sub(c.samples[1].at) >= rateSpan {
		c.samples = c.samples[1:]
	}
}

// rate returns the recent rate in bytes per second, or 0 if it is unknown.
func (c *copyState) rate() float64 {
	if len(c.samples) == 0 {
		return 0
	}
	first, last := c.samples[0], c.samples[len(c.samples)-1]
	span := last.at.Sub(first.at)
	if span <= 0 || last.bytes <= first.bytes {
		return 0
	}
	return float64(last.bytes-first.bytes) / span.Seconds()
}

// line returns the progress in at most width columns; 0 means no bar and any width. The caller
// holds p.mu.
func (p *Progress) line(width int) string {
	if !p.copy.planned {
		return Cut("listing the files to copy", width)
	}
	parts := []string{p.copy.percent(), Bytes(uint64(max(p.copy.done, 0))) + "/" + Bytes(uint64(p.copy.total))}
	if p.copy.files > 1 {
		parts = append(parts, fmt.Sprintf("%d/%d files", p.copy.filesDone, p.copy.files))
	}
	if away := p.copy.now().Sub(p.lost); !p.lost.IsZero() && away >= statusDelay {
		parts = append(parts, outageText(away, p.reason))
	} else if rate := p.copy.rate(); rate > 0 {
		parts = append(parts, Bytes(uint64(rate))+"/s", "ETA "+clock(time.Duration(float64(max(p.copy.total-p.copy.done, 0))/rate*float64(time.Second))))
	} else {
		parts = append(parts, "-/s", "ETA -:--")
	}
	text := strings.Join(parts, "  ")
	if width <= 0 {
		return text
	}
	room := width - Width(text) - len("[] ")
	if bar := min(barWidth, room); bar >= 5 {
		text = p.copy.bar(bar) + " " + text
		room -= bar
	}
	if room -= len("  "); room >= 8 && p.copy.current != "" {
		text += "  " + Cut(p.copy.current, room)
	}
	return Cut(text, width)
}

// share is the part that is done, from 0 to 1.
func (c *copyState) share() float64 {
	if c.total <= 0 {
		return 1
	}
	return min(1, max(0, float64(c.done)/float64(c.total)))
}

func (c *copyState) percent() string { return fmt.Sprintf("%3d%%", int(c.share()*100)) }

func (c *copyState) bar(width int) string {
	full := int(c.share() * float64(width))
	bar := strings.Repeat("=", full)
	if full < width {
		bar += ">" + strings.Repeat(" ", width-full-1)
	}
	return "[" + bar + "]"
}

// Bar reports whether the progress uses a line of a terminal.
func (p *Progress) Bar() bool { return p.terminal && !p.quiet }

// Totals returns how many files and bytes were copied, and how long it took.
func (p *Progress) Totals() (files int, bytes int64, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.copy.filesDone, p.copy.done, p.copy.now().Sub(p.copy.started)
}

// Summary returns the result of the copy in one line.
func (p *Progress) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	took, copied := p.copy.now().Sub(p.copy.started), max(p.copy.done-p.copy.resumed, 0)
	text := fmt.Sprintf("%s, %s in %s", Plural(p.copy.filesDone, "file"), Bytes(uint64(copied)), Span(took))
	if took >= time.Second {
		text += fmt.Sprintf(" (%s/s)", Bytes(uint64(float64(copied)/took.Seconds())))
	}
	if p.copy.resumed > 0 {
		text += fmt.Sprintf("; %s were copied by an earlier run", Bytes(uint64(p.copy.resumed)))
	}
	return text
}

// clock formats a remaining time: 0:09, 12:30, 3:04:05.
func clock(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	if s >= 100*3600 {
		return "-:--"
	}
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
