package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/tetherexec/tether/internal/filelock"
)

const (
	// revocationsSubject is where the nodes of a cluster tell each other what is revoked. It belongs to the system account, in which
	// only hubs are.
	revocationsSubject = "tether.revocations"

	// shareInterval is how often a node tells the others. A node that was away learns of a revocation within that time.
	shareInterval = 5 * time.Second
)

// share tells the other nodes of the cluster what is revoked, and learns it from them, until ctx ends.
func (h *Hub) share(ctx context.Context) error {
	conn, err := h.connectSystem()
	if err != nil {
		return err
	}
	_, err = conn.Subscribe(revocationsSubject, func(m *nats.Msg) {
		if err := h.keys.merge(string(m.Data)); err != nil {
			h.log.Error("revocations of another node have no effect", "err", err)
		}
	})
	if err != nil {
		conn.Close()
		return err
	}
	h.tasks.Go(func() { // ends with ctx
		defer conn.Close()
		tick := time.NewTicker(shareInterval)
		defer tick.Stop()
		for {
			text, err := h.keys.readRevocations()
			if err == nil && text != "" {
				err = conn.Publish(revocationsSubject, []byte(text))
			}
			if err != nil && ctx.Err() == nil {
				h.log.Warn("other nodes do not learn of revocations", "err", err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// connectSystem connects to this node as a client of the system account.
func (h *Hub) connectSystem() (*nats.Conn, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(public(pair))
	claims.Name = "revocations"
	claims.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess)
	claims.Permissions.Pub, claims.Permissions.Sub = allow([]string{revocationsSubject}), allow([]string{revocationsSubject})
	token, err := claims.Encode(h.keys.system)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", nats.InProcessServer(local{h}), nats.UserJWTAndSeed(token, string(seed)), nats.NoEcho(), nats.MaxReconnects(-1), nats.ReconnectWait(shareInterval),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { h.log.Warn("error between nodes", "err", err) }))
}

// local connects to the server of a hub, whichever it is.
type local struct{ hub *Hub }

func (l local) InProcessConn() (net.Conn, error) { return l.hub.current().InProcessConn() }

// merge adds revocations that another node knows. Nothing is ever taken back.
func (k *Keys) merge(text string) error {
	other, err := k.parseAccount(text)
	if err != nil {
		return err
	}
	return k.change(func(account *jwt.AccountClaims) (bool, error) {
		news := false
		for key, at := range other.Revocations {
			if _, known := account.Revocations[key]; !known {
				account.RevokeAt(key, time.Unix(at, 0))
				news = true
			}
		}
		return news, nil
	})
}

// change changes the certificate of the account. It writes it if f reports that there is news.
func (k *Keys) change(f func(*jwt.AccountClaims) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockPatience, errors.New("another process revokes credentials"))
	defer cancel()
	lock, err := filelock.Lock(ctx, filepath.Join(k.dir, lockFile))
	if err != nil {
		return fmt.Errorf("revoke credentials: %w", err)
	}
	defer lock.Close()
	account, err := k.readAccount()
	if err != nil {
		return err
	}
	if news, err := f(account); err != nil || !news {
		return err
	}
	return k.writeAccount(account)
}
