package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// scrape returns the metrics of a server by their names and labels, and the names of all families.
func scrape(t *testing.T, url string) (values map[string]float64, families []string) {
	t.Helper()
	defer http.DefaultClient.CloseIdleConnections()
	r, err := http.Get(strings.Replace(url, "ws://", "http://", 1) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	values = map[string]float64{}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			families = append(families, strings.Fields(rest)[0])
		}
		if i := strings.LastIndexByte(line, ' '); i > 0 && !strings.HasPrefix(line, "#") {
			if values[line[:i]], err = strconv.ParseFloat(line[i+1:], 64); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	return values, families
}

// familyOf returns the name of the family of a sample.
func familyOf(sample string) string {
	name, _, _ := strings.Cut(sample, "{")
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// A known workload changes each sample of each family of metrics by a known amount.
func TestMetricsOfAWorkload(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{Audit: audit.Config{Target: filepath.Join(t.TempDir(), "audit")}, LogDropped: func() uint64 { return 0 }})
	before, _ := scrape(t, s.URL)
	c := tethertest.Connect(t, s.URL)
	for id, script := range map[string]string{"ok": "printf 0123456789", "bad": "exit 3", "killed": "kill -9 $$"} {
		c.Start(tethertest.Shell(id, script, nil))
		c.Finish(id, 0)
	}
	c.Start(tethertest.Shell("waits", "echo started; exec sleep 1000", nil))
	if m := c.Call("process/start", tethertest.Shell("none", "true", map[string]any{"argv": []string{"/nonexistent/program"}})); m.Error == nil {
		t.Error("a program that does not exist was started")
	}
	if m := c.Call("fs/readFile", map[string]any{"path": "file:///nonexistent"}); m.Error == nil {
		t.Error("a file that does not exist was read")
	}
	if r, err := http.Get(strings.Replace(s.URL, "ws://", "http://", 1)); err != nil { // not the upgrade of a WebSocket
		t.Error(err)
	} else {
		r.Body.Close()
	}
	want := map[string]float64{
		`tether_connections`: 1,
		`tether_connections_total{listener="ws",outcome="served"}`:    1,
		`tether_connections_total{listener="ws",outcome="malformed"}`: 1,
		`tether_sessions`:                                       1,
		`tether_sessions_attached`:                              1,
		`tether_session_events_total{event="opened"}`:           1,
		`tether_processes_running`:                              1,
		`tether_processes_blocked`:                              0,
		`tether_starts_total{sandbox="none",outcome="started"}`: 4,
		`tether_starts_total{sandbox="none",outcome="failed"}`:  1,
		`tether_start_seconds_count`:                            4,
		`tether_confined_start_seconds_count`:                   0,
		`tether_exits_total{kind="success"}`:                    1,
		`tether_exits_total{kind="failure"}`:                    1,
		`tether_exits_total{kind="signal"}`:                     1,
		`tether_output_bytes_total`:                             18,
		`tether_spool_bytes`:                                    0,
		`tether_requests_total{method="process/start"}`:         5,
		`tether_requests_failed_total{method="process/start"}`:  1,
		`tether_requests_total{method="fs/readFile"}`:           1,
		`tether_requests_failed_total{method="fs/readFile"}`:    1,
	}
	// These have a value that the workload does not determine. That of a sample that is in neither list must stay.
	undetermined := []string{"tether_goroutines", "tether_open_descriptors", "tether_output_held_bytes", "tether_start_seconds_bucket", "tether_start_seconds_sum"}
	// The workload does nothing that these families count. For a gauge and a counter without labels, the sample shows that; for others that there is none.
	still := []string{
		"tether_build_info", "tether_connections_slow", "tether_refusals_total", "tether_sandbox_denials_total", "tether_network_decisions_total", "tether_forwarded_connections", "tether_forward_listeners",
		"tether_audit_dropped_total", "tether_log_dropped_total", "tether_spans_exported_total", "tether_spans_dropped_total", "tether_reloads_total", "tether_last_reload_time_seconds",
	}
	var families []string
	var after map[string]float64
	tethertest.Eventually(t, func() error { // the last exit is counted after its event was sent
		after, families = scrape(t, s.URL)
		for name, n := range want {
			if got := after[name] - before[name]; got != n {
				return fmt.Errorf("%s grew by %v, want %v", name, got, n)
			}
		}
		return nil
	})
	for _, name := range undetermined[:3] {
		if after[name] <= 0 {
			t.Errorf("%s is %v", name, after[name])
		}
	}
	named := map[string]bool{}
	for name := range want {
		named[familyOf(name)] = true
	}
	for name, value := range after {
		base, _, _ := strings.Cut(name, "{")
		if _, listed := want[name]; !listed && !slices.Contains(undetermined, base) && value != before[name] {
			t.Errorf("%s has changed from %v to %v", name, before[name], value)
		}
	}
	for _, name := range families {
		if !named[name] && !slices.Contains(undetermined, name) && !slices.Contains(still, name) {
			t.Errorf("the test does not know the metric %s", name)
		}
	}
	c.Call("process/terminate", map[string]any{"processId": "waits"})
	tethertest.Eventually(t, func() error {
		after, _ = scrape(t, s.URL)
		if n := after[`tether_exits_total{kind="terminated"}`]; n != 1 {
			return fmt.Errorf("%v processes were terminated", n)
		}
		return nil
	})
}
