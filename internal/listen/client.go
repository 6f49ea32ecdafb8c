package listen

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Client says which client a connection belongs to.
type Client struct {
	Peer string // its name for the log
	Via  string // how its connection has come: a value of the label listener

	// Principal tells clients apart: the claim "sub" of a signed token, or the subject of a certificate that the listener has
	// verified ("cert:CN=build"). It is empty for clients that are not told apart: those without authentication, with a
	// capability token alone, or with a signed token without "sub".
	Principal string

	// ReadOnly means that the client may look at sessions and processes, and may not change or start anything.
	ReadOnly bool

	// Admin means that the sessions of all principals are to the client like those of its own, except that it cannot resume them.
	Admin bool

	// Expires is when the token or certificate ends with which the client has come; zero: it does not. The connection lives on, and a browser
	// that the client lets in may open none after that.
	Expires time.Time

	Browser bool // it is a page of the console

	Epoch uint64 // see console.Grant

	Query string // of the URL that the client has asked for, not decoded
}

// maxPrincipal limits the length of a principal, which is recorded with each session.
const maxPrincipal = 256

// ValidPrincipal reports whether a text can be a principal. JSON decoders put the replacement character in the place of invalid text, so two
// different texts could become the same principal.
func ValidPrincipal(s string) bool {
	return len(s) <= maxPrincipal && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

// certified returns the client that a verified certificate names.
func certified(r *http.Request) Client {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Client{}
	}
	certificate := r.TLS.VerifiedChains[0][0]
	return Client{Principal: certificatePrincipal(certificate), Expires: certificate.NotAfter}
}

// certificatePrincipal returns the principal of a certificate: its whole subject, which stays the same if the certificate is renewed
// with a new key. A subject that is too long or not printable is named by its digest, and a certificate without a subject by its key.
func certificatePrincipal(c *x509.Certificate) string {
	name := "cert:" + c.Subject.String()
	switch {
	case name == "cert:":
		return fmt.Sprintf("cert:key-sha256:%x", sha256.Sum256(c.RawSubjectPublicKeyInfo))
	case !ValidPrincipal(name):
		return fmt.Sprintf("cert:subject-sha256:%x", sha256.Sum256(c.RawSubject))
	}
	return name
}
