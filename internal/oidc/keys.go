package oidc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchTime is how long the issuer may take. A client waits for it, and must be answered within 10 s.
	fetchTime = 5 * time.Second
	// fetchPause is the least time between two attempts, so that clients with forged tokens cannot make the server ask the issuer all the time. A token that is
	// signed with a new key of the issuer is refused for so long at worst.
	fetchPause = 10 * time.Second
	// freshTime is how long keys are used before they are fetched again: for so long tokens are accepted that are signed with a key that the issuer has withdrawn.
	freshTime = 10 * time.Minute
	// keptTime is how long keys are used while the issuer cannot be reached.
	keptTime = 24 * time.Hour
)

// keys are the public keys of the issuer. They are fetched when a token needs them, by the request of the client with that token, one request at a time.
type keys struct {
	fetch    func(context.Context) ([]jose.JSONWebKey, error)
	now      func() time.Time
	patience time.Duration // fetchTime

	mu      sync.Mutex
	set     []jose.JSONWebKey
	fetched time.Time     // when set was fetched; zero: never
	tried   time.Time     // when the newest attempt has begun; zero: there was none
	failed  bool          // it has failed
	running chan struct{} // closed at the end of the attempt in progress; nil: there is none
}

func newKeys(fetch func(context.Context) ([]jose.JSONWebKey, error)) *keys {
	return &keys{fetch: fetch, now: time.Now, patience: fetchTime}
}

// find returns the keys with which a token may be signed. Without a key id these are all keys for the algorithm.
func (k *keys) find(ctx context.Context, id, algorithm string, log *slog.Logger) ([]jose.JSONWebKey, error) {
	for {
		found, wait, err := k.look(id, algorithm, log)
		switch {
		case wait == nil:
			return found, err
		case ctx.Err() != nil: // the client has left
			return nil, errNoKeys
		}
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
}

// look returns the keys that are known. If they are not enough, it returns what to wait for before the next look: the end of an attempt to fetch the keys. It
// makes that attempt itself, unless there is one.
func (k *keys) look(id, algorithm string, log *slog.Logger) (found []jose.JSONWebKey, wait <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	age := now.Sub(k.fetched)
	if age < keptTime {
		for _, key := range k.set {
			if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
				found = append(found, key)
			}
		}
	}
	paused := now.Sub(k.tried) < fetchPause
	switch {
	case len(found) > 0 && (age < freshTime || paused || k.running != nil):
		return found, nil, nil
	case k.running != nil:
		return nil, k.running, nil
	case !paused:
		return nil, k.updateLocked(now, log), nil
	case k.failed || age >= keptTime:
		return nil, nil, errNoKeys
	}
	return nil, nil, errUnknown
}

// updateLocked fetches the keys, without the lock. It does not end with the client that needs them: others may wait, too.
func (k *keys) updateLocked(now time.Time, log *slog.Logger) <-chan struct{} {
	done := make(chan struct{})
	k.running, k.tried = done, now
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), k.patience)
	set, err := k.fetch(ctx)
	cancel()
	k.mu.Lock()
	switch {
	case err != nil && k.now().Sub(k.fetched) < keptTime:
		log.Warn("the keys of the issuer cannot be fetched again: those of before are used", "err", err, "fetched", k.fetched)
	case err != nil:
		log.Error("the keys of the issuer cannot be fetched: no client can log in", "err", err)
	case k.failed:
		log.Info("the keys of the issuer could be fetched", "keys", len(set))
	}
	if k.failed = err != nil; err == nil {
		k.set, k.fetched = set, k.now()
	}
	k.running = nil
	close(done)
	return done
}
