package site

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/wallproof/wallproof/site/history"
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
// them in: those that say whether anything is due, and those that build.
func steps(t *testing.T, name string) (due, site [][]string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("examples", name))
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		Steps []struct {
			Run string `yaml:"run"`
			If  string `yaml:"if"`
		} `yaml:"steps"`
		Script []string `yaml:"script"`
	}
	var v struct {
		Jobs struct{ Due, Site job } `yaml:"jobs"`
		Due  job                     `yaml:"due"`
		Site job                     `yaml:"pages"`
	}
	if err := yaml.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	shell := func(j job) (out [][]string) {
		for _, s := range j.Steps {
			if s.Run != "" && s.If == "" {
				out = append(out, []string{"bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", s.Run})
			}
		}
		if len(j.Script) > 0 {
			out = append(out, []string{"sh", "-e", "-c", strings.Join(j.Script, "\n")})
		}
		return out
	}
	due, site = append(shell(v.Jobs.Due), shell(v.Due)...), append(shell(v.Jobs.Site), shell(v.Site)...)
	if len(due) == 0 || len(site) == 0 {
		t.Fatalf("%s: %d steps that say what is due, %d that build", name, len(due), len(site))
	}
	return due, site
}

// stage is a folder in which the steps of an example run, with programs of its own in
// the place of others.
type stage struct {
	t   *testing.T
	dir string
}

func (s stage) program(name, text string) {
	s.t.Helper()
	bin := filepath.Join(s.dir, "bin")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755)); err != nil {
		s.t.Fatal(err)
	}
}

// run runs steps until one fails, and returns its exit code.
func (s stage) run(steps [][]string, env ...string) int {
	s.t.Helper()
	for _, step := range steps {
		cmd := exec.CommandContext(s.t.Context(), step[0], step[1:]...)
		cmd.Dir = s.dir
		cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"), "URL=https://example.org/trust/", "CI_PAGES_URL=https://example.org/trust",
			"GITHUB_PATH="+s.dir+"/path", "GITHUB_OUTPUT="+s.dir+"/output"), env...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		if err != nil {
			s.t.Fatalf("%v: %s", err, out)
		}
	}
	return 0
}

// has gives what a file of the stage holds, or "".
func (s stage) has(name string) string {
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// TestExampleDue runs the steps that look once an hour whether the site is to be built,
// at 12:17 of a day: it is when a claim ends before the next look, at that moment and
// not before; when the last build is a day ago; when the published site does not say; and on
// every event that is no schedule. The status is one that Build wrote.
func TestExampleDue(t *testing.T) {
	date, err := exec.LookPath("date")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 4, 12, 17, 0, 0, time.UTC)
	status := func(checked, next time.Duration) string {
		s := status{Schema: statusSchema, State: StateCurrent, Name: `odd","next":"2000-01-01T00:00:00Z","x":"`, Checked: history.Stamp(now.Add(checked)), Fleet: "sha256:00"}
		if next != 0 {
			s.Next = history.Stamp(now.Add(next))
		}
		j, err := compact(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(j)
	}
	for _, c := range []struct {
		what, event, status string
		curl                int
		due, slept          string
	}{
		{"in weeks", "schedule", status(-time.Hour, 400*time.Hour), 0, "no", ""},
		{"after the next look", "schedule", status(-time.Hour, 2*time.Hour), 0, "no", ""},
		{"before the next look", "schedule", status(-time.Hour, 43*time.Minute), 0, "yes", "2581"},
		{"now", "schedule", status(-time.Hour, -time.Second), 0, "yes", ""},
		{"an hour ago", "schedule", status(-2*time.Hour, -time.Hour), 0, "yes", ""},
		{"no claim is shown", "schedule", status(-time.Hour, 0), 0, "no", ""},
		{"no claim is shown, a day ago", "schedule", status(-24*time.Hour, 0), 0, "yes", ""},
		{"a day ago", "schedule", status(-25*time.Hour, 400*time.Hour), 0, "yes", ""},
		{"not published yet", "schedule", "", 22, "yes", ""},
		{"out of reach", "schedule", "", 7, "yes", ""},
		{"garbage", "schedule", "<html>", 0, "yes", ""},
		{"no such time", "schedule", `{"checked":"99-99","next":"99-99"}`, 0, "yes", ""},
		{"a change", "push", status(-time.Hour, 400*time.Hour), 0, "yes", ""},
		{"a deployment", "repository_dispatch", status(-time.Hour, 43*time.Minute), 0, "yes", ""},
	} {
		for _, name := range []string{"github-pages.yml", "gitlab-pages.yml"} {
			t.Run(name+"/"+c.what, func(t *testing.T) {
				s := stage{t, t.TempDir()}
				s.program("date", fmt.Sprintf("case \"$*\" in '-u +%%s') echo %d ;; *) exec %s \"$@\" ;; esac", now.Unix(), date))
				s.program("sleep", `echo "$1" >slept`)
				s.program("curl", fmt.Sprintf("case \"$*\" in *--fail*https://example.org/trust/status.json*) ;; *) exit 3 ;; esac\nwhile [ \"$1\" != --output ]; do shift; done; cat answer >\"$2\"; exit %d", c.curl))
				if err := os.WriteFile(filepath.Join(s.dir, "answer"), []byte(c.status), 0o644); err != nil {
					t.Fatal(err)
				}
				due, _ := steps(t, name)
				if code := s.run(due, "EVENT="+c.event); code != 0 {
					t.Fatalf("ends with %d", code)
				}
				if got := strings.TrimPrefix(s.has("output")+s.has("site.due"), "due="); got != c.due {
					t.Errorf("due: %q, want %q", got, c.due)
				}
				if got := s.has("slept"); got != c.slept {
					t.Errorf("waited %q, want %q", got, c.slept)
				}
			})
		}
	}
}

// TestExampleNotDue: a job that has nothing to do publishes nothing.
func TestExampleNotDue(t *testing.T) {
	s := stage{t, t.TempDir()}
	if err := os.WriteFile(filepath.Join(s.dir, "site.due"), []byte("no\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, site := steps(t, "gitlab-pages.yml")
	said := read(t, "examples", "gitlab-pages.yml")
	if code := s.run(site); code != 75 || !strings.Contains(said, "allow_failure: {exit_codes: 75}") || s.has("public") != "" {
		t.Errorf("ends with %d", code)
	}
	if said := read(t, "examples", "github-pages.yml"); !strings.Contains(said, "if: needs.due.outputs.due == 'yes'") || !strings.Contains(said, "due: ${{ steps.due.outputs.due }}") {
		t.Error("the job of the other host does not ask whether anything is due")
	}
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
				s := stage{t, t.TempDir()}
				dir := s.dir
				s.program("go", `case "$1" in env) echo `+dir+`/go ;; mod) echo '	"Dir": "`+dir+`",' ;; esac`)
				s.program("curl", fmt.Sprintf(`while [ "$1" != --output ]; do shift; done; echo history >"$2"; printf %03d; exit %d`, c.http, c.curl))
				s.program("wallproof", fmt.Sprintf(`test -e public/history.json && cp public/history.json seen; echo page >public/index.html; exit %d`, c.code))
				build := filepath.Join(dir, "site", "wasm", "build")
				if err := errors.Join(os.MkdirAll(filepath.Dir(build), 0o755), os.WriteFile(build, []byte(`mkdir -p "$1"`), 0o755), os.WriteFile(filepath.Join(dir, "site.due"), []byte("yes\n"), 0o644)); err != nil {
					t.Fatal(err)
				}
				_, site := steps(t, name)
				ended := s.run(site)
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
