package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/tetherexec/tether/internal/fleet"
)

// A Role says what a client of the hub may do.
type Role int

const (
	RoleHost Role = iota
	RoleGateway
	RoleOperator
)

func (r Role) String() string {
	switch r {
	case RoleHost:
		return "host"
	case RoleGateway:
		return "gateway"
	default:
		return "operator"
	}
}

const (
	// hostSubscriptions is how many subscriptions a host may have. It needs two.
	hostSubscriptions = 64

	// maxRevocations is how often the credentials of one name may be revoked.
	maxRevocations = 10_000

	// lockPatience is how long a revocation waits for another one.
	lockPatience = 5 * time.Second
)

// permissions are those of a client.
func (r Role) permissions(name string) fleet.Permissions {
	switch r {
	case RoleHost:
		return fleet.HostPermissions(name)
	case RoleGateway:
		return fleet.GatewayPermissions()
	default:
		return fleet.OperatorPermissions()
	}
}

// Credentials returns a .creds file for a client. A running hub need not be told. The file for the same role and name always has the
// same key, until it is revoked.
func (k *Keys) Credentials(role Role, name string) ([]byte, error) {
	if err := fleet.CheckHostName(name); err != nil {
		return nil, err
	}
	account, err := k.readAccount()
	if err != nil {
		return nil, err
	}
	pair, err := k.current(account, role, name)
	if err != nil {
		return nil, err
	}
	return k.certify(pair, k.userClaims(pair, role, name, role.permissions(name)))
}

// userClaims are the certificate of a client.
func (k *Keys) userClaims(pair nkeys.KeyPair, role Role, name string, p fleet.Permissions) *jwt.UserClaims {
	claims := jwt.NewUserClaims(public(pair))
	claims.Name = role.String() + "." + name
	claims.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket)
	if role == RoleHost {
		claims.Limits.Subs = hostSubscriptions
	}
	claims.Permissions.Pub = allow(p.Publish)
	claims.Permissions.Sub = allow(p.Subscribe)
	return claims
}

// allow allows a list of subjects and nothing else. To NATS, an empty list would mean that everything is allowed.
func allow(subjects []string) (p jwt.Permission) {
	if len(subjects) == 0 {
		p.Deny.Add(">")
	}
	p.Allow.Add(subjects...)
	return p
}

// certify signs a certificate, and returns the .creds file.
func (k *Keys) certify(pair nkeys.KeyPair, claims *jwt.UserClaims) ([]byte, error) {
	text, err := claims.Encode(k.account)
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	return jwt.FormatUserConfig(text, seed)
}

// current returns the key of a client that is not revoked. The keys of a name are numbered; the revoked ones are the first.
func (k *Keys) current(account *jwt.AccountClaims, role Role, name string) (nkeys.KeyPair, error) {
	for n := range maxRevocations {
		raw, err := k.derive(fmt.Sprintf("%v %s %d", role, name, n))
		if err != nil {
			return nil, err
		}
		pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, raw)
		if err != nil {
			return nil, err
		}
		if _, revoked := account.Revocations[public(pair)]; !revoked {
			return pair, nil
		}
	}
	return nil, fmt.Errorf("the credentials of %v %s were revoked too often", role, name)
}

// Revoke makes all credentials useless that were made for a client before. A running hub notices, and disconnects the client; in a
// cluster it tells the other nodes. Hubs with copies of the keys that are not in one cluster have to be told one by one.
func (k *Keys) Revoke(role Role, name string) error {
	if err := fleet.CheckHostName(name); err != nil {
		return err
	}
	return k.change(func(account *jwt.AccountClaims) (bool, error) {
		pair, err := k.current(account, role, name)
		if err != nil {
			return false, err
		}
		// The key is never used again, so the time of a certificate does not matter, nor the clock of the machine that made it.
		account.RevokeAt(public(pair), validUntil)
		return true, nil
	})
}

// newAccount is the certificate of the account without revocations.
func (k *Keys) newAccount() *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(public(k.account))
	claims.Name = accountName
	claims.Limits.DisallowBearer = true
	claims.Limits.LeafNodeConn = 0
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: jwt.NoLimit, Streams: maxStreams, Consumer: jwt.NoLimit}
	return claims
}

// maxStreams is how many streams a fleet may have. Each bucket of the directory is one.
const maxStreams = 16

// readAccount returns the certificate of the account, with the revocations.
func (k *Keys) readAccount() (*jwt.AccountClaims, error) {
	text, err := k.readRevocations()
	if err != nil {
		return nil, err
	}
	return k.parseAccount(text)
}

// readRevocations returns the content of accountFile; "": nothing was ever revoked.
func (k *Keys) readRevocations() (string, error) {
	text, err := os.ReadFile(filepath.Join(k.dir, accountFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read revocations: %w", err)
	}
	return string(text), nil
}

// parseAccount returns the certificate of the account. The revocations are those of the text, the limits those of this version.
func (k *Keys) parseAccount(text string) (*jwt.AccountClaims, error) {
	claims := k.newAccount()
	if text == "" {
		return claims, nil
	}
	old, err := jwt.DecodeAccountClaims(text)
	if err == nil && (old.Issuer != public(k.operator) || old.Subject != public(k.account)) {
		err = errors.New("it belongs to another fleet")
	}
	if err != nil {
		return nil, fmt.Errorf("the file %s has no revocations: %w", filepath.Join(k.dir, accountFile), err)
	}
	claims.Revocations = old.Revocations
	return claims, nil
}

// writeAccount replaces the certificate of the account.
func (k *Keys) writeAccount(claims *jwt.AccountClaims) error {
	text, err := claims.Encode(k.operator)
	if err != nil {
		return err
	}
	name := filepath.Join(k.dir, accountFile)
	temporary, err := writeBeside(name, []byte(text))
	if err != nil {
		return fmt.Errorf("write revocations: %w", err)
	}
	if err := os.Rename(temporary, name); err != nil {
		return errors.Join(fmt.Errorf("write revocations: %w", err), os.Remove(temporary))
	}
	return nil
}
