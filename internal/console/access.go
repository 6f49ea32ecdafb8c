package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"
)

const (
	// codeTime is how long a code can be used. A person needs it at once, and it may have been printed.
	codeTime = time.Minute
	// maxCodes limits the codes that wait to be used.
	maxCodes = 64
	// loginTime is how long a browser stays logged in: a day of work.
	loginTime = 12 * time.Hour
	// maxLogins limits the browsers that are logged in. One more ends the oldest login of the same principal, or the oldest of all.
	maxLogins = 256

	codeSize   = 16 // random bytes
	keySize    = 16
	cookieSize = 32
)

// A digest stands for a secret: it can be compared, and not be used in its place.
type digest [sha256.Size]byte

// newSecret returns a random text for URLs and cookies, with its digest.
func newSecret(size int) (string, digest) {
	b := make([]byte, size)
	rand.Read(b) // never fails
	text := base64.RawURLEncoding.EncodeToString(b)
	return text, sha256.Sum256([]byte(text))
}

// codes are the codes that were not used yet.
type codes map[digest]code

type code struct {
	grant Grant
	until time.Time
}

// add returns a new code.
func (c *codes) add(g Grant) (string, error) {
	now := time.Now()
	for d, code := range *c {
		if !now.Before(code.until) {
			delete(*c, d)
		}
	}
	if len(*c) >= maxCodes {
		return "", ErrCodes
	}
	if *c == nil {
		*c = codes{}
	}
	text, d := newSecret(codeSize)
	(*c)[d] = code{g, now.Add(codeTime)}
	return text, nil
}

// take returns the grant of a code, which cannot be used again.
func (c codes) take(text string) (Grant, bool) {
	d := digest(sha256.Sum256([]byte(text)))
	code, known := c[d]
	delete(c, d)
	now := time.Now()
	expired := !code.grant.Expires.IsZero() && !now.Before(code.grant.Expires)
	return code.grant, known && now.Before(code.until) && !expired
}

// logins are the browsers that are logged in, by their cookie.
type logins map[digest]login

type login struct {
	grant        Grant
	key          digest
	begun, until time.Time
}

// add logs a browser in.
func (l *logins) add(g Grant) (cookie, key string, until time.Time) {
	now := time.Now()
	if *l == nil {
		*l = logins{}
	}
	for len(*l) >= maxLogins {
		delete(*l, l.surplus(g.Principal, now))
	}
	until = now.Add(loginTime)
	if e := g.Expires; !e.IsZero() && e.Before(until) {
		until = e
	}
	cookie, d := newSecret(cookieSize)
	key, k := newSecret(keySize)
	(*l)[d] = login{g, k, now, until}
	return cookie, key, until
}

// surplus returns the login that has to make room: one that is over, else the oldest of a principal, else the oldest of all.
func (l logins) surplus(principal string, now time.Time) (found digest) {
	var best login
	any := false
	for d, one := range l {
		own, bestOwn := one.grant.Principal == principal, best.grant.Principal == principal
		switch {
		case !now.Before(one.until):
			return d
		case !any, own && !bestOwn, own == bestOwn && one.begun.Before(best.begun):
			any, found, best = true, d, one
		}
	}
	return found
}

// find returns the grant of a browser that has a cookie and the key that belongs to it.
func (l logins) find(cookie, key string) (Grant, bool) {
	d, k := sha256.Sum256([]byte(cookie)), sha256.Sum256([]byte(key))
	one, known := l[d]
	if !known || subtle.ConstantTimeCompare(k[:], one.key[:]) != 1 {
		return Grant{}, false
	}
	if !time.Now().Before(one.until) {
		delete(l, d)
		return Grant{}, false
	}
	return one.grant, true
}

// end ends a login.
func (l logins) end(cookie string) { delete(l, sha256.Sum256([]byte(cookie))) }
