package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

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

// A known workload changes each family of metrics by a known amount.
func TestMetricsOfAWorkload(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
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
	want := map[string]float64{
		`tether_connections`: 1,
		`tether_connections_total{listener="ws",outcome="served"}`: 1,
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
	var after map[string]float64
	tethertest.Eventually(t, func() error { // the last exit is counted after its event was sent
		after, _ = scrape(t, s.URL)
		for name, n := range want {
			if got := after[name] - before[name]; got != n {
				return fmt.Errorf("%s grew by %v, want %v", name, got, n)
			}
		}
		return nil
	})
	for _, name := range []string{"tether_goroutines", "tether_open_descriptors", "tether_output_held_bytes"} {
		if after[name] <= 0 {
			t.Errorf("%s is %v", name, after[name])
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
