package site

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestExamples: what is shipped as an example is accepted.
func TestExamples(t *testing.T) {
	th, err := LoadTheme("examples/theme.yaml")
	if err != nil || th.Name == "" || th.logo.ext != "svg" {
		t.Errorf("%+v, %v", th, err)
	}
	for _, name := range []string{"github-pages.yml", "gitlab-pages.yml"} {
		b, err := os.ReadFile(filepath.Join("examples", name))
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := yaml.Unmarshal(b, &v); err != nil || len(v) == 0 {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{"wallproof site", "history.json", "test $? -eq 3", "schedule"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
}
