package forge

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/wallproof/wallproof/battery/witness/services"
)

// The two services of git's smart HTTP protocol (gitprotocol-http).
const (
	uploadPack  = "git-upload-pack"  // fetch
	receivePack = "git-receive-pack" // push
)

const agent = "agent=wallproof-world"

// Capabilities offered (gitprotocol-capabilities).
const (
	uploadCapabilities  = "multi_ack_detailed no-done side-band side-band-64k ofs-delta shallow no-progress symref=HEAD:" + string(mainRef) + " object-format=sha1 " + agent
	receiveCapabilities = "report-status delete-refs side-band-64k ofs-delta no-thin object-format=sha1 " + agent
)

// serveGit answers git's smart HTTP protocol, version 0:
//
//	GET  /OWNER/REPO[.git]/info/refs?service=SERVICE
//	POST /OWNER/REPO[.git]/SERVICE
func (f *Forge) serveGit(req services.Request, p string) (services.Response, Seen, bool) {
	name, service, advertise := gitRoute(req, p)
	if name == "" {
		return services.Response{}, Seen{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.authenticate(req.Header)
	r := f.repos[name]
	if refusal := admit(req, t, r, name, service); refusal != nil {
		f.noteRefused(req, t, name, service, advertise, *refusal)
		return *refusal, Seen{Detail: fmt.Sprintf("refused %s of %s", service, name)}, true
	}
	if advertise {
		return advertisement(r, service), Seen{}, true
	}
	body, err := inflate(req)
	if err != nil {
		return plain(http.StatusBadRequest, "request body: "+err.Error()+"\n"), Seen{}, true
	}
	if service == uploadPack {
		return f.fetch(r, body), Seen{}, true
	}
	resp, seen := f.receive(r, t, body)
	return resp, seen, true
}

// gitRoute takes a request's path apart.
func gitRoute(req services.Request, p string) (name, service string, advertise bool) {
	switch {
	case req.Method == http.MethodGet && strings.HasSuffix(p, "/info/refs"):
		p, service, advertise = strings.TrimSuffix(p, "/info/refs"), req.Query.Get("service"), true
	case req.Method == http.MethodPost && strings.HasSuffix(p, "/"+uploadPack):
		p, service = strings.TrimSuffix(p, "/"+uploadPack), uploadPack
	case req.Method == http.MethodPost && strings.HasSuffix(p, "/"+receivePack):
		p, service = strings.TrimSuffix(p, "/"+receivePack), receivePack
	}
	name = strings.ToLower(strings.Trim(strings.TrimSuffix(p, ".git"), "/"))
	if (service != uploadPack && service != receivePack) || strings.Count(name, "/") != 1 {
		return "", "", false
	}
	return name, service, advertise
}

// admit returns why a request is refused, nil when it is not. A repository that
// the caller may not see does not exist.
func admit(req services.Request, t *token, r *repo, name, service string) *services.Response {
	var refusal services.Response
	switch {
	case service == receivePack && t == nil, r == nil && t == nil, r != nil && r.private && t == nil:
		refusal = plain(http.StatusUnauthorized, "authentication required\n")
		refusal.Header.Set("WWW-Authenticate", `Basic realm="wallproof world"`)
	case r == nil, r.private && !t.covers(name, "read"):
		refusal = plain(http.StatusNotFound, "repository not found\n")
	case service == receivePack && !t.covers(name, "write"):
		// A forge in the field names the caller in this message; a careless one
		// repeats the credential, and that is the case worth testing.
		refusal = plain(http.StatusForbidden, "permission to "+name+" denied to "+req.Header.Get("Authorization")+"\n")
	default:
		return nil
	}
	return &refusal
}

// noteRefused records a push that the token used does not cover.
func (f *Forge) noteRefused(req services.Request, t *token, name, service string, advertise bool, refusal services.Response) {
	if service != receivePack || advertise {
		return
	}
	lease := ""
	if t != nil {
		lease = t.id
	}
	f.hooks.Push(Push{Time: f.stamp(), Repo: name, Lease: lease, Reason: http.StatusText(refusal.Status)})
}

// advertisement lists a repository's refs.
func advertisement(r *repo, service string) services.Response {
	var buf bytes.Buffer
	e := pktline.NewEncoder(&buf)
	caps := uploadCapabilities
	if service == receivePack {
		caps = receiveCapabilities
	}
	// Writing to memory cannot fail, and every line is short.
	_ = e.Encodef("# service=%s\n", service)
	_ = e.Flush()
	first := true
	line := func(h plumbing.Hash, name string) {
		if first {
			_ = e.Encodef("%s %s\x00%s\n", h, name, caps)
		} else {
			_ = e.Encodef("%s %s\n", h, name)
		}
		first = false
	}
	if head, err := r.store.Reference(mainRef); err == nil && service == uploadPack {
		line(head.Hash(), "HEAD")
	}
	for _, ref := range r.refs() {
		line(ref.Hash(), ref.Name().String())
	}
	if first {
		line(plumbing.ZeroHash, "capabilities^{}")
	}
	_ = e.Flush()
	return gitResponse("application/x-"+service+"-advertisement", buf.Bytes())
}

func gitResponse(contentType string, body []byte) services.Response {
	return services.Response{
		Status: http.StatusOK,
		Header: http.Header{"Content-Type": {contentType}, "Cache-Control": {"no-cache"}},
		Body:   body,
		Closed: true,
	}
}

// inflate undoes the content encoding of a request's body.
func inflate(req services.Request) ([]byte, error) {
	if req.Header.Get("Content-Encoding") != "gzip" {
		return req.Body, nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(req.Body))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(zr, MaxPackBytes+1))
	if err == nil && len(out) > MaxPackBytes {
		err = fmt.Errorf("more than %d bytes", MaxPackBytes)
	}
	return out, err
}

// sideBand writes an answer to a client that may have asked for a side band
// (gitprotocol-common): band 1 is data, band 2 is text for the user.
type sideBand struct {
	out  *bytes.Buffer
	size int // bytes of data in one packet, 0 without a side band
}

func newSideBand(out *bytes.Buffer, caps map[string]bool) sideBand {
	switch {
	case caps["side-band-64k"]:
		return sideBand{out, 65515}
	case caps["side-band"]:
		return sideBand{out, 995}
	}
	return sideBand{out, 0}
}

// Write writes data.
func (s sideBand) Write(b []byte) (int, error) {
	if s.size == 0 {
		return s.out.Write(b)
	}
	return len(b), s.band(1, b)
}

func (s sideBand) band(n byte, b []byte) error {
	e := pktline.NewEncoder(s.out)
	for len(b) > 0 {
		part := b[:min(len(b), s.size)]
		if err := e.Encode(append([]byte{n}, part...)); err != nil {
			return err
		}
		b = b[len(part):]
	}
	return nil
}

// end closes the side band.
func (s sideBand) end() {
	if s.size > 0 {
		_ = pktline.NewEncoder(s.out).Flush() // to memory
	}
}

// capabilities reads a space-separated list; of "name=value" the whole is kept.
func capabilities(list string) map[string]bool {
	out := map[string]bool{}
	for _, c := range strings.Fields(list) {
		out[c] = true
	}
	return out
}
