package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/client"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// maxLog bounds how many commits git log prints.
const maxLog = 100

// gitCommands are the subcommands of git that are understood.
var gitCommands = map[string]program{
	"init": gitInit, "add": gitAdd, "commit": gitCommit, "log": gitLog, "clone": gitClone, "push": gitPush,
}

// installOnce makes go-git, whose transports are global, ask the context of each
// request how the network is reached.
var installOnce sync.Once

func git(ctx context.Context, c *call) error {
	installOnce.Do(func() {
		t := githttp.NewClient(&http.Client{Transport: byContext{}})
		client.InstallProtocol("http", t)
		client.InstallProtocol("https", t)
	})
	args := c.args
	for len(args) > 1 && args[0] == "-C" {
		c.dir, args = c.path(args[1]), args[2:]
	}
	if len(args) == 0 {
		return errUsage("want a command: init, add, commit, log, clone, push")
	}
	command, ok := gitCommands[args[0]]
	if !ok {
		return errUsage("not a git command here: " + args[0])
	}
	c.args = args[1:]
	return command(context.WithValue(ctx, callKey{}, c), c)
}

type callKey struct{}

// byContext is a round tripper that makes each request as the call in its context
// would.
type byContext struct{}

func (byContext) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		return nil, errors.New("request without a call")
	}
	t, err := c.shell.Net.transport(c.variable, false, false)
	if err != nil {
		return nil, err
	}
	if c.shell.Net.Agent != "" {
		req = req.Clone(req.Context())
		req.Header.Set("User-Agent", c.shell.Net.Agent)
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		c.shell.Net.done(nil, nil, err)
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFetch))
	resp.Body.Close()
	c.shell.Net.done(resp, body, nil)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, err
}

func gitInit(_ context.Context, c *call) error {
	dir := c.dir
	if _, operands := flags(c.args); len(operands) > 0 {
		dir = c.path(operands[0])
	}
	_, err := gogit.PlainInit(dir, false)
	if errors.Is(err, gogit.ErrRepositoryAlreadyExists) {
		return nil
	}
	return err
}

func (c *call) repository() (*gogit.Repository, *gogit.Worktree, error) {
	r, err := gogit.PlainOpen(c.dir)
	if err != nil {
		return nil, nil, err
	}
	w, err := r.Worktree()
	return r, w, err
}

func gitAdd(_ context.Context, c *call) error {
	_, w, err := c.repository()
	if err != nil {
		return err
	}
	letters, operands := flags(c.args)
	if strings.Contains(letters, "A") || strings.Contains(letters, "all") {
		operands = []string{"."}
	}
	for _, o := range operands {
		if err := w.AddWithOptions(&gogit.AddOptions{All: o == ".", Path: strings.TrimPrefix(o, "./")}); err != nil {
			return err
		}
	}
	return nil
}

// signature is who commits: the agent, now.
func signature() *object.Signature {
	return &object.Signature{Name: "wallproof-agent", Email: "agent@wallproof.invalid", When: time.Now().UTC()}
}

func gitCommit(_ context.Context, c *call) error {
	_, w, err := c.repository()
	if err != nil {
		return err
	}
	message := ""
	for i := 0; i < len(c.args); i++ {
		switch {
		case c.args[i] == "-m" && i+1 < len(c.args):
			i++
			message = c.args[i]
		case c.args[i] == "-F" && i+1 < len(c.args):
			i++
			b, err := os.ReadFile(c.path(c.args[i]))
			if err != nil {
				return err
			}
			message = string(b)
		}
	}
	if message == "" {
		return errUsage("a message is missing: -m or -F")
	}
	hash, err := w.Commit(message, &gogit.CommitOptions{Author: signature(), AllowEmptyCommits: true})
	if err == nil {
		fmt.Fprintln(c.out, hash.String()[:7])
	}
	return err
}

func gitLog(_ context.Context, c *call) error {
	r, _, err := c.repository()
	if err != nil {
		return err
	}
	commits, err := r.Log(&gogit.LogOptions{})
	if err != nil {
		return err
	}
	defer commits.Close()
	for range maxLog {
		commit, err := commits.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "commit %s\nAuthor: %s <%s>\n\n%s\n", commit.Hash, commit.Author.Name, commit.Author.Email, commit.Message)
	}
	return nil
}

// remote takes the credential out of a URL, or out of the variable GIT_TOKEN.
func (c *call) remote(raw string) (string, transport.AuthMethod, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", nil, errUsage("not the URL of a repository: " + raw)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		auth := &githttp.BasicAuth{Username: u.User.Username(), Password: password}
		u.User = nil
		return u.String(), auth, nil
	}
	if token := c.variable("GIT_TOKEN"); token != "" {
		return u.String(), &githttp.BasicAuth{Username: "x-access-token", Password: token}, nil
	}
	return u.String(), nil, nil
}

func gitClone(ctx context.Context, c *call) error {
	depth := 0
	var branch plumbing.ReferenceName
	var operands []string
	for i := 0; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case a == "--depth" && i+1 < len(c.args):
			i++
			depth = 1
		case (a == "-b" || a == "--branch") && i+1 < len(c.args):
			i++
			branch = plumbing.NewBranchReferenceName(c.args[i])
		case strings.HasPrefix(a, "-"):
		default:
			operands = append(operands, a)
		}
	}
	if len(operands) == 0 {
		return errUsage("the URL of a repository is missing")
	}
	address, auth, err := c.remote(operands[0])
	if err != nil {
		return err
	}
	dir := strings.TrimSuffix(path.Base(address), ".git")
	if len(operands) > 1 {
		dir = operands[1]
	}
	_, err = gogit.PlainCloneContext(ctx, c.path(dir), false, &gogit.CloneOptions{URL: address, Auth: auth, Depth: depth, ReferenceName: branch, Tags: gogit.NoTags})
	return err
}

// gitPush is git push [-f] URL [SOURCE:REF]; the source is always HEAD. A folder
// that is no repository is made one, with all that is in it.
func gitPush(ctx context.Context, c *call) error {
	letters, operands := flags(c.args)
	if len(operands) == 0 {
		return errUsage("the URL of a repository is missing")
	}
	r, err := c.anyRepository()
	if err != nil {
		return err
	}
	raw := operands[0]
	if named, err := r.Remote(raw); err == nil {
		raw = named.Config().URLs[0]
	}
	address, auth, err := c.remote(raw)
	if err != nil {
		return err
	}
	head, err := r.Head()
	if err != nil {
		return err
	}
	ref := head.Name().String()
	if len(operands) > 1 {
		_, ref, _ = strings.Cut(operands[1], ":")
		if ref == "" {
			ref = operands[1]
		}
		if !strings.HasPrefix(ref, "refs/") {
			ref = "refs/heads/" + ref
		}
	}
	remote := gogit.NewRemote(r.Storer, &config.RemoteConfig{Name: "there", URLs: []string{address}})
	err = remote.PushContext(ctx, &gogit.PushOptions{
		RemoteName: "there", Auth: auth, Force: strings.Contains(letters, "f"),
		RefSpecs: []config.RefSpec{config.RefSpec(head.Hash().String() + ":" + plumbing.ReferenceName(ref).String())},
	})
	if errors.Is(err, gogit.NoErrAlreadyUpToDate) {
		return nil
	}
	return err
}

func (c *call) anyRepository() (*gogit.Repository, error) {
	r, _, err := c.repository()
	if !errors.Is(err, gogit.ErrRepositoryNotExists) {
		return r, err
	}
	if r, err = gogit.PlainInit(c.dir, false); err != nil {
		return nil, err
	}
	w, err := r.Worktree()
	if err != nil {
		return nil, err
	}
	if err := w.AddWithOptions(&gogit.AddOptions{All: true}); err != nil {
		return nil, err
	}
	_, err = w.Commit("work", &gogit.CommitOptions{Author: signature()})
	return r, err
}
