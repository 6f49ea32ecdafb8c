//go:build unix

package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// New limits are for sessions that are opened later. Limits that are not possible change nothing.
func TestSetLimits(t *testing.T) {
	t.Parallel()
	s := startStreamServer(t, server.Config{SessionTTL: time.Minute})
	ttl := func(asked any) time.Duration {
		t.Helper()
		var hello wire.InitializeResult
		m := tethertest.Dial(t, s.url).Call("initialize", map[string]any{"clientName": "test", "tether": map[string]any{"ttlMs": asked}})
		if m.Error != nil || wire.Decode(m.Result, &hello) != nil {
			t.Fatalf("%s", m.Raw)
		}
		return time.Duration(hello.Tether.TTLMs) * time.Millisecond
	}
	set := func(c server.Config, want bool) {
		t.Helper()
		if changed, err := s.SetLimits(&c); changed != want || err != nil {
			t.Errorf("changed: %v, %v", changed, err)
		}
	}
	next := server.Config{SessionTTL: 2 * time.Minute, SessionTTLMax: time.Hour, Retain: 1 << 20, SpoolLimit: 1 << 20, SpoolTotal: 1 << 20}
	set(server.Config{SessionTTL: time.Minute}.WithDefaults(), false)
	set(next, true)
	set(next, false)
	for _, bad := range []server.Config{{SessionTTL: time.Hour, SessionTTLMax: time.Minute}, {SessionTTL: time.Hour, Retain: -1}} {
		if changed, err := s.SetLimits(&bad); changed || err == nil {
			t.Errorf("%+v: changed: %v, %v", bad, changed, err)
		}
	}
	if got := ttl(nil); got != 2*time.Minute {
		t.Errorf("a session lives %v", got)
	}
	if got := ttl(uint64(24 * time.Hour / time.Millisecond)); got != time.Hour {
		t.Errorf("a session that asks for a day lives %v", got)
	}
}

// What has become of settings that were read again is counted, and recorded.
func TestReloadIsRecorded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit")
	s := startStreamServer(t, server.Config{Audit: audit.Config{Target: path}})
	if values, _ := scrape(t, s.url); values["tether_last_reload_time_seconds"] != 0 {
		t.Errorf("before the first reload: %v", values)
	}
	s.listener.Report(wire.ReloadedSettings{Kind: wire.SettingsTokens, Changed: true}, wire.ReloadedSettings{Kind: wire.SettingsLimits}, wire.ReloadedSettings{Kind: wire.SettingsCertificates, Error: "half of it is missing"})
	values, _ := scrape(t, s.url)
	for name, want := range map[string]float64{
		`tether_reloads_total{settings="tokens",outcome="changed"}`:       1,
		`tether_reloads_total{settings="limits",outcome="unchanged"}`:     1,
		`tether_reloads_total{settings="certificates",outcome="refused"}`: 1,
		`tether_last_reload_time_seconds`:                                 0,
	} {
		if values[name] != want {
			t.Errorf("%s is %v, want %v", name, values[name], want)
		}
	}
	s.listener.Report(wire.ReloadedSettings{Kind: wire.SettingsTokens})
	if values, _ := scrape(t, s.url); values["tether_last_reload_time_seconds"] == 0 {
		t.Error("the time of a reload without an error is not known")
	}
	tethertest.Eventually(t, func() error { // the audit log writes in the background
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, want := range []string{`"event":"settings.changed","kind":"tokens"}`, `"event":"settings.refused","kind":"certificates","reason":"half of it is missing"}`} {
			if strings.Count(string(text), want) != 1 || strings.Count(string(text), "settings.") != 2 {
				return fmt.Errorf("recorded: %s", text)
			}
		}
		return nil
	})
}
