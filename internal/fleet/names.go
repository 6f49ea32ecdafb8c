package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Limits of names.
const (
	// maxName is the longest name of a host or key of a label.
	maxName = 63
	// maxLabel is the longest label.
	maxLabel = 127
	// MaxLabels is how many labels a host may have, and how many a client may ask for.
	MaxLabels = 32
)

var (
	hostName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	labelKey   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]*[a-z0-9])?$`)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
)

// CheckHostName refuses names that no host can have. A name is one part of a subject.
func CheckHostName(name string) error {
	if len(name) > maxName || !hostName.MatchString(name) {
		return fmt.Errorf("%q is not a name for a host: use up to %d lower-case letters, digits and hyphens, with a letter or a digit at both ends", name, maxName)
	}
	return nil
}

// CheckLabel refuses what is neither KEY nor KEY=VALUE.
func CheckLabel(label string) error {
	key, value, _ := strings.Cut(label, "=")
	if len(label) > maxLabel || len(key) > maxName || !labelKey.MatchString(key) || !labelValue.MatchString(value) {
		return fmt.Errorf("%q is not a label: use KEY or KEY=VALUE, up to %d letters, digits, dots, hyphens and underscores, the key in lower case", label, maxLabel)
	}
	return nil
}

// CheckLabels refuses a list of labels with a wrong one, or with too many.
func CheckLabels(labels []string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%d labels are too many: the limit is %d", len(labels), MaxLabels)
	}
	var errs []error
	for _, label := range labels {
		errs = append(errs, CheckLabel(label))
	}
	return errors.Join(errs...)
}

// idSize is the number of random bytes of a NewID.
const idSize = 16

// NewID returns a random name for a gateway, a link or an instance of a host. It cannot be guessed.
func NewID() string {
	var b [idSize]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// SessionKey returns the key of a session in the directory. It does not reveal the id of the session, with which a client could
// resume it.
func SessionKey(sessionID string) string {
	sum := sha256.Sum256([]byte("tether session " + sessionID))
	return hex.EncodeToString(sum[:])
}
