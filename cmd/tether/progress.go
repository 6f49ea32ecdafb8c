package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

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

// A progress tells people how a copy is going: on a terminal by one line that is drawn
// again and again, elsewhere by a plain line now and then. It is safe for concurrent
// use. A goroutine draws until close.
type progress struct {
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

func newProgress(stderr io.Writer, quiet bool) *progress {
	p := &progress{to: stderr, terminal: isTerminal(stderr), quiet: quiet, now: time.Now, stop: make(chan struct{})}
	p.width = func() int {
		f, ok := stderr.(*os.File)
		if !ok {
			return 80
		}
		if _, cols := terminalSize(f); cols > 0 {
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

func (p *progress) draw() {
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

// close takes the line away and draws no more.
func (p *progress) close() {
	if p.quiet {
		return
	}
	close(p.stop)
	p.drawing.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
}

// hide takes the line away. The caller has p.mu.
func (p *progress) hide() {
	if p.drawn {
		io.WriteString(p.to, escClearLine)
		p.drawn = false
	}
}

// say prints a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hide()
	fmt.Fprintf(p.to, format+"\n", args...)
}

// plan says what there is to do.
func (p *progress) plan(files int, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned, p.files, p.total = true, files, total
	p.started, p.samples = p.now(), nil
}

// begin says which file is copied now.
func (p *progress) begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = name
}

// add counts bytes; there are fewer than none when a file begins again.
func (p *progress) add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
}

// resize corrects the total: a file has another size than it had when it was planned.
func (p *progress) resize(by int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += by
}

// skip counts bytes that were copied earlier.
func (p *progress) skip(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	p.resumed += n
}

// finish counts a file.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filesDone++
}

// tell is client.Options.OnState.
func (p *progress) tell(status client.Status) {
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
func (p *progress) measure() {
	now := p.now()
	p.samples = append(p.samples, sample{now, p.done - p.resumed})
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateSpan {
		p.samples = p.samples[1:]
	}
}

// rate is in bytes per second, lately; 0: not known. The caller has p.mu.
func (p *progress) rate() float64 {
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
func (p *progress) line(width int) string {
	if !p.planned {
		return cutTo("looking what there is to copy", width)
	}
	parts := []string{p.percent(), sizeText(uint64(max(p.done, 0))) + "/" + sizeText(uint64(p.total))}
	if p.files > 1 {
		parts = append(parts, fmt.Sprintf("%d/%d files", p.filesDone, p.files))
	}
	if away := p.now().Sub(p.lost); !p.lost.IsZero() && away >= statusDelay {
		parts = append(parts, outageText(away, p.reason))
	} else if rate := p.rate(); rate > 0 {
		parts = append(parts, sizeText(uint64(rate))+"/s", "ETA "+clock(time.Duration(float64(max(p.total-p.done, 0))/rate*float64(time.Second))))
	} else {
		parts = append(parts, "-/s", "ETA -:--")
	}
	text := strings.Join(parts, "  ")
	if width <= 0 {
		return text
	}
	room := width - len(text) - len("[] ")
	if bar := min(barWidth, room); bar >= 5 {
		text = p.bar(bar) + " " + text
		room -= bar
	}
	if room -= len("  "); room >= 8 && p.current != "" {
		text += "  " + cutTo(p.current, room)
	}
	return cutTo(text, width)
}

// share is what is done, from 0 to 1.
func (p *progress) share() float64 {
	if p.total <= 0 {
		return 1
	}
	return min(1, max(0, float64(p.done)/float64(p.total)))
}

func (p *progress) percent() string { return fmt.Sprintf("%3d%%", int(p.share()*100)) }

func (p *progress) bar(width int) string {
	full := int(p.share() * float64(width))
	bar := strings.Repeat("=", full)
	if full < width {
		bar += ">" + strings.Repeat(" ", width-full-1)
	}
	return "[" + bar + "]"
}

// summary is what was done in the end.
func (p *progress) summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	took, copied := p.now().Sub(p.started), max(p.done-p.resumed, 0)
	text := fmt.Sprintf("%s, %s in %s", plural(p.filesDone, "file"), sizeText(uint64(copied)), shortTime(took))
	if took >= time.Second {
		text += fmt.Sprintf(" (%s/s)", sizeText(uint64(float64(copied)/took.Seconds())))
	}
	if p.resumed > 0 {
		text += fmt.Sprintf("; %s were there already", sizeText(uint64(p.resumed)))
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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

// cutTo shortens a text to so many characters; 0 or less: any number.
func cutTo(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// nameText is a name for people. One that could be misread, or could do something to a
// terminal, is quoted.
func nameText(name string) string {
	for _, r := range name {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}
