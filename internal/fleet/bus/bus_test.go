package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
	"github.com/tetherexec/tether/internal/fleet/hub"
)

// testTime limits everything that a test waits for.
const testTime = 20 * time.Second

const host = "alpha"

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(testTime):
		t.Fatal("does not happen: " + what)
		panic("not reached")
	}
}

// openHub starts a hub with the keys of a directory.
func openHub(t *testing.T, dir, listen string) *hub.Hub {
	t.Helper()
	h, err := hub.Open(t.Context(), hub.Config{Dir: dir, Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// credentials writes the credentials of a host of a fleet, and returns the file.
func credentials(t *testing.T, k *hub.Keys) string {
	t.Helper()
	text, err := k.Credentials(hub.RoleHost, host)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func keys(t *testing.T, dir string) *hub.Keys {
	t.Helper()
	k, err := hub.OpenKeys(filepath.Join(dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// unused returns an address of this machine at which nothing listens. The port is not among those that the system gives to others.
func unused(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.N(10_000)))
		if err == nil {
			l.Close()
			return l.Addr().String()
		}
	}
}

// A records passes on the messages of a log.
type records chan string

func (r records) Enabled(context.Context, slog.Level) bool { return true }
func (r records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r records) WithGroup(string) slog.Handler            { return r }
func (r records) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	r <- text
	return nil
}

// find waits for a record with a text, and returns it. None of the others may have a text that is forbidden.
func (r records) find(t *testing.T, want string, forbidden ...string) string {
	t.Helper()
	for {
		text := await(t, "the log has "+want, r)
		if strings.Contains(text, want) {
			return text
		}
		for _, f := range forbidden {
			if strings.Contains(text, f) {
				t.Errorf("the log has %q", text)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"nats://127.0.0.1:4222":                   "",
		"nats://localhost:4222,nats://[::1]:4223": "",
		"nats://127.0.0.1":                        "",
		"tls://hub.example:4222":                  "",
		"wss://hub.example/path":                  "",
		"ws://127.0.0.2:80":                       "",
		"tls://a:1, tls://b:2":                    "",
		"nats://10.0.0.1:4222":                    "use tls:// or wss://",
		"nats://hub.example:4222":                 "use tls:// or wss://",
		"ws://0.0.0.0:80":                         "use tls:// or wss://",
		"nats://127.0.0.1:4222,nats://10.0.0.1:1": "use tls:// or wss://",
		"nats://127.0.0.1.example:4222":           "use tls:// or wss://",
		"nats://localhost.example:4222":           "use tls:// or wss://",
		"tls://a:1,nats://127.0.0.1:1":            "same scheme",
		"tls://a:1,wss://a:1":                     "same scheme",
		"wss://a/x,wss://b/y":                     "same scheme",
		"":                                        "is not an address of a hub",
		"127.0.0.1:4222":                          "is not a URL",
		"http://127.0.0.1":                        "is not an address of a hub",
		"tls://":                                  "has no host",
		"tls://a:0":                               "wrong port",
		"tls://a:65536":                           "wrong port",
		"tls://a:1/path":                          "more than a host",
		"wss://a:1/path?x=y":                      "more than a host",
		"tls://user:geheim@a:1":                   "has a user or password",
		"tls://geheim@a:1,":                       "has a user or password",
		"tls://a:1,":                              "is not an address of a hub",
	} {
		err := bus.Config{URL: url}.Check()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim")) {
			t.Errorf("%q: %v", url, err)
		}
		if want == "" {
			continue // nothing outside of this machine is dialled
		}
		if _, err := bus.Connect(t.Context(), bus.Config{URL: url}); err == nil {
			t.Errorf("%q is connected to", url)
		}
	}
	if (bus.Config{URL: "tls://a:1", Inbox: "a.>"}).Check() == nil {
		t.Error("a wildcard is accepted as an inbox")
	}
}

// If the hub refuses the client at once, or the credentials cannot be read, Connect says so.
func TestRefusedAtFirst(t *testing.T) {
	t.Parallel()
	h := openHub(t, t.TempDir(), "127.0.0.1:0")
	foreign := credentials(t, keys(t, t.TempDir()))
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("geheim"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		foreign:       "Authorization Violation",
		"":            "Authorization Violation",
		garbage:       "holds no credentials",
		garbage + "x": "no such file",
	} {
		conn, err := bus.Connect(t.Context(), bus.Config{URL: h.URL(), Credentials: file})
		if err == nil {
			conn.Close()
			t.Errorf("%q is accepted", file)
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", file, err)
		}
	}
	if _, err := bus.Connect(t.Context(), bus.Config{URL: h.URL(), CAFile: garbage}); err == nil || !strings.Contains(err.Error(), "no PEM certificate") {
		t.Error(err)
	}
}

// If the hub is away at first, the connection waits for it; nothing is held back for it. A subscription made in between works.
func TestHubIsAwayAtFirst(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	creds := credentials(t, keys(t, dir))
	address := unused(t)
	log := make(records, 100)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: "nats://" + address, Credentials: creds, Inbox: fleet.HostInbox(host), Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	log.find(t, "the hub is not reachable yet")
	if err := conn.Publish(fleet.BeatSubject(host), nil); err == nil {
		t.Error("a message is accepted before there is a hub")
	}
	sub, err := conn.SubscribeSync(fleet.HostInbox(host) + ".x")
	if err != nil {
		t.Fatal(err)
	}
	h := openHub(t, dir, address)
	log.find(t, "connected to the hub", "not reachable") // each reason once
	gateway, err := h.Keys().Credentials(hub.RoleGateway, "gate")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway")
	if err := os.WriteFile(file, gateway, 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := bus.Connect(t.Context(), bus.Config{URL: h.URL(), Credentials: file, Inbox: fleet.GatewayInbox})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := errors.Join(conn.FlushTimeout(testTime), other.Publish(sub.Subject, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.NextMsg(testTime); err != nil {
		t.Error(err)
	}
}

// If the hub refuses the client later, that is logged once, and the connection keeps trying until it is accepted.
func TestRefusedLater(t *testing.T) {
	t.Parallel()
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprintf("connected before %v", connected), func(t *testing.T) {
			t.Parallel()
			testRefusedLater(t, connected)
		})
	}
}

func testRefusedLater(t *testing.T, connected bool) {
	dir := t.TempDir()
	creds := credentials(t, keys(t, dir))
	log := make(records, 100)
	address := unused(t)
	var first *hub.Hub
	if connected {
		first = openHub(t, dir, address)
	}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: "nats://" + address, Credentials: creds, Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	if connected {
		first.Close()
	}
	foreign := openHub(t, t.TempDir(), address)
	text := log.find(t, "the hub refuses this client")
	if content, err := os.ReadFile(creds); err != nil || strings.Contains(text, string(content[60:100])) {
		t.Error("the log has a part of the credentials", err)
	}
	foreign.Close()
	openHub(t, dir, address)
	log.find(t, "connected to the hub", "refuses this client")
	conn.Close()
}

// If messages are not handled fast enough, they are dropped, and that is logged. Refused operations are logged.
func TestAsyncErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := openHub(t, dir, "127.0.0.1:0")
	log := make(records, 100)
	conn, err := bus.Connect(t.Context(), bus.Config{
		URL: h.URL(), Credentials: credentials(t, h.Keys()), Name: "test", Inbox: fleet.HostInbox(host), Log: slog.New(log),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	own := fleet.LinkSubject{Host: host, Process: "p", Gateway: "g", Link: "l"}.String()
	sub, err := conn.SubscribeSync(own)
	if err == nil {
		err = sub.SetPendingLimits(1, -1)
	}
	for range 3 {
		err = errors.Join(err, conn.Publish(own, []byte("geheim")))
	}
	if err := errors.Join(err, conn.FlushTimeout(testTime)); err != nil {
		t.Fatal(err)
	}
	log.find(t, "messages were dropped", "geheim")
	if err := errors.Join(conn.Publish("forbidden", []byte("geheim")), conn.FlushTimeout(testTime)); err != nil {
		t.Fatal(err)
	}
	if text := log.find(t, "does not allow", "geheim"); !strings.Contains(text, `"forbidden"`) || strings.Contains(text, "geheim") {
		t.Error(text)
	}
}

// The end of ctx ends an attempt that hangs.
func TestConnectIsCancelled(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // it never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("impatient")
	cancel(impatient)
	conn, err := bus.Connect(ctx, bus.Config{URL: "nats://" + l.Addr().String()})
	if !errors.Is(err, impatient) {
		t.Error(err)
	}
	if err == nil {
		conn.Close()
	}
}

// A connection that has lost its hub says so.
func TestDisconnected(t *testing.T) {
	t.Parallel()
	h := openHub(t, t.TempDir(), "127.0.0.1:0")
	log := make(records, 100)
	conn, err := bus.Connect(t.Context(), bus.Config{URL: h.URL(), Credentials: credentials(t, h.Keys()), Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	away := conn.StatusChanged(nats.RECONNECTING)
	h.Close()
	await(t, "the client notices", away)
	log.find(t, "disconnected from the hub")
	if err := conn.Publish(fleet.BeatSubject(host), nil); err == nil {
		t.Error("a message is accepted while the hub is away")
	}
}

// The path of the credentials is taken as it is, and the file is read for each connection.
func TestPathOfCredentials(t *testing.T) {
	t.Parallel()
	h := openHub(t, t.TempDir(), "127.0.0.1:0")
	text, err := os.ReadFile(credentials(t, h.Keys()))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "$HOME ~ ${x}.creds")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: h.URL(), Credentials: path, Inbox: fleet.HostInbox(host)})
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}
