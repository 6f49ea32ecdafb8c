package hub

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/tetherexec/tether/internal/fleet"
)

// The hub accepts a client only if it owns the key of a certificate that the fleet has signed, and that is neither expired nor revoked.
func TestCredentialsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	k := h.Keys()
	foreign, err := OpenKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	alpha, beta := credentials(t, k, RoleHost, self), credentials(t, k, RoleHost, "beta")
	connect(t, h, alpha)
	p := fleet.HostPermissions(self)
	for what, creds := range map[string][]byte{
		"the certificate of one host with the key of another": mix(t, alpha, beta),
		"another fleet":                  credentials(t, foreign, RoleHost, self),
		"an expired certificate":         custom(t, k, RoleHost, p, func(c *jwt.UserClaims) { c.Expires = time.Now().Add(-time.Minute).Unix() }),
		"a certificate of tomorrow":      custom(t, k, RoleHost, p, func(c *jwt.UserClaims) { c.NotBefore = time.Now().Add(time.Hour).Unix() }),
		"a leaf node's certificate":      custom(t, k, RoleHost, p, func(c *jwt.UserClaims) { c.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeLeafnode} }),
		"a bearer certificate":           custom(t, k, RoleHost, p, func(c *jwt.UserClaims) { c.BearerToken = true }),
		"a certificate of a stolen name": selfSigned(t, k),
	} {
		if conn, err := dial(h, creds); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", what, err)
			if err == nil {
				conn.Close()
			}
		}
	}
	for _, options := range [][]nats.Option{nil, {nats.UserInfo("fleet", "fleet")}, {nats.Token("x")}} {
		if conn, err := nats.Connect(h.URL(), options...); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("without credentials: %v", err)
			if err == nil {
				conn.Close()
			}
		}
	}
}

// mix returns the certificate of one client with the key of another.
func mix(t *testing.T, certificate, key []byte) []byte {
	t.Helper()
	mark := []byte("-----BEGIN USER NKEY SEED-----")
	i, j := bytes.Index(certificate, mark), bytes.Index(key, mark)
	if i < 0 || j < 0 {
		t.Fatal("no key in the file")
	}
	return append(bytes.Clone(certificate[:i]), key[j:]...)
}

// selfSigned returns a certificate that names the account of the fleet, signed with a key that the fleet does not know.
func selfSigned(t *testing.T, k *Keys) []byte {
	t.Helper()
	signer, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	forged := *k
	forged.account = signer
	return custom(t, &forged, RoleHost, fleet.HostPermissions(self), func(c *jwt.UserClaims) { c.IssuerAccount = public(k.account) })
}

// A revocation disconnects the client of that role and name, and no other. New credentials work.
func TestRevoke(t *testing.T) {
	t.Parallel()
	h := openHub(t, nil)
	k := h.Keys()
	closed := make(chan struct{}, 3)
	ended := func(*nats.Conn) { closed <- struct{}{} }
	old := credentials(t, k, RoleHost, self)
	connect(t, h, old, nats.NoReconnect(), nats.ClosedHandler(ended))
	others := []*nats.Conn{connect(t, h, credentials(t, k, RoleHost, "beta")), connect(t, h, credentials(t, k, RoleGateway, self))}
	for range 2 {
		if err := k.Revoke(RoleHost, self); err != nil {
			t.Fatal(err)
		}
		await(t, "the client is disconnected", closed)
		if _, err := dial(h, old); !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthRevoked) {
			t.Error("revoked credentials:", err)
		}
		old = credentials(t, k, RoleHost, self)
		connect(t, h, old, nats.NoReconnect(), nats.ClosedHandler(ended))
	}
	for _, conn := range others {
		flush(t, conn)
	}
	// A hub that starts later knows the revocations.
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, keysDir), os.DirFS(k.dir)); err != nil {
		t.Fatal(err)
	}
	second := openHub(t, func(c *Config) { c.Dir = dir })
	connect(t, second, old)
	if err := k.Revoke(RoleHost, self); err != nil {
		t.Fatal(err)
	}
	h.Close()
	third := openHub(t, func(c *Config) { c.Dir = h.config.Dir })
	if _, err := dial(third, old); !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthRevoked) {
		t.Error("after a restart:", err)
	}
}

// All programs that open the keys of one directory at once get the same ones, and no other user can read them.
func TestKeysAreMadeOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state", "keys")
	creds := make([][]byte, 8)
	var all sync.WaitGroup
	for i := range creds {
		all.Go(func() {
			k, err := OpenKeys(dir)
			if err == nil {
				creds[i], err = k.Credentials(RoleHost, self)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	mark := []byte("-----BEGIN USER NKEY SEED-----")
	for _, c := range creds {
		if i := bytes.Index(c, mark); i < 0 || !bytes.Equal(c[i:], creds[0][bytes.Index(creds[0], mark):]) {
			t.Error("two processes have different keys")
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 || e.Name() != secretFile {
			t.Error(e, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
}

func TestKeysThatAreBroken(t *testing.T) {
	t.Parallel()
	k, err := OpenKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Credentials(RoleHost, "a.*"); err == nil {
		t.Error("a wildcard is accepted as a name")
	}
	if err := os.WriteFile(filepath.Join(k.dir, accountFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Credentials(RoleHost, self); err == nil {
		t.Error("credentials are made although revocations cannot be read")
	}
	if err := os.WriteFile(filepath.Join(k.dir, secretFile), []byte(`{"operator":"SOx"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeys(k.dir); err == nil {
		t.Error("broken keys are accepted")
	}
}
