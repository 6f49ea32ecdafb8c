package otlp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/span"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A collector answers requests for traces.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
	answer func(number int, w http.ResponseWriter) // nil: success
}

func newCollector(t *testing.T, answer func(int, http.ResponseWriter)) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v: %v", r.Method, r.URL, r.Header, err)
		}
		c.mu.Lock()
		c.bodies = append(c.bodies, string(body))
		number := len(c.bodies)
		c.mu.Unlock()
		if c.answer != nil {
			c.answer(number, w)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// requests returns the bodies of the requests.
func (c *collector) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.bodies...)
}

func (c *collector) exporter(t *testing.T) *Exporter {
	t.Helper()
	e, err := New(Config{Endpoint: c.URL, Version: "1.2", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *Exporter) end(t *testing.T) (exported, dropped uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang.Limit)
	defer cancel()
	e.Close(ctx)
	return e.Counts()
}

// The collector gets each span once, in the form of the protocol.
func TestExport(t *testing.T) {
	t.Parallel()
	c := newCollector(t, nil)
	e := c.exporter(t)
	at := time.Unix(1700000000, 5)
	e.Record(&span.Span{
		Trace: "0af7651916cd43dd8448eb211c80319c", ID: "b7ad6b7169203331", Parent: "00f067aa0ba902b7", State: "a=1", Name: "process/start", Served: true,
		Begin: at, End: at.Add(time.Second), Facts: []span.Fact{{Key: "rpc.system", Text: "jsonrpc"}, {Key: "code", Number: -3}}, Failure: "no such file",
	})
	e.Record(&span.Span{Trace: "0af7651916cd43dd8448eb211c80319c", ID: "00f067aa0ba902b8", Name: "command", Begin: at, End: at})
	if exported, dropped := e.end(t); exported != 2 || dropped != 0 {
		t.Errorf("%d spans exported, %d dropped", exported, dropped)
	}
	bodies := c.requests()
	if len(bodies) != 1 {
		t.Fatalf("%d requests", len(bodies))
	}
	for _, want := range []string{
		`{"key":"service.name","value":{"stringValue":"tether"}},{"key":"service.version","value":{"stringValue":"1.2"}}`,
		`"scope":{"name":"tether","version":"1.2"}`,
		`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","traceState":"a=1","parentSpanId":"00f067aa0ba902b7","name":"process/start","kind":2,` +
			`"startTimeUnixNano":"1700000000000000005","endTimeUnixNano":"1700000001000000005",` +
			`"attributes":[{"key":"rpc.system","value":{"stringValue":"jsonrpc"}},{"key":"code","value":{"intValue":"-3"}}],"status":{"code":2,"message":"no such file"}}`,
		`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"00f067aa0ba902b8","name":"command","kind":1,"startTimeUnixNano":"1700000000000000005","endTimeUnixNano":"1700000000000000005","status":{}}`,
	} {
		if !strings.Contains(bodies[0], want) {
			t.Errorf("the request lacks %s:\n%s", want, bodies[0])
		}
	}
	e.Record(&span.Span{})
	if _, dropped := e.Counts(); dropped != 1 {
		t.Errorf("%d spans were dropped after the end", dropped)
	}
}

// The spans that wait for a collector have a limit, and recording them does not wait for it. The end does not wait longer than its caller wants.
func TestCollectorThatHangs(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c := newCollector(t, func(int, http.ResponseWriter) {
		once.Do(func() { close(arrived) })
		<-goOn
	})
	e := c.exporter(t)
	for range maxBatch {
		e.Record(&span.Span{})
	}
	<-arrived
	for range maxSpans + 7 {
		e.Record(&span.Span{})
	}
	if _, dropped := e.Counts(); dropped != 7 {
		t.Errorf("%d spans were dropped, want 7", dropped)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e.Close(ctx) // returns
	close(goOn)
	if exported, dropped := e.Counts(); exported != 0 || dropped != maxBatch+maxSpans+7 {
		t.Errorf("%d spans exported, %d dropped", exported, dropped)
	}
}

// Spans that a collector refuses are counted. A batch is sent again only if the collector may take it later.
func TestCollectorThatRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer            func(int, http.ResponseWriter)
		exported, dropped uint64
		requests          int
	}{
		"bad request": {func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, 0, 3, 1},
		"a redirect": {func(_ int, w http.ResponseWriter) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusFound)
		}, 0, 3, 1},
		"some":     {func(_ int, w http.ResponseWriter) { io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"2"}}`) }, 1, 2, 1},
		"too many": {func(_ int, w http.ResponseWriter) { io.WriteString(w, `{"partialSuccess":{"rejectedSpans":20}}`) }, 0, 3, 1},
		"no JSON":  {func(_ int, w http.ResponseWriter) { io.WriteString(w, `ok`) }, 3, 0, 1},
		"busy once": {func(number int, w http.ResponseWriter) {
			if number == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, 3, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t, tt.answer)
			e := c.exporter(t)
			e.export([]*span.Span{{}, {}, {}})
			exported, dropped := e.end(t)
			if exported != tt.exported || dropped != tt.dropped || len(c.requests()) != tt.requests {
				t.Errorf("%d exported, %d dropped with %d requests; want %d, %d, %d", exported, dropped, len(c.requests()), tt.exported, tt.dropped, tt.requests)
			}
		})
	}
}

// More spans than fit into a batch come in several requests.
func TestBatches(t *testing.T) {
	t.Parallel()
	c := newCollector(t, nil)
	e := c.exporter(t)
	for range 2*maxBatch + 1 {
		e.Record(&span.Span{Name: "one"})
	}
	if exported, dropped := e.end(t); exported != 2*maxBatch+1 || dropped != 0 {
		t.Errorf("%d spans exported, %d dropped", exported, dropped)
	}
	total := 0
	for _, body := range c.requests() {
		var r exportRequest
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		n := len(r.ResourceSpans[0].ScopeSpans[0].Spans)
		if n > maxBatch {
			t.Errorf("a request has %d spans", n)
		}
		total += n
	}
	if total != 2*maxBatch+1 {
		t.Errorf("the collector has %d spans", total)
	}
}

func TestEndpoint(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]string{
		"http://localhost:4318":                   "http://localhost:4318/v1/traces",
		"https://collector.example/otlp/":         "https://collector.example/otlp/v1/traces",
		"http://localhost:4318/v1/traces":         "http://localhost:4318/v1/traces",
		"https://collector.example/v1/traces?k=v": "https://collector.example/v1/traces?k=v",
		"localhost:4318":                          "",
		"ftp://localhost":                         "",
		"http://":                                 "",
		"http://%":                                "",
	} {
		e, err := New(Config{Endpoint: endpoint})
		if got := fmt.Sprint(err == nil); got != fmt.Sprint(want != "") || err == nil && e.url != want {
			t.Errorf("%s: %+v, %v; want %s", endpoint, e, err, want)
		}
		if err == nil {
			e.end(t)
		}
	}
}
