package mcpserver

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tetherexec/tether/internal/wake"
	"github.com/tetherexec/tether/unifiedexec"
)

const (
	// progressPause is the least time between two notifications of a call; output meanwhile is in
	// one notification.
	progressPause = 50 * time.Millisecond

	// progressSilence is the time without output after which a notification says that the call
	// still runs, for clients that give up on silent servers.
	progressSilence = 10 * time.Second

	// maxProgress bounds the text of one notification. Output beyond it is only in the result.
	maxProgress = 16 << 10
)

// A progress sends the output of a command to the client of a call. The progress value is the
// time since the call, in seconds.
type progress struct {
	callID  string // of the call that started the command
	session int    // or the session that the call is about
	silence time.Duration
	notify  func(elapsed time.Duration, text string)

	mu      sync.Mutex
	text    []byte
	skipped int // bytes that did not fit
	changed wake.Signal
}

// watch sends progress notifications for a call until end is called, if the client has asked for
// them.
func (m *mcpSession) watch(ctx context.Context, req *mcp.CallToolRequest, callID string, session int) (end func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	p := &progress{callID: callID, session: session, silence: m.config.Silence, changed: wake.New()}
	p.notify = func(elapsed time.Duration, text string) {
		// Errors are ignored: the call itself notices if the client is gone.
		req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: elapsed.Seconds(), Message: text})
	}
	m.mu.Lock()
	m.watchers[p] = struct{}{}
	m.mu.Unlock()
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { p.tell(done) }) // ends with done
	return func() {
		m.mu.Lock()
		delete(m.watchers, p)
		m.mu.Unlock()
		close(done)
		telling.Wait()
	}
}

// observe passes output on to the calls that report it.
func (m *mcpSession) observe(e unifiedexec.Event) {
	if e.Kind != unifiedexec.Output {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.watchers {
		if p.session == e.Session.ID || p.callID != "" && p.callID == e.Session.CallID {
			p.add(e.Text)
		}
	}
}

// add takes output of a command. It does not block.
func (p *progress) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(text), maxProgress-len(p.text))
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	if p.skipped > 0 {
		n = 0 // after skipped bytes, no more text fits in this notification
	}
	p.text, p.skipped = append(p.text, text[:n]...), p.skipped+len(text)-n
	p.changed.Send()
}

// take returns the output since the last call.
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
