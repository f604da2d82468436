package site

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHere: on every page at most one entry of the navigation is marked, and on
// every page that has one, the right one.
func TestHere(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	res := build(t, input(newPacket(t)), out)
	marked := regexp.MustCompile(`<a href="[^"]*" aria-current="([a-z]+)">([^<]+)</a>`)
	for page, want := range map[string]string{
		"index.html":             "page Trust boundary",
		"procurement/index.html": "page Procurement",
		"fleet/index.html":       "page Attestations",
		"verify/index.html":      "page Verify",
		"history/index.html":     "page History",
		res.Primary.Page:         "true Attestations",
		"404.html":               "",
	} {
		var got []string
		for _, m := range marked.FindAllStringSubmatch(read(t, out, page), -1) {
			got = append(got, m[1]+" "+m[2])
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q is marked, want %q", page, got, want)
		}
	}
	if got := here("fleet/2.html", "fleet/index.html"); got != "true" {
		t.Errorf("a further page of the list: %q", got)
	}
}
