package hub

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/tetherexec/tether/internal/fleet"
)

// testTime limits everything that a test waits for.
const testTime = 20 * time.Second

// openHub starts a hub on a free loopback port.
func openHub(t *testing.T, change func(*Config)) *Hub {
	t.Helper()
	c := Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	if change != nil {
		change(&c)
	}
	h, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// credentials returns the credentials of a client.
func credentials(t *testing.T, k *Keys, role Role, name string) []byte {
	t.Helper()
	text, err := k.Credentials(role, name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// custom returns credentials with other permissions, for a key of their own.
func custom(t *testing.T, k *Keys, role Role, p fleet.Permissions, change func(*jwt.UserClaims)) []byte {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	claims := k.userClaims(pair, role, "custom", p)
	if change != nil {
		change(claims)
	}
	text, err := k.certify(pair, claims)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// dial connects a client.
func dial(h *Hub, creds []byte, options ...nats.Option) (*nats.Conn, error) {
	token, err := nkeys.ParseDecoratedJWT(creds)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedNKey(creds)
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	return nats.Connect(h.URL(), append([]nats.Option{nats.UserJWTAndSeed(token, string(seed)), quiet, nats.CustomInboxPrefix(fleet.GatewayInbox)}, options...)...)
}

// connect connects a client until the end of the test.
func connect(t *testing.T, h *Hub, creds []byte, options ...nats.Option) *nats.Conn {
	t.Helper()
	conn, err := dial(h, creds, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// witness connects a client that may do everything in the account of the fleet.
func witness(t *testing.T, h *Hub) *nats.Conn {
	t.Helper()
	return connect(t, h, custom(t, h.Keys(), RoleOperator, fleet.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}, nil))
}

// flush returns when the hub has processed what was sent, and what it answered has arrived.
func flush(t *testing.T, conn *nats.Conn) {
	t.Helper()
	if err := conn.FlushTimeout(testTime); err != nil {
		t.Fatal(err)
	}
}

// refused reports whether the hub has refused the last operation with the subject. The refusal arrives before the answer to flush.
func refused(t *testing.T, conn *nats.Conn, operation, subject string) bool {
	t.Helper()
	flush(t, conn)
	err := conn.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(operation+` "`+subject+`"`))
}

// buckets makes the streams of the directory, as gateways do.
func buckets(t *testing.T, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{fleet.HostsBucket, fleet.SessionsBucket, fleet.DrainsBucket} {
		if _, err := js.CreateStream(t.Context(), streamConfig(bucket)); err != nil {
			t.Fatal(bucket, err)
		}
	}
	return js
}

func streamConfig(bucket string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: fleet.Stream(bucket), Subjects: []string{fleet.KeySubject(bucket, ">")}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		DenyDelete: true, AllowDirect: true, AllowMsgTTL: true, AllowRollup: true, Storage: jetstream.FileStorage,
	}
}

// noMessage fails if a message has arrived at a subscription. The caller has flushed.
func noMessage(t *testing.T, sub *nats.Subscription) {
	t.Helper()
	for {
		n, _, err := sub.Pending()
		if err != nil || n == 0 {
			return
		}
		m, err := sub.NextMsg(testTime)
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("a message has arrived with subject %s: %q %v", m.Subject, m.Data, m.Header)
	}
}

// await waits for a value, or for the end of the channel.
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
