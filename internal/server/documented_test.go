package server_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// docs/operations.md names each metric of a server and each field of the audit log, and no others.
func TestMetricsAndAuditAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, families := scrape(t, tethertest.StartServer(t, server.Config{}).URL)
	for _, name := range families {
		if !regexp.MustCompile("`" + name + "[`{]").MatchString(page) {
			t.Errorf("the metric %s is not documented", name)
		}
	}
	for _, found := range regexp.MustCompile("`(tether_[a-z_]+)").FindAllStringSubmatch(page, -1) {
		if name := found[1]; !slices.Contains(families, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("there is no metric %s", name)
		}
	}
	event := reflect.TypeFor[audit.Event]()
	for i := range event.NumField() {
		name, _, _ := strings.Cut(event.Field(i).Tag.Get("json"), ",")
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the field %s of the audit log is not documented", name)
		}
	}
	for _, name := range audit.Kinds {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the event %s of the audit log is not documented", name)
		}
	}
}
