package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/span"
)

const (
	maxSpans  = 4096             // that wait for the collector
	maxBatch  = 512              // spans in one request
	batchTime = time.Second      // how long a span waits for others
	sendTime  = 10 * time.Second // limits one request
	attempts  = 4                // for a batch
	firstWait = time.Second      // before the second attempt; each further wait is twice as long
	maxAnswer = 64 << 10         // bytes of an answer that are read
)

// Config says where spans are exported to.
type Config struct {
	// Endpoint is the URL of a collector: http://localhost:4318. The path /v1/traces is added, unless it is there.
	Endpoint string
	Version  string // of this program
	Log      *slog.Logger
}

// An Exporter is a span.Recorder that exports spans in batches. Its goroutine begins with the first span.
type Exporter struct {
	config     Config
	url        string
	attributes []attribute // of the resource
	http       *http.Client
	more       chan struct{} // has an element if there may be spans
	full       chan struct{} // has an element if there may be a whole batch
	closing    chan struct{} // closed by Close
	ended      chan struct{} // closed when the goroutine has ended
	ctx        context.Context
	cancel     context.CancelFunc // ends requests

	mu       sync.Mutex // guards the fields below
	running  bool       // the goroutine has begun
	closed   bool
	waiting  []*span.Span
	exported uint64
	dropped  uint64

	failing bool // the last batch was not exported; only for the goroutine
}

// New returns an exporter that has no connection yet. Close it.
func New(c Config) (*Exporter, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("expected the URL of a collector, such as http://localhost:4318")
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1", "traces")
	}
	e := &Exporter{
		config: c, url: u.String(), attributes: []attribute{text("service.name", "tether"), text("service.version", c.Version)},
		more: make(chan struct{}, 1), full: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
		http: &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if name, err := os.Hostname(); err == nil {
		e.attributes = append(e.attributes, text("host.name", name))
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// Record implements span.Recorder.
func (e *Exporter) Record(s *span.Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || len(e.waiting) >= maxSpans {
		e.dropped++
		return
	}
	if !e.running {
		e.running = true
		go e.run() // Close waits for it
	}
	e.waiting = append(e.waiting, s)
	signal(e.more)
	if len(e.waiting) >= maxBatch {
		signal(e.full)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Counts implements span.Recorder.
func (e *Exporter) Counts() (exported, dropped uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.exported, e.dropped
}

// Close exports the spans that wait, with one attempt for each batch, until ctx ends.
func (e *Exporter) Close(ctx context.Context) {
	e.mu.Lock()
	first, running := !e.closed, e.running
	e.closed = true
	e.mu.Unlock()
	if first {
		close(e.closing)
	}
	if running {
		stop := context.AfterFunc(ctx, e.cancel)
		<-e.ended
		stop()
	}
	e.cancel()
	e.http.CloseIdleConnections()
}

// run exports spans until Close.
func (e *Exporter) run() {
	defer close(e.ended)
	for closing := false; !closing; {
		select {
		case <-e.more:
			closing = e.wait(batchTime, e.full)
		case <-e.closing:
			closing = true
		}
		for batch := e.next(); len(batch) > 0; batch = e.next() {
			e.export(batch)
		}
	}
}

// wait waits for a time, until early has an element, or until Close, which it reports.
func (e *Exporter) wait(d time.Duration, early <-chan struct{}) (closing bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-early:
	case <-e.closing:
		return true
	}
	return false
}

// next takes a batch of spans.
func (e *Exporter) next() []*span.Span {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(len(e.waiting), maxBatch)
	batch := e.waiting[:n:n]
	if e.waiting = e.waiting[n:]; len(e.waiting) == 0 {
		e.waiting = nil // frees the spans
	}
	return batch
}

// export sends a batch, and again if the collector may take it later.
func (e *Exporter) export(batch []*span.Span) {
	body := e.encode(batch)
	pause := firstWait
	rejected, again, err := e.send(body)
	for attempt := 1; err != nil && again && attempt < attempts && !e.wait(pause, nil); attempt++ {
		pause *= 2
		rejected, again, err = e.send(body)
	}
	if err != nil {
		rejected = uint64(len(batch))
	}
	rejected = min(rejected, uint64(len(batch)))
	e.mu.Lock()
	e.dropped += rejected
	e.exported += uint64(len(batch)) - rejected
	e.mu.Unlock()
	switch {
	case err != nil && !e.failing:
		e.config.Log.Warn("spans are lost: the collector does not take them", "err", err)
	case err == nil && e.failing:
		e.config.Log.Info("the collector takes spans again")
	}
	e.failing = err != nil
}

// send makes one request. again says that another one may succeed.
func (e *Exporter) send(body []byte) (rejected uint64, again bool, err error) {
	ctx, cancel := context.WithTimeout(e.ctx, sendTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "tether/"+e.config.Version)
	answer, err := e.http.Do(r)
	if err != nil {
		return 0, true, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests || code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout:
		return 0, true, errors.New(answer.Status)
	case code/100 != 2:
		return 0, false, fmt.Errorf("the answer of the collector is %s", answer.Status)
	case err != nil:
		return 0, true, err
	}
	var parsed exportResponse
	if json.Unmarshal(text, &parsed) != nil {
		return 0, false, nil // another form of success
	}
	rejected, _ = strconv.ParseUint(strings.Trim(string(parsed.PartialSuccess.RejectedSpans), `"`), 10, 64) // "" is 0
	return rejected, false, nil
}
