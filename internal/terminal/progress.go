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

	// lineStep is how often a line tells of a copy where there is no terminal.
	lineStep = 10 * time.Second

	// rateSpan is the time over which the rate is measured: long enough to be
	// readable, short enough to notice that nothing moves.
	rateSpan = 5 * time.Second

	// barWidth is the bar's, without its ends; narrow terminals have a shorter one.
	barWidth = 24
)

// escClearLine goes to the start of the line and empties it.
const escClearLine = "\r\x1b[2K"

// A Progress tells people how a copy is going: on a terminal by one line that is drawn
// again and again, elsewhere by a plain line now and then. It is safe for concurrent
// use. A goroutine draws until close.
type Progress struct {
	to       io.Writer
	terminal bool
	quiet    bool
	now      func() time.Time
	width    func() int

	stop    chan struct{}
	drawing sync.WaitGroup

	mu        sync.Mutex
	started   time.Time
	planned   bool
	files     int
	filesDone int
	total     int64
	done      int64
	resumed   int64 // of done: not copied now
	current   string
	samples   []sample // of the last rateSpan, oldest first
	lost      time.Time
	reason    string // why; may be empty
	drawn     bool
}

// A sample is how far the copy was at a time.
type sample struct {
	at    time.Time
	bytes int64
}

func NewProgress(stderr io.Writer, quiet bool) *Progress {
	p := &Progress{to: stderr, terminal: Is(stderr), quiet: quiet, now: time.Now, stop: make(chan struct{})}
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
	p.started = p.now()
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
		p.measure()
		switch {
		case p.terminal:
			p.drawn = true
			io.WriteString(p.to, escClearLine+p.line(p.width()-1))
		case p.planned:
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

// hide removes the line. The caller has p.mu.
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

// Plan says what there is to do.
func (p *Progress) Plan(files int, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned, p.files, p.total = true, files, total
	p.started, p.samples = p.now(), nil
}

// Begin says which file is copied now.
func (p *Progress) Begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = Name(name)
}

// Add counts bytes; the number is negative when a file begins again.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
}

// Resize corrects the total: a file has another size than it had when it was planned.
func (p *Progress) Resize(by int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += by
}

// Skip counts bytes that were copied earlier.
func (p *Progress) Skip(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	p.resumed += n
}

// Finish counts a file.
func (p *Progress) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filesDone++
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
			p.lost = p.now()
		}
	case client.Connected:
		p.lost = time.Time{}
	}
}

// measure takes a sample. The caller has p.mu.
func (p *Progress) measure() {
	now := p.now()
	p.samples = append(p.samples, sample{now, p.done - p.resumed})
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateSpan {
		p.samples = p.samples[1:]
	}
}

// rate is in bytes per second, lately; 0: not known. The caller has p.mu.
func (p *Progress) rate() float64 {
	if len(p.samples) == 0 {
		return 0
	}
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	span := last.at.Sub(first.at)
	if span <= 0 || last.bytes <= first.bytes {
		return 0
	}
	return float64(last.bytes-first.bytes) / span.Seconds()
}

// line is all that is known, in at most width columns; 0: no bar, any width. The
// caller has p.mu.
func (p *Progress) line(width int) string {
	if !p.planned {
		return Cut("looking what there is to copy", width)
	}
	parts := []string{p.percent(), Bytes(uint64(max(p.done, 0))) + "/" + Bytes(uint64(p.total))}
	if p.files > 1 {
		parts = append(parts, fmt.Sprintf("%d/%d files", p.filesDone, p.files))
	}
	if away := p.now().Sub(p.lost); !p.lost.IsZero() && away >= statusDelay {
		parts = append(parts, outageText(away, p.reason))
	} else if rate := p.rate(); rate > 0 {
		parts = append(parts, Bytes(uint64(rate))+"/s", "ETA "+clock(time.Duration(float64(max(p.total-p.done, 0))/rate*float64(time.Second))))
	} else {
		parts = append(parts, "-/s", "ETA -:--")
	}
	text := strings.Join(parts, "  ")
	if width <= 0 {
		return text
	}
	room := width - Width(text) - len("[] ")
	if bar := min(barWidth, room); bar >= 5 {
		text = p.bar(bar) + " " + text
		room -= bar
	}
	if room -= len("  "); room >= 8 && p.current != "" {
		text += "  " + Cut(p.current, room)
	}
	return Cut(text, width)
}

// share is what is done, from 0 to 1.
func (p *Progress) share() float64 {
	if p.total <= 0 {
		return 1
	}
	return min(1, max(0, float64(p.done)/float64(p.total)))
}

func (p *Progress) percent() string { return fmt.Sprintf("%3d%%", int(p.share()*100)) }

func (p *Progress) bar(width int) string {
	full := int(p.share() * float64(width))
	bar := strings.Repeat("=", full)
	if full < width {
		bar += ">" + strings.Repeat(" ", width-full-1)
	}
	return "[" + bar + "]"
}

// Bar reports whether the progress has a line of a terminal for itself.
func (p *Progress) Bar() bool { return p.terminal && !p.quiet }

// Totals returns how many files and bytes were copied, and in what time.
func (p *Progress) Totals() (files int, bytes int64, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.filesDone, p.done, p.now().Sub(p.started)
}

// Summary is what was done in the end.
func (p *Progress) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	took, copied := p.now().Sub(p.started), max(p.done-p.resumed, 0)
	text := fmt.Sprintf("%s, %s in %s", Plural(p.filesDone, "file"), Bytes(uint64(copied)), Span(took))
	if took >= time.Second {
		text += fmt.Sprintf(" (%s/s)", Bytes(uint64(float64(copied)/took.Seconds())))
	}
	if p.resumed > 0 {
		text += fmt.Sprintf("; %s were there already", Bytes(uint64(p.resumed)))
	}
	return text
}

// clock is a time to wait: 0:09, 12:30, 3:04:05.
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
