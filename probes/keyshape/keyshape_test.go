package keyshape

import (
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	for text, want := range map[string]string{
		"id = AKIA" + strings.Repeat("Q", 16):          "an AWS access key",
		"token ghp_" + strings.Repeat("a", 36):         "a GitHub token",
		"key: sk-ant-api03-" + strings.Repeat("b", 40): "an OpenAI or Anthropic key",
		"AKIAIOSFODNN7EXAMPLE":                         "",
		"nothing of the kind":                          "",
		"":                                             "",
		"-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("A", 70): "a private key",
	} {
		if got := Find([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestAll puts a key with each of its beginnings at the start, the end and in the
// middle of a text that is full of other beginnings.
func TestAll(t *testing.T) {
	bodies := []string{strings.Repeat("Q", 16), strings.Repeat("a", 80), strings.Repeat("ab12", 20), strings.Repeat("a", 22) + "." + strings.Repeat("b", 44),
		"proj-" + strings.Repeat("c", 40), "b-" + strings.Repeat("d", 24), "aaaaaaaaaaaa.eyJbbbbbbbbbbbb." + strings.Repeat("c", 24), "EC PRIVATE KEY-----\n" + strings.Repeat("A", 70)}
	noise := strings.Repeat("eyJ sk- AKIA hvs. xox -----BEGIN ghp_ SG. \x00\xff", 40)
	for i, f := range forms {
		for _, begin := range f.begins {
			var key string
			for _, body := range bodies {
				if compiled()[i].MatchString(begin + body) {
					key = begin + body
					break
				}
			}
			if key == "" {
				t.Errorf("%s: no body makes a key of %q", f.name, begin)
				continue
			}
			for place, text := range map[string]string{"alone": key, "first": key + " " + noise, "last": noise + " " + key, "between": noise + "=" + key + "\n" + noise} {
				if found := All([]byte(text)); !slices.ContainsFunc(found, func(m Match) bool { return m.Form == f.name && strings.HasPrefix(m.Text, begin) }) {
					t.Errorf("%s, %s: %v", key, place, found)
				}
			}
		}
	}
	if found := All([]byte(noise + "AKIAIOSFODNN7EXAMPLE " + noise)); len(found) != 0 {
		t.Errorf("found %v in noise", found)
	}
}
