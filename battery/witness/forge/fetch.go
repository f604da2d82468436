package forge

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/revlist"

	"github.com/wallproof/wallproof/battery/witness/services"
)

// fetchRequest is what a client sends to git-upload-pack (gitprotocol-pack):
// wants, shallow commits and a depth, a flush, haves in rounds, "done".
type fetchRequest struct {
	wants, haves []plumbing.Hash
	shallow      []plumbing.Hash
	depth        int
	more         bool // anything follows the first flush
	done         bool
	caps         map[string]bool
}

var errFetch = errors.New("request is not one to git-upload-pack")

// parseFetch reads a request. It is bounded in every count.
func parseFetch(body []byte) (fetchRequest, error) {
	q := fetchRequest{caps: map[string]bool{}}
	s := pktline.NewScanner(bytes.NewReader(body))
	for flushed := false; s.Scan(); {
		q.more = flushed
		word, rest, _ := strings.Cut(strings.TrimSuffix(string(s.Bytes()), "\n"), " ")
		var err error
		switch word {
		case "":
			flushed = true
		case "want":
			hash, caps, _ := strings.Cut(rest, " ")
			if len(q.wants) == 0 {
				q.caps = capabilities(caps)
			}
			q.wants, err = appendHash(q.wants, hash, maxWants)
		case "have":
			q.haves, err = appendHash(q.haves, rest, maxHaves)
		case "shallow":
			q.shallow, err = appendHash(q.shallow, rest, maxHaves)
		case "deepen":
			q.depth, err = strconv.Atoi(rest)
		case "done":
			q.done = true
		default:
			err = fmt.Errorf("%w: unexpected line", errFetch)
		}
		if err != nil {
			return fetchRequest{}, err
		}
	}
	if err := s.Err(); err != nil {
		return fetchRequest{}, fmt.Errorf("%w: %w", errFetch, err)
	}
	if len(q.wants) == 0 || q.depth < 0 {
		return fetchRequest{}, fmt.Errorf("%w: nothing wanted", errFetch)
	}
	return q, nil
}

func appendHash(to []plumbing.Hash, s string, most int) ([]plumbing.Hash, error) {
	h := plumbing.NewHash(s)
	if len(s) != 40 || h.IsZero() || len(to) >= most {
		return nil, fmt.Errorf("%w: bad or too many object names", errFetch)
	}
	return append(to, h), nil
}

// fetch answers git-upload-pack. The lock is held.
func (f *Forge) fetch(r *repo, body []byte) services.Response {
	q, err := parseFetch(body)
	if err != nil {
		return plain(http.StatusBadRequest, err.Error()+"\n")
	}
	var buf bytes.Buffer
	e := pktline.NewEncoder(&buf)
	tips := r.tips()
	for _, w := range q.wants {
		if !contains(tips, w) {
			_ = e.Encodef("ERR upload-pack: not our ref %s", w)
			return gitResponse("application/x-"+uploadPack+"-result", buf.Bytes())
		}
	}
	var boundary []plumbing.Hash
	if q.depth > 0 {
		boundary = shallowBoundary(r, q)
		for _, h := range boundary {
			_ = e.Encodef("shallow %s", h)
		}
		for _, h := range q.shallow {
			if !contains(boundary, h) {
				_ = e.Encodef("unshallow %s", h)
			}
		}
		_ = e.Flush()
	}
	if !q.more { // the client only wants to know where its shallow history will end
		return gitResponse("application/x-"+uploadPack+"-result", buf.Bytes())
	}
	common := q.negotiate(r, e)
	if !q.done && (len(common) == 0 || !q.caps["no-done"]) {
		return gitResponse("application/x-"+uploadPack+"-result", buf.Bytes())
	}
	if err := writePack(&buf, r, q, common, boundary); err != nil {
		return plain(http.StatusInternalServerError, "pack: "+err.Error()+"\n")
	}
	return gitResponse("application/x-"+uploadPack+"-result", buf.Bytes())
}

// negotiate writes the acknowledgements of one round and returns the commits
// that both sides have.
func (q *fetchRequest) negotiate(r *repo, e *pktline.Encoder) []plumbing.Hash {
	detailed := q.caps["multi_ack_detailed"]
	var common []plumbing.Hash
	for _, h := range q.haves {
		if r.store.HasEncodedObject(h) != nil {
			continue
		}
		common = append(common, h)
		if detailed {
			_ = e.Encodef("ACK %s common\n", h)
		}
	}
	last := func(suffix string) { _ = e.Encodef("ACK %s%s\n", common[len(common)-1], suffix) }
	switch {
	case len(common) == 0:
		_ = e.EncodeString("NAK\n")
	case !detailed:
		_ = e.Encodef("ACK %s\n", common[0])
	case q.done:
		last("")
	default: // any common commit is enough: the pack is small either way
		last(" ready")
		_ = e.EncodeString("NAK\n")
		if q.caps["no-done"] {
			last("")
		}
	}
	return common
}

// writePack writes the objects that the client lacks.
func writePack(buf *bytes.Buffer, r *repo, q fetchRequest, common, boundary []plumbing.Hash) error {
	objects, err := missing(r, q, common, boundary)
	if err != nil {
		return err
	}
	side := newSideBand(buf, q.caps)
	if _, err := packfile.NewEncoder(side, r.store, !q.caps["ofs-delta"]).Encode(objects, 0); err != nil {
		return err
	}
	side.end()
	return nil
}

// shallowBoundary returns the commits at the requested depth whose parents the
// client does not get.
func shallowBoundary(r *repo, q fetchRequest) []plumbing.Hash {
	var boundary []plumbing.Hash
	walkDepth(r, q, func(c *object.Commit, last bool) {
		if last && c.NumParents() > 0 {
			boundary = append(boundary, c.Hash)
		}
	})
	return boundary
}

// walkDepth visits the commits within the requested depth, nearest first.
func walkDepth(r *repo, q fetchRequest, visit func(c *object.Commit, last bool)) {
	seen := map[plumbing.Hash]bool{}
	level := q.wants
	for d := 1; d <= q.depth && len(level) > 0; d++ {
		var next []plumbing.Hash
		for _, h := range level {
			c, err := object.GetCommit(r.store, h)
			if err != nil || seen[h] {
				continue
			}
			seen[h] = true
			visit(c, d == q.depth)
			next = append(next, c.ParentHashes...)
		}
		level = next
	}
}

// missing returns the objects that the client lacks. A client with a shallow
// history lacks what lies beyond it, so it gets the whole trees of the commits
// that are new to it.
func missing(r *repo, q fetchRequest, common, boundary []plumbing.Hash) ([]plumbing.Hash, error) {
	known := common
	if q.depth > 0 {
		known = nil
		for _, h := range boundary {
			c, err := object.GetCommit(r.store, h)
			if err != nil {
				return nil, err
			}
			known = append(known, c.ParentHashes...)
		}
	}
	list, err := revlist.Objects(r.store, q.wants, known)
	if err != nil || q.depth == 0 && len(q.shallow) == 0 {
		return list, err
	}
	w := treeWalk{repo: r, have: map[plumbing.Hash]bool{}, visited: map[plumbing.Hash]bool{}}
	for _, h := range list {
		w.have[h] = true
	}
	for _, h := range list {
		if c, err := object.GetCommit(r.store, h); err == nil {
			w.visit(c.TreeHash)
		}
	}
	return append(list, w.more...), nil
}

// treeWalk collects whole trees, each once: a small pack can hold a tree that
// refers to the same one again and again.
type treeWalk struct {
	repo          *repo
	have, visited map[plumbing.Hash]bool
	more          []plumbing.Hash // what have did not hold
}

func (w *treeWalk) visit(h plumbing.Hash) {
	w.add(h)
	if w.visited[h] {
		return
	}
	w.visited[h] = true
	t, err := object.GetTree(w.repo.store, h)
	if err != nil {
		return
	}
	for _, e := range t.Entries {
		switch e.Mode {
		case filemode.Dir:
			w.visit(e.Hash)
		case filemode.Submodule:
		default:
			w.add(e.Hash)
		}
	}
}

func (w *treeWalk) add(h plumbing.Hash) {
	if !w.have[h] {
		w.have[h] = true
		w.more = append(w.more, h)
	}
}

func contains(list []plumbing.Hash, h plumbing.Hash) bool {
	for _, x := range list {
		if x == h {
			return true
		}
	}
	return false
}
