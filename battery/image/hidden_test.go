package image

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/probes/canary"
)

// What a lower layer holds and a higher one removes is found before it goes; what is
// no secret is only counted.
func TestHiddenSecretsAreFound(t *testing.T) {
	secret := canary.Derive([]byte("hidden"))
	for content, want := range map[string]string{
		"token: " + secret + "\n":                               canary.Digest(secret),
		"//registry/:_authToken=npm_" + strings.Repeat("a", 36): "an npm token",
		"nothing of the kind\n":                                 "",
	} {
		img, err := Hiding("/srv/app/.config/token", content)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Unpack(t.Context(), img, filepath.Join(t.TempDir(), "r"), unpackOptions())
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Join(report.Secrets, "\n")
		if report.Hidden != 1 || !strings.Contains(found, want) || want == "" && found != "" || strings.Contains(found, secret) {
			t.Errorf("%d hidden, %q, want %q", report.Hidden, found, want)
		}
	}
}
