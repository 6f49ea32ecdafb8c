package mcpserver

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/unifiedexec"
)

const (
	// progressPause is the least time between two notifications of a call: what is
	// printed meanwhile is one.
	progressPause = 50 * time.Millisecond

	// progressSilence is after which a call that prints nothing is said to go on, for
	// clients that give up on silent servers.
	progressSilence = 10 * time.Second

	// maxProgress bounds the text of one notification. What a command prints beyond is
	// in the result only.
	maxProgress = 16 << 10
)

// A progress tells the client of a call what its command prints. Its progress value is
// the time that has passed, in seconds.
type progress struct {
	callID  string // of the call that started the command
	session int    // or the session that the call is about
	silence time.Duration
	notify  func(elapsed time.Duration, text string)

	mu      sync.Mutex
	text    []byte
	skipped int // bytes that did not fit
	changed chan struct{}
}

// watch tells the client about a call until the returned function is called, if it has
// asked for that.
func (d *desk) watch(ctx context.Context, req *mcp.CallToolRequest, callID string, session int) (end func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	p := &progress{callID: callID, session: session, silence: d.config.Silence, changed: make(chan struct{}, 1)}
	p.notify = func(elapsed time.Duration, text string) {
		// A client that is gone is noticed by the call itself.
		req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: elapsed.Seconds(), Message: text})
	}
	d.mu.Lock()
	d.watchers[p] = struct{}{}
	d.mu.Unlock()
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { p.tell(done) }) // ends with done
	return func() {
		d.mu.Lock()
		delete(d.watchers, p)
		d.mu.Unlock()
		close(done)
		telling.Wait()
	}
}

// observe passes output on to the calls that wait for it.
func (d *desk) observe(e unifiedexec.Event) {
	if e.Kind != unifiedexec.Output {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.watchers {
		if p.session == e.Session.ID || p.callID != "" && p.callID == e.Session.CallID {
			p.add(e.Text)
		}
	}
}

// add takes what a command has printed. It does not wait.
func (p *progress) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(text), maxProgress-len(p.text))
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	if p.skipped > 0 {
		n = 0 // what follows a hole would look as if it followed the text
	}
	p.text, p.skipped = append(p.text, text[:n]...), p.skipped+len(text)-n
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// take returns what was printed since the last time.
func (p *progress) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := string(p.text)
	if p.skipped > 0 {
		text += fmt.Sprintf("\n… %d bytes more\n", p.skipped)
	}
	p.text, p.skipped = p.text[:0], 0
	return text
}

// tell sends notifications until done.
func (p *progress) tell(done <-chan struct{}) {
	began := time.Now()
	silence := time.NewTimer(p.silence)
	defer silence.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		text := ""
		select {
		case <-done:
			if text = p.take(); text != "" {
				p.notify(time.Since(began), text)
			}
			return
		case <-silence.C:
			text = fmt.Sprintf("still running after %d s", int(time.Since(began).Seconds()))
		case <-p.changed:
			select {
			case <-pause.C:
			case <-done:
			}
			if text = p.take(); text == "" {
				continue
			}
			pause.Reset(progressPause)
		}
		p.notify(time.Since(began), text)
		silence.Reset(p.silence)
	}
}
