package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A server exports its spans before it ends, also with a keeper.
func TestServeExportsSpans(t *testing.T) {
	t.Parallel()
	for _, keeper := range []string{"--keeper", "--no-keeper"} {
		var mu sync.Mutex
		var bodies strings.Builder
		collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			bodies.Write(body)
		}))
		startTether(t, "serve", keeper, "--otlp-endpoint", collector.URL).use(t)
		collector.Close()
		for _, want := range []string{`"name":"process/start","kind":2`, `"name":"command","kind":1`, `"key":"process.exit.code","value":{"intValue":"0"}`} {
			if strings.Count(bodies.String(), want) != 1 {
				t.Errorf("%s: the collector has not got %s once:\n%s", keeper, want, bodies.String())
			}
		}
	}
	b := newTestEnv(t)
	b.wantStderr(exitError, "tether: --otlp-endpoint: expected the URL of a collector, such as http://localhost:4318\n", "serve", "--otlp-endpoint", "localhost:4318")
}
