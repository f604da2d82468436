package site

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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
		for _, want := range []string{"wallproof site", "history.json", "schedule"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
}

// steps are the shell steps of an example's job, with the shell that its host runs
// them in.
func steps(t *testing.T, name string) [][]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("examples", name))
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Jobs struct {
			Site struct {
				Steps []struct {
					Run string `yaml:"run"`
					If  string `yaml:"if"`
				} `yaml:"steps"`
			} `yaml:"site"`
		} `yaml:"jobs"`
		Pages struct {
			Script []string `yaml:"script"`
		} `yaml:"pages"`
	}
	if err := yaml.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for _, s := range v.Jobs.Site.Steps {
		if s.Run != "" && s.If == "" {
			out = append(out, []string{"bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", s.Run})
		}
	}
	if len(v.Pages.Script) > 0 {
		out = append(out, []string{"sh", "-e", "-c", strings.Join(v.Pages.Script, "\n")})
	}
	return out
}

// TestExampleSteps runs the shell steps of the examples with programs in the place of
// go, curl and wallproof that answer as those do. A page that says that nothing is
// claimed is published, and so takes the place of one that claims; nothing else that
// goes wrong is.
func TestExampleSteps(t *testing.T) {
	for _, name := range []string{"github-pages.yml", "gitlab-pages.yml"} {
		for _, c := range []struct {
			http, curl, code int
			history          bool // is there to be published
			ends             int
		}{
			{200, 0, 0, true, 0}, {200, 0, 3, true, 0}, {200, 0, 2, true, 0}, {404, 0, 0, false, 0}, {404, 0, 3, false, 0},
			{200, 0, 1, true, 1}, {200, 0, 137, true, 137}, {503, 0, 0, false, 1}, {301, 0, 0, false, 1}, {0, 7, 0, false, 7},
		} {
			t.Run(fmt.Sprintf("%s/%d-%d-%d", name, c.http, c.curl, c.code), func(t *testing.T) {
				dir := t.TempDir()
				bin := filepath.Join(dir, "bin")
				program := func(name, text string) {
					t.Helper()
					if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755)); err != nil {
						t.Fatal(err)
					}
				}
				program("go", `case "$1" in env) echo `+dir+`/go ;; mod) echo '	"Dir": "`+dir+`",' ;; esac`)
				program("curl", fmt.Sprintf(`while [ "$1" != --output ]; do shift; done; echo history >"$2"; printf %03d; exit %d`, c.http, c.curl))
				program("wallproof", fmt.Sprintf(`test -e public/history.json && cp public/history.json seen; echo page >public/index.html; exit %d`, c.code))
				build := filepath.Join(dir, "site", "wasm", "build")
				if err := errors.Join(os.MkdirAll(filepath.Dir(build), 0o755), os.WriteFile(build, []byte(`mkdir -p "$1"`), 0o755)); err != nil {
					t.Fatal(err)
				}
				ended := 0
				for _, step := range steps(t, name) {
					cmd := exec.CommandContext(t.Context(), step[0], step[1:]...)
					cmd.Dir = dir
					cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "URL=https://example.org/trust/", "CI_PAGES_URL=https://example.org/trust", "GITHUB_PATH="+dir+"/path", "GITHUB_OUTPUT="+dir+"/output")
					out, err := cmd.CombinedOutput()
					var exit *exec.ExitError
					if errors.As(err, &exit) {
						ended = exit.ExitCode()
						break
					}
					if err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
				if ended != c.ends {
					t.Errorf("ends with %d, want %d", ended, c.ends)
				}
				if _, err := os.Stat(filepath.Join(dir, "seen")); c.ends == 0 && (err == nil) != c.history {
					t.Errorf("the history of the published site: %v", err)
				}
				said := read(t, "examples", name)
				if c.code == 2 && !strings.Contains(said, "exit 2") {
					t.Error("nothing fails when the evidence does not verify")
				}
			})
		}
	}
}
