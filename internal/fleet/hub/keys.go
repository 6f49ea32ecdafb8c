package hub

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Files in the directory of keys.
const (
	secretFile  = "secret.json"  // written once
	accountFile = "account.jwt"  // which credentials are revoked; replaced by each revocation
	lockFile    = "account.lock" // of those who write accountFile
)

// names in certificates, for people who look at them.
const (
	operatorName = "tether"
	accountName  = "fleet"
	systemName   = "system"
)

// Keys are the keys of a fleet. They are one directory, which may be copied. Whoever can read it can do everything in the fleet.
type Keys struct {
	dir                       string
	operator, account, system nkeys.KeyPair
	secret                    []byte // other keys are derived from it
}

// secrets is the content of secretFile.
type secrets struct {
	Operator string `json:"operator"` // seed of an nkey; it signs the certificates of the accounts
	Account  string `json:"account"`  // the same; it signs the certificates of clients
	System   string `json:"system"`   // the same, for what hubs tell each other
	Secret   []byte `json:"secret"`   // the keys of clients and of cluster nodes are derived from it
}

// OpenKeys opens the directory of the keys. If there are none, it makes them: if two processes do that at once, both get the same.
func OpenKeys(dir string) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the keys: %w", err)
	}
	name := filepath.Join(dir, secretFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeSecrets(name); err != nil {
			return nil, fmt.Errorf("make the keys of the fleet: %w", err)
		}
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the keys of the fleet: %w", err)
	}
	k := &Keys{dir: dir}
	if err := k.parse(text); err != nil {
		return nil, fmt.Errorf("the file %s does not have the keys of a fleet: %w", name, err)
	}
	return k, nil
}

// makeSecrets makes the file of secrets, unless it exists. No other process sees a part of it.
func makeSecrets(name string) error {
	s := secrets{Secret: make([]byte, sha256.Size)}
	rand.Read(s.Secret)
	for _, key := range []struct {
		seed *string
		kind nkeys.PrefixByte
	}{{&s.Operator, nkeys.PrefixByteOperator}, {&s.Account, nkeys.PrefixByteAccount}, {&s.System, nkeys.PrefixByteAccount}} {
		pair, err := nkeys.CreatePair(key.kind)
		if err != nil {
			return err
		}
		seed, err := pair.Seed()
		if err != nil {
			return err
		}
		*key.seed = string(seed)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	temporary, err := writeBeside(name, append(text, '\n'))
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	if err := os.Link(temporary, name); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil // another process was faster
}

// writeBeside writes a private file in the directory of name, and returns its name.
func writeBeside(name string, content []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// parse reads the content of secretFile. Errors do not repeat any of it.
func (k *Keys) parse(text []byte) error {
	var s secrets
	if json.Unmarshal(text, &s) != nil {
		return errors.New("it is not complete")
	}
	for _, key := range []struct {
		pair *nkeys.KeyPair
		kind nkeys.PrefixByte
		seed string
	}{{&k.operator, nkeys.PrefixByteOperator, s.Operator}, {&k.account, nkeys.PrefixByteAccount, s.Account}, {&k.system, nkeys.PrefixByteAccount, s.System}} {
		kind, _, err := nkeys.DecodeSeed([]byte(key.seed))
		if err == nil && kind != key.kind {
			err = nkeys.ErrInvalidPrefixByte
		}
		if err == nil {
			*key.pair, err = nkeys.FromSeed([]byte(key.seed))
		}
		if err != nil {
			return err
		}
	}
	if k.secret = s.Secret; len(k.secret) < sha256.Size {
		return errors.New("a secret is too short")
	}
	return nil
}

// derive returns 32 secret bytes that are the same for the same purpose.
func (k *Keys) derive(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, k.secret, nil, "tether fleet "+purpose, sha256.Size)
}

// operatorClaims are the certificate of the operator, in which the hub trusts.
func (k *Keys) operatorClaims() (*jwt.OperatorClaims, error) {
	claims := jwt.NewOperatorClaims(public(k.operator))
	claims.Name = operatorName
	claims.SystemAccount = public(k.system)
	text, err := claims.Encode(k.operator)
	if err != nil {
		return nil, err
	}
	return jwt.DecodeOperatorClaims(text)
}

// systemJWT is the certificate of the system account.
func (k *Keys) systemJWT() (string, error) {
	claims := jwt.NewAccountClaims(public(k.system))
	claims.Name = systemName
	return claims.Encode(k.operator)
}

// public returns the public half of a key.
func public(pair nkeys.KeyPair) string {
	text, err := pair.PublicKey()
	if err != nil {
		panic("hub: " + err.Error()) // the pair was made from a seed
	}
	return text
}
