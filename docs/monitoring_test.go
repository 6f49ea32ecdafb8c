package docs

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var metricName = regexp.MustCompile(`\btether_[a-z_]+`)

// documentedMetrics returns the metrics that operations.md lists. A test of internal/server compares that list with the server.
func documentedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`tether_[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range metricName.FindAllString(row[1], -1) {
			names[name] = true
		}
	}
	if len(names) < 20 {
		t.Fatalf("operations.md lists only the metrics %v", names)
	}
	return names
}

// checkQuery reports metrics that no server has, and brackets that do not match.
func checkQuery(t *testing.T, where, query string, known map[string]bool) {
	t.Helper()
	found := metricName.FindAllString(query, -1)
	if len(found) == 0 && !strings.Contains(query, "up{") {
		t.Errorf("%s: the query %s names no metric", where, query)
	}
	for _, name := range found {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !known[base] {
			t.Errorf("%s: no server has the metric %s", where, name)
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			t.Errorf("%s: the brackets %s of %s do not match", where, pair, query)
		}
	}
}

// The dashboard asks only for metrics that servers have, and each panel has a place of its own.
func TestDashboard(t *testing.T) {
	t.Parallel()
	known := documentedMetrics(t)
	text, err := os.ReadFile("monitoring/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	type place struct{ x, y int }
	taken, asked := map[place]string{}, map[string]bool{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			checkQuery(t, p.Title, target.Expr, known)
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				asked[strings.TrimSuffix(name, "_bucket")] = true
			}
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := place{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" || at.x >= 24 {
					t.Fatalf("the panels %q and %q overlap, or one is too wide", taken[at], p.Title)
				}
				taken[at] = p.Title
			}
		}
	}
	for name := range known {
		if !asked[name] && name != "tether_connections" && name != "tether_requests_total" {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// The alerts ask only for metrics that servers have, and say what has happened.
func TestAlerts(t *testing.T) {
	t.Parallel()
	known := documentedMetrics(t)
	text, err := os.ReadFile("monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rules++
			checkQuery(t, rule.Alert, rule.Expr, known)
			if rule.Alert == "" || rule.Labels["severity"] == "" || !strings.Contains(rule.Annotations["summary"], "$labels.instance") {
				t.Errorf("the alert %q lacks a name, a severity or a summary with its server", rule.Alert)
			}
		}
	}
	if rules == 0 {
		t.Error("there are no alerts")
	}
}

// fleet.md names each metric of gateways and hubs, and no others.
func TestFleetMetrics(t *testing.T) {
	t.Parallel()
	known := documentedMetrics(t) // a gateway has some metrics of a server, too
	for file, prefix := range map[string]string{"gateway/pages.go": "", "hub/metrics.go": "tether_hub_"} {
		source, err := os.ReadFile("../internal/fleet/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`metric\("([a-z_]+)"`).FindAllStringSubmatch(string(source), -1)
		if len(found) < 5 {
			t.Errorf("internal/fleet/%s has only the metrics %v", file, found)
		}
		for _, name := range found {
			known[prefix+name[1]] = true
			if !strings.Contains(read(t, "fleet.md"), "`"+prefix+name[1]) {
				t.Errorf("fleet.md does not name %s", prefix+name[1])
			}
		}
	}
	for _, name := range regexp.MustCompile("`tether_[a-z_]+").FindAllString(read(t, "fleet.md"), -1) {
		if name = name[1:]; !known[name] {
			t.Errorf("fleet.md: no program has the metric %s", name)
		}
	}
}
