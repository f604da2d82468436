package keyshape

import (
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
