package upload

import "crypto/rand"

const (
	// tempPrefix starts the name of a temporary file.
	tempPrefix = ".tether-upload-"
	// modeSuffix ends the name of an empty file that shows for a moment what mode new
	// files get.
	modeSuffix = "-mode"
)

// tempName is a name that nobody else has and nobody can guess.
func tempName() string { return tempPrefix + rand.Text() }
