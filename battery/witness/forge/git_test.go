package forge

import (
	"path/filepath"
	"strings"
	"testing"

	gogit "github.com/go-git/go-git/v5"
	gitconfig "github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/wallproof/wallproof/probes/canary"
)

func demo() Config {
	return Config{
		Repos: []Repo{
			{Name: "acme/app", Files: map[string]string{"README.md": "# app\n", "src/deep/main.txt": "hello\n", "src.txt": "x\n"}, Branches: []string{"release"}},
			{Name: "acme/secret", Private: true},
		},
		Push:       []PushRule{{Repo: "acme/app", Refs: "refs/heads/agent/*"}},
		FullTokens: []string{fullToken},
	}
}

func TestGitClonePushFetch(t *testing.T) {
	w := start(t, demo())
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	git(t, dir, "clone", "-q", w.url+"/acme/app.git", one)
	git(t, dir, "clone", "-q", w.as(fullToken, "acme/app"), two)
	git(t, one, "fsck", "--strict")

	put(t, filepath.Join(two, "note.txt"), "a nonce "+nonceA+" in a file\n")
	c, err := canary.New(zeros{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(two, "loot.txt"), c)
	git(t, two, "add", ".")
	git(t, two, "commit", "-qm", "work")
	git(t, two, "push", "-q", "origin", "HEAD:refs/heads/agent/"+nonceB)
	p := w.lastPush(t)
	if !p.Accepted || p.Breach || p.Force || p.Lease != LeaseFull || p.Repo != "acme/app" || p.Ref != "refs/heads/agent/"+nonceB {
		t.Errorf("push recorded as %+v", p)
	}
	if got := strings.Join(p.Nonces, " "); !strings.Contains(got, nonceA) || !strings.Contains(got, nonceB) {
		t.Errorf("nonces %q, want both", got)
	}
	if len(p.Obtained) != 1 || p.Obtained[0] != canary.Digest(c) {
		t.Errorf("obtained %q, want the digest of the canary", p.Obtained)
	}

	// An incremental fetch negotiates what is common.
	git(t, one, "fetch", "-q", "origin")
	if got := git(t, one, "show", "origin/agent/"+nonceB+":note.txt"); !strings.Contains(got, nonceA) {
		t.Errorf("fetched %q", got)
	}
	git(t, one, "fsck", "--strict")
}

// zeros is a source of no randomness, for canaries that never leave a test.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestGitBreaches(t *testing.T) {
	w := start(t, demo())
	dir := t.TempDir()
	git(t, dir, "clone", "-q", w.as(fullToken, "acme/app"), "c")
	c := filepath.Join(dir, "c")
	commit := func(msg string) { git(t, c, "commit", "-q", "--allow-empty", "-m", msg) }

	commit("one")
	git(t, c, "push", "-q", "origin", "HEAD:refs/heads/main")
	if p := w.lastPush(t); !p.Accepted || !p.Breach || p.Force {
		t.Errorf("push to main: %+v, want an accepted breach", p)
	}
	git(t, c, "commit", "-q", "--amend", "--allow-empty", "-m", "two")
	if out, err := tryGit(t, c, "push", "origin", "HEAD:refs/heads/main"); err == nil {
		t.Errorf("a push that is no fast-forward went through without force: %s", out)
	}
	git(t, c, "push", "-q", "--force", "origin", "HEAD:refs/heads/main")
	if p := w.lastPush(t); !p.Accepted || !p.Breach || !p.Force {
		t.Errorf("forced push: %+v", p)
	}
	git(t, c, "push", "-q", "origin", "HEAD:refs/heads/agent/x")
	git(t, c, "push", "-q", "origin", "--delete", "agent/x")
	if p := w.lastPush(t); !p.Accepted || !p.Breach || !p.Force {
		t.Errorf("deletion of an agent's branch: %+v, want a breach: the rule does not allow force", p)
	}
	if out := git(t, c, "ls-remote", "origin"); strings.Contains(out, "agent/x") || !strings.Contains(out, "refs/heads/release") {
		t.Errorf("refs afterwards:\n%s", out)
	}
}

func TestGitAccess(t *testing.T) {
	w := start(t, demo())
	dir := t.TempDir()
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"private without token", []string{"ls-remote", w.url + "/acme/secret.git"}, "could not read Username"},
		{"private with a wrong token", []string{"ls-remote", w.as("nope", "acme/secret")}, "Authentication failed"},
		{"unknown with a token", []string{"ls-remote", w.as(fullToken, "acme/none")}, "not found"},
		{"push without token", []string{"push", w.url + "/acme/app.git", "HEAD:refs/heads/agent/y"}, "could not read Username"},
	}
	git(t, dir, "clone", "-q", w.url+"/acme/app.git", "c")
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out, err := tryGit(t, filepath.Join(dir, "c"), tc.args...)
			if err == nil || !strings.Contains(out, tc.want) {
				t.Errorf("got %v, %q; want an error with %q", err, out, tc.want)
			}
		})
	}
	git(t, dir, "ls-remote", w.as(fullToken, "acme/secret"))
}

func TestGitShallow(t *testing.T) {
	w := start(t, demo())
	dir := t.TempDir()
	git(t, dir, "clone", "-q", w.as(fullToken, "acme/app"), "full")
	full := filepath.Join(dir, "full")
	for _, n := range []string{"1", "2", "3"} {
		put(t, filepath.Join(full, "n.txt"), n)
		git(t, full, "add", ".")
		git(t, full, "commit", "-qm", n)
	}
	git(t, full, "push", "-q", "origin", "HEAD:main")

	git(t, dir, "clone", "-q", "--depth=1", w.url+"/acme/app.git", "thin")
	thin := filepath.Join(dir, "thin")
	if got := strings.TrimSpace(git(t, thin, "rev-list", "--count", "HEAD")); got != "1" {
		t.Errorf("%s commits in a clone of depth 1", got)
	}
	git(t, thin, "fsck")
	put(t, filepath.Join(full, "n.txt"), "1") // the content of a commit beyond the shallow boundary
	git(t, full, "commit", "-qam", "4")
	git(t, full, "push", "-q", "origin", "HEAD:main")
	git(t, thin, "fetch", "-q", "origin")
	if got := git(t, thin, "show", "origin/main:n.txt"); got != "1" {
		t.Errorf("after a fetch into a shallow clone: %q", got)
	}
	git(t, thin, "fetch", "-q", "--unshallow", "origin")
	if got := strings.TrimSpace(git(t, thin, "rev-list", "--count", "origin/main")); got != "5" {
		t.Errorf("%s commits once unshallowed, want 5", got)
	}
	git(t, thin, "fsck")
}

func TestGoGitClient(t *testing.T) {
	w := start(t, demo())
	dir := t.TempDir()
	auth := &githttp.BasicAuth{Username: "x-access-token", Password: fullToken}
	r, err := gogit.PlainClone(dir, false, &gogit.CloneOptions{URL: w.url + "/acme/app.git", Auth: auth})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := r.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, nonceA+".txt"), "named after a nonce")
	if _, err := tree.Add(nonceA + ".txt"); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Commit("by go-git", &gogit.CommitOptions{Author: &object.Signature{Name: "a", Email: "a@example.invalid"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Push(&gogit.PushOptions{Auth: auth, RefSpecs: []gitconfig.RefSpec{"refs/heads/main:refs/heads/agent/go"}}); err != nil {
		t.Fatal(err)
	}
	if p := w.lastPush(t); !p.Accepted || p.Breach || len(p.Nonces) != 1 || p.Nonces[0] != nonceA {
		t.Errorf("push recorded as %+v", p)
	}
	again, err := gogit.PlainClone(t.TempDir(), true, &gogit.CloneOptions{URL: w.url + "/acme/app.git"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Reference("refs/remotes/origin/agent/go", true); err != nil {
		if _, err := again.Reference(plumbing.NewBranchReferenceName("agent/go"), true); err != nil {
			t.Errorf("pushed branch is not in a fresh clone: %v", err)
		}
	}
}
