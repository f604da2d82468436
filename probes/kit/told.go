package kit

import (
	"regexp"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
)

// digest is how canaries are named.
var digest = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// Told is the observation of something that nobody inside can see and that the battery
// has looked at: its first line says what was looked at, every further one what was
// found, canaries by their digests.
func Told(text string) manifest.Observation {
	looked, found, _ := strings.Cut(strings.TrimSpace(text), "\n")
	switch {
	case looked == "":
		return Missing("it was not looked at")
	case found == "":
		return manifest.Observation{Sign: manifest.SignAbsent, Detail: looked}
	}
	return manifest.Observation{Sign: manifest.SignReached, Detail: looked + ": " + strings.ReplaceAll(digest.ReplaceAllString(found, "a secret"), "\n", "; "),
		Obtained: digest.FindAllString(found, -1)}
}
