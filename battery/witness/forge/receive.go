package forge

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/revlist"

	"github.com/wallproof/wallproof/battery/witness/services"
)

// command is one ref update of a push.
type command struct {
	old, new plumbing.Hash
	ref      string
}

// pushRequest is what a client sends to git-receive-pack (gitprotocol-pack):
// commands, a flush, a pack unless every command deletes.
type pushRequest struct {
	commands []command
	caps     map[string]bool
	pack     []byte
}

var errPush = errors.New("request is not one to git-receive-pack")

// parsePush reads a request.
func parsePush(body []byte) (pushRequest, error) {
	q := pushRequest{caps: map[string]bool{}}
	for first := true; ; first = false {
		line, rest, err := packet(body)
		if err != nil {
			return pushRequest{}, err
		}
		body = rest
		if line == nil {
			break
		}
		text, caps, _ := strings.Cut(string(line), "\x00")
		if first {
			q.caps = capabilities(caps)
		}
		if strings.HasPrefix(text, "shallow ") {
			continue
		}
		parts := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 3)
		if len(parts) != 3 || len(parts[0]) != 40 || len(parts[1]) != 40 || len(q.commands) >= maxCommands {
			return pushRequest{}, fmt.Errorf("%w: bad or too many commands", errPush)
		}
		q.commands = append(q.commands, command{plumbing.NewHash(parts[0]), plumbing.NewHash(parts[1]), parts[2]})
	}
	q.pack = body
	return q, nil
}

// packet reads one pkt-line; line is nil for a flush.
func packet(b []byte) (line, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, fmt.Errorf("%w: cut short", errPush)
	}
	var n int
	if _, err := fmt.Sscanf(string(b[:4]), "%04x", &n); err != nil || n != 0 && n < 4 || n > len(b) {
		return nil, nil, fmt.Errorf("%w: bad packet length", errPush)
	}
	if n == 0 {
		return nil, b[4:], nil
	}
	return b[4:n], b[n:], nil
}

// receive answers git-receive-pack. The lock is held.
func (f *Forge) receive(r *repo, t *token, body []byte) (services.Response, Seen) {
	if string(body) == "0000" { // a client's probe for authentication before a large push
		return gitResponse("application/x-"+receivePack+"-result", nil), Seen{}
	}
	q, err := parsePush(body)
	if err != nil {
		return plain(http.StatusBadRequest, err.Error()+"\n"), Seen{}
	}
	fresh, unpackErr := unpack(r, q)
	var seen Seen
	if fresh != nil {
		seen = f.inspect(fresh)
	}
	report := make([]string, len(q.commands))
	for i, c := range q.commands {
		p := f.update(r, t, c, fresh, unpackErr)
		p.Nonces, p.Obtained = union(f.hooks.Find([]byte(c.ref)), seen.Nonces), seen.Obtained
		seen.Breach = seen.Breach || p.Breach
		seen.Nonces = union(seen.Nonces, p.Nonces)
		if i == 0 {
			seen.Detail = fmt.Sprintf("push %s %s force=%t accepted=%t lease=%s", p.Repo, p.Ref, p.Force, p.Accepted, p.Lease)
		}
		f.hooks.Push(p)
		report[i] = "ok " + c.ref
		if !p.Accepted {
			report[i] = "ng " + c.ref + " " + p.Reason
		}
	}
	return pushReport(q, unpackErr, report), seen
}

// update applies one command.
func (f *Forge) update(r *repo, t *token, c command, fresh *overlay, unpackErr error) Push {
	p := Push{Time: f.stamp(), Repo: r.name, Ref: c.ref, Old: c.old.String(), New: c.new.String(), Lease: t.id}
	name := plumbing.ReferenceName(c.ref)
	have := plumbing.ZeroHash
	if ref, err := r.store.Reference(name); err == nil && ref.Type() == plumbing.HashReference {
		have = ref.Hash()
	}
	p.Force = c.new.IsZero() || !have.IsZero() && !fastForward(objectsOf(r, fresh), have, c.new)
	switch {
	case unpackErr != nil:
		p.Reason = "unpacker error"
	case name.Validate() != nil || !strings.HasPrefix(c.ref, "refs/"):
		p.Reason = "funny refname"
	case have != c.old:
		p.Reason = "fetch first"
	case !c.new.IsZero() && !complete(r, c.new, fresh):
		p.Reason = "missing necessary objects"
	default:
		p.Accepted = true
		p.Breach = !f.permits(r.name, c.ref, p.Force)
		f.apply(r, name, c.new, fresh)
	}
	return p
}

// apply moves a ref and takes the push's objects in.
func (f *Forge) apply(r *repo, name plumbing.ReferenceName, to plumbing.Hash, fresh *overlay) {
	if to.IsZero() {
		_ = r.store.RemoveReference(name) // in memory
		return
	}
	if fresh != nil {
		fresh.adopt()
	}
	_ = r.store.SetReference(plumbing.NewHashReference(name, to)) // in memory
}

// complete reports whether everything that a commit needs is there.
func complete(r *repo, h plumbing.Hash, fresh *overlay) bool {
	_, err := revlist.Objects(objectsOf(r, fresh), []plumbing.Hash{h}, r.tips())
	return err == nil
}

// pushReport is the report-status of a push.
func pushReport(q pushRequest, unpackErr error, report []string) services.Response {
	if !q.caps["report-status"] {
		return gitResponse("application/x-"+receivePack+"-result", nil)
	}
	var inner bytes.Buffer
	e := pktline.NewEncoder(&inner)
	unpacked := "unpack ok\n"
	if unpackErr != nil {
		unpacked = "unpack " + unpackErr.Error() + "\n"
	}
	_ = e.EncodeString(unpacked)
	for _, line := range report {
		_ = e.EncodeString(line + "\n")
	}
	_ = e.Flush()
	var buf bytes.Buffer
	side := newSideBand(&buf, q.caps)
	_, _ = side.Write(inner.Bytes()) // to memory
	side.end()
	return gitResponse("application/x-"+receivePack+"-result", buf.Bytes())
}

// union appends what b has and a has not.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
