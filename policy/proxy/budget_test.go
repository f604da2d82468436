package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/semaphore"
)

// zeros is a body of so many bytes.
func zeros(n int64) io.Reader { return io.LimitReader(forever{}, n) }

type forever struct{}

func (forever) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// However many bodies arrive at once, no more than the budget is held; each is read to its
// end or to one byte over its limit, none waits for another for ever, and all is given back.
func TestBudgetBoundsWhatIsHeld(t *testing.T) {
	const total, limit = 8 << 20, 3 << 20
	b := budget{semaphore.NewWeighted(total)}
	var mu sync.Mutex
	held, most := int64(0), int64(0)
	hold := func(n int64) {
		mu.Lock()
		defer mu.Unlock()
		held += n
		most = max(most, held)
	}
	var all sync.WaitGroup
	for i := range 64 {
		size := []int64{0, 100, lightRequest - 1, lightRequest, lightRequest + 1, limit, limit + 1, 10 * limit}[i%8]
		all.Add(1)
		go func() {
			defer all.Done()
			data, release, err := b.read(t.Context(), zeros(size), limit)
			hold(int64(len(data)))
			if want := min(size, limit+1); err != nil || int64(len(data)) != want {
				t.Errorf("a body of %d bytes: %d, %v", size, len(data), err)
			}
			hold(-int64(len(data)))
			release()
		}()
	}
	all.Wait()
	if most > total+8 { // each may have read the one byte that tells that it is too large
		t.Errorf("%d bytes were held at once", most)
	}
	if !b.TryAcquire(total) {
		t.Error("not everything was given back")
	}
	// One that has to wait gives up with its request, and takes nothing with it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, release, err := b.read(ctx, zeros(1), limit); err == nil {
		t.Error("it did not wait")
	} else {
		release()
	}
	b.Release(total)
	if !b.TryAcquire(total) {
		t.Error("a request that gave up kept something")
	}
}

// Whatever a request that is held in memory comes to, what it took is given back.
func TestBudgetIsGivenBack(t *testing.T) {
	whole := func(name string, s *Server) {
		t.Helper()
		if !s.heavy.TryAcquire(heavyBytes) {
			t.Errorf("%s: something was not given back", name)
			return
		}
		s.heavy.Release(heavyBytes)
	}
	p, _, key := newModelWorld(t, modelPolicy("openai", ""))
	for _, body := range []string{ask5, `{"model":"gpt-4"}`, "rubbish", `{"model":"gpt-5","tools":[{"type":"web_search"}]}`, `{"model":"gpt-5","messages":"` + strings.Repeat("x", 2<<20) + `"}`} {
		p.askModel("/v1/chat/completions", key, body)
	}
	_ = p.Close() // what is on its way has ended
	whole("model", p.Server)

	g := newGitWorld(t, nil)
	commit(t, g.work, "two")
	for _, to := range []string{"refs/heads/agent/x", "refs/heads/main"} {
		_, _ = g.push("origin", "HEAD:"+to)
	}
	_ = g.p.Close()
	whole("push", g.p.Server)

	w := newWorld(t)
	w.host("registry.example", allowedIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(rw, zeros(1<<20))
	}))
	sum := sha256.Sum256(nil)
	m := w.proxy(fmt.Sprintf(pinnedModule, base64.StdEncoding.EncodeToString(sum[:])), nil)
	for _, h2 := range []bool{false, true} {
		if m.arrives(h2, "https://registry.example/m.zip") {
			t.Error("a module that is not pinned arrived")
		}
	}
	// With no memory left a module cannot be verified, and so does not arrive.
	if !m.heavy.TryAcquire(heavyBytes) {
		t.Error("module: something was not given back")
	}
	if m.arrives(false, "https://registry.example/m.zip") {
		t.Error("a module that could not be verified arrived")
	}
	m.heavy.Release(heavyBytes)
	_ = m.Close()
	whole("module", m.Server)
}

// arrives says whether all of a URL's content does.
func (p *proxyUnderTest) arrives(h2 bool, url string) bool {
	resp, err := p.client(h2).Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == 200
}

const pinnedModule = `version: 1
name: test
mode: allowlist
allow:
  - host: registry.example
    pin:
      digests: ["h1:%s"]
      artefacts: [.zip]
`

// A push whose body says twice how it is encoded is one that the forge may read otherwise
// than we do; so is one whose options are told by a value.
func TestPushThatIsReadInTwoWays(t *testing.T) {
	g := newGitWorld(t, nil)
	main := g.f.head("refs/heads/main")
	line := fmt.Sprintf("%s %s refs/heads/main\x00report-status push-options=1", main, main)
	body := fmt.Sprintf("%04x%s0000", len(line)+4, line) + "00000000"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	for name, codings := range map[string][]string{"twice": {"gzip", "identity"}, "a list": {"gzip, gzip"}, "unknown": {"br"}} {
		req, _ := http.NewRequest("POST", "https://git.example/org/app.git/git-receive-pack", bytes.NewReader(packed.Bytes()))
		req.Header["Content-Encoding"] = codings
		req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
		if status, reason, _ := g.p.do(g.p.client(false), req); status != 403 || reason != ReasonLeasePush {
			t.Errorf("%s: %d %s", name, status, reason)
		}
	}
	req, _ := http.NewRequest("POST", "https://git.example/org/app.git/git-receive-pack", bytes.NewReader(packed.Bytes()))
	req.Header.Set("Content-Encoding", "gzip")
	if status, reason, _ := g.p.do(g.p.client(false), req); status != 403 || reason != ReasonLeaseRef {
		t.Errorf("once: %d %s", status, reason)
	}
}
