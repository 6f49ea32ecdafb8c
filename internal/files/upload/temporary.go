package upload

import "crypto/rand"

const (
	// tempPrefix starts the name of a temporary file.
	tempPrefix = ".tether-upload-"
	// modeSuffix ends the name of an empty file that is made for a moment to find out
	// the mode of new files.
	modeSuffix = "-mode"
)

// tempName returns a name that is unique and cannot be guessed.
func tempName() string { return tempPrefix + rand.Text() }
