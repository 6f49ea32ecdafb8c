package hub

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
)

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	good := Config{Dir: "d", Listen: "127.0.0.1:0"}
	for what, change := range map[string]func(*Config){
		"":                                   func(*Config) {},
		"refusing to listen on `0.0.0.0:1`":  func(c *Config) { c.Listen = "0.0.0.0:1" },
		"refusing to listen on `10.0.0.1:0`": func(c *Config) { c.Listen = "10.0.0.1:0" },
		"refusing to listen on `[::]:4222`":  func(c *Config) { c.Listen = "[::]:4222" },
		"refusing to listen on `1.2.3.4:80`": func(c *Config) { c.WebSocket = "1.2.3.4:80" },
		"refusing to listen on `0.0.0.0:82`": func(c *Config) { c.Monitor, c.TLSCert, c.TLSKey = "0.0.0.0:82", "c", "k" },
		"not an address to listen on":        func(c *Config) { c.Listen = "localhost" },
		"private key":                        func(c *Config) { c.TLSCert = "c" },
		"a name of its own":                  func(c *Config) { c.ClusterListen, c.Peers = "127.0.0.1:0", []string{"h:1"} },
		"addresses of the others":            func(c *Config) { c.Name, c.ClusterListen = "n", "10.0.0.1:0" },
		"not the address of a node":          func(c *Config) { c.Name, c.ClusterListen, c.Peers = "n", "127.0.0.1:0", []string{"h"} },
		"address for the other nodes":        func(c *Config) { c.Peers = []string{"h:1"} },
		"needs a directory":                  func(c *Config) { c.Dir = "" },
	} {
		c := good
		change(&c)
		if err := c.Check(); (err == nil) != (what == "") || err != nil && !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
	for _, c := range []Config{{Dir: "d", Listen: "0.0.0.0:1", TLSCert: "c", TLSKey: "k"}, {Dir: "d", Listen: "[::1]:1", WebSocket: "127.0.0.2:1"}} {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := (Config{Dir: "d", Listen: "0.0.0.0:1"}).Check(); !errors.Is(err, ErrExposed) {
		t.Error(err)
	}
}

// What is in the directory of the fleet survives a restart of the hub. Clients reconnect.
func TestRestart(t *testing.T) {
	t.Parallel()
	h := openHub(t, func(c *Config) { c.Listen = freePorts(t, 1)[0] })
	creds := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(creds, credentials(t, h.Keys(), RoleGateway, "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Connect(t.Context(), bus.Config{URL: h.URL(), Credentials: creds, Inbox: fleet.GatewayInbox})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js := buckets(t, conn)
	key := fleet.KeySubject(fleet.SessionsBucket, "k")
	if _, err := js.Publish(t.Context(), key, []byte("v")); err != nil {
		t.Fatal(err)
	}
	down, back := conn.StatusChanged(nats.RECONNECTING), conn.StatusChanged(nats.CONNECTED)
	address := h.Addr().String()
	h.Close()
	await(t, "the client notices", down)
	if err := conn.Publish(fleet.HostInbox(self)+".x", nil); err == nil {
		t.Error("a message is accepted while the hub is away")
	}
	h = openHub(t, func(c *Config) { c.Dir, c.Listen = h.config.Dir, address })
	await(t, "the client is back", back)
	s, err := js.Stream(t.Context(), fleet.Stream(fleet.SessionsBucket))
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetLastMsgForSubject(t.Context(), key); err != nil || string(m.Data) != "v" {
		t.Error(m, err)
	}
}

// A full directory refuses what is new. What is there can be read, and the hub goes on.
func TestFullStore(t *testing.T) {
	t.Parallel()
	h := openHub(t, func(c *Config) { c.StoreLimit = 256 << 10 })
	conn := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"))
	js := buckets(t, conn)
	value := bytes.Repeat([]byte("x"), 16<<10)
	full := false
	for i := 0; i < 64 && !full; i++ {
		_, err := js.Publish(t.Context(), fleet.KeySubject(fleet.SessionsBucket, string(rune('a'+i%26))+fleet.NewID()), value)
		full = err != nil
	}
	if !full {
		t.Fatal("the limit has no effect")
	}
	if _, err := js.Stream(t.Context(), fleet.Stream(fleet.SessionsBucket)); err != nil {
		t.Error(err)
	}
	if err := h.Health(); err != nil {
		t.Error(err)
	}
	if s := h.Stats(); s.StoreBytes == 0 || s.StoreBytes > uint64(s.StoreLimit)+uint64(2*len(value)) { // the last one may pass it
		t.Errorf("%+v", s)
	}
}

func TestOneHubPerDirectory(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	if _, err := Open(t.Context(), Config{Dir: h.config.Dir, Listen: "127.0.0.1:0"}); !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	h.Close()
	openHub(t, func(c *Config) { c.Dir = h.config.Dir })
}

// If the hub cannot start, Open says why, and ends all that it has begun.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	for _, change := range []func(*Config){
		func(c *Config) { c.Listen = used.Addr().String() },
		func(c *Config) { c.WebSocket = used.Addr().String() },
		func(c *Config) { c.Monitor = used.Addr().String() },
		func(c *Config) { c.Name, c.ClusterListen, c.Peers = "n", used.Addr().String(), []string{"127.0.0.1:1"} },
	} {
		c := Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
		change(&c)
		h, err := Open(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			t.Error(err)
		}
		if err == nil {
			h.Close()
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if h, err := Open(ended, Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
		if err == nil {
			h.Close()
		}
	}
}

// certificate makes a certificate for a name or IP, and returns the names of its files.
func certificate(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// Clients connect with TLS, over TCP and over WebSocket. They refuse a hub that they do not trust, or that has another name.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t, "127.0.0.1")
	other, _ := certificate(t, "127.0.0.1")
	open := func(cert, key string) *Hub {
		return openHub(t, func(c *Config) { c.WebSocket, c.TLSCert, c.TLSKey = "127.0.0.1:0", cert, key })
	}
	h := open(cert, key)
	misnamed, misnamedKey := certificate(t, "hub.example")
	wrong := open(misnamed, misnamedKey)
	creds := filepath.Join(t.TempDir(), "creds")
	for _, row := range []struct {
		hub  *Hub
		url  string
		ca   string
		want bool
	}{
		{h, h.URL(), cert, true},
		{h, h.WebSocketURL(), cert, true},
		{h, h.URL(), other, false},
		{h, h.WebSocketURL(), other, false},
		{h, h.URL(), "", false},
		{h, strings.Replace(h.URL(), "tls:", "nats:", 1), "", false},
		{wrong, wrong.URL(), misnamed, false},
		{wrong, wrong.WebSocketURL(), misnamed, false},
	} {
		if err := os.WriteFile(creds, credentials(t, row.hub.Keys(), RoleHost, self), 0o600); err != nil {
			t.Fatal(err)
		}
		conn, err := bus.Connect(t.Context(), bus.Config{URL: row.url, Credentials: creds, CAFile: row.ca, Inbox: fleet.HostInbox(self)})
		if (err == nil) != row.want || err != nil && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%+v: %v", row, err)
		}
		if err != nil {
			continue
		}
		if !conn.IsConnected() {
			t.Errorf("%+v: not connected", row)
		}
		if err := conn.Publish(fleet.BeatSubject(self), nil); err != nil {
			t.Error(err)
		}
		flush(t, conn)
		conn.Close()
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	h := openHub(t, func(c *Config) { c.Monitor = "127.0.0.1:0" })
	conn := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"))
	js := buckets(t, conn)
	if _, err := js.Publish(t.Context(), fleet.KeySubject(fleet.SessionsBucket, "k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	h.WriteMetrics(&text)
	for _, want := range []string{"\ntether_hub_connections 1\n", "\ntether_hub_leader_known 1\n", "\ntether_hub_directory_available 1\n", "\ntether_hub_directory_messages 1\n", "\ntether_hub_directory_bytes_limit 1073741824\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if err := h.Health(); err != nil {
		t.Error(err)
	}
	h.Close()
	if h.Health() == nil {
		t.Error("a closed hub is healthy")
	}
}

// Messages of the largest size pass, and keys of the directory may live for a time.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	host := connect(t, h, credentials(t, h.Keys(), RoleHost, self))
	gateway := connect(t, h, credentials(t, h.Keys(), RoleGateway, "gate"))
	sub, err := gateway.SubscribeSync(fleet.BeatSubjects)
	if err != nil {
		t.Fatal(err)
	}
	flush(t, gateway)
	if err := host.Publish(fleet.BeatSubject(self), make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(testTime); err != nil || len(m.Data) != 1<<20 {
		t.Error(err)
	}
	js := buckets(t, gateway)
	expired := make(chan struct{})
	key := fleet.KeySubject(fleet.HostsBucket, self)
	if _, err := js.Publish(t.Context(), key, nil, jetstream.WithMsgTTL(time.Second)); err != nil {
		t.Fatal(err)
	}
	go func() { // ends when the key is gone, or with the test's time
		defer close(expired)
		s, err := js.Stream(t.Context(), fleet.Stream(fleet.HostsBucket))
		for err == nil {
			_, err = s.GetLastMsgForSubject(t.Context(), key)
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Error(err)
		}
	}()
	await(t, "the key ends", expired)
}
