package tok

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	gitobject "github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Another implementation of git reads what this one writes.
func TestOrphan(t *testing.T) {
	message := "wallproof " + strings.Repeat("long ", 1000)
	id, raw := orphan(message)
	store := memory.NewStorage()
	if err := packfile.UpdateObjectStorage(store, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	commit, err := gitobject.GetCommit(store, plumbing.NewHash(id))
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(commit.Message) != strings.TrimSpace(message) || len(commit.ParentHashes) != 0 {
		t.Errorf("%d parents, message %.40q", len(commit.ParentHashes), commit.Message)
	}
	tree, err := commit.Tree()
	if err != nil || len(tree.Entries) != 0 {
		t.Errorf("tree: %v", err)
	}
}

func TestEmptyPack(t *testing.T) {
	s := packfile.NewScanner(bytes.NewReader(emptyPack()))
	if _, objects, err := s.Header(); err != nil || objects != 0 {
		t.Errorf("%d objects, %v", objects, err)
	}
}

func TestUpdateBytes(t *testing.T) {
	u := update{old: zeroID, new: strings.Repeat("1", 40), ref: "refs/heads/x", pack: []byte("PACK")}
	want := "0071" + zeroID + " " + strings.Repeat("1", 40) + " refs/heads/x\x00 report-status0000PACK"
	if got := string(u.bytes()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseRefs(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	body := pkt("# service=git-receive-pack\n") + "0000" + pkt(a+" refs/heads/main\x00report-status delete-refs\n") + pkt(b+" refs/heads/agent/x\n") + pkt(b+" HEAD\n") + "0000"
	refs := parseRefs([]byte(body))
	if len(refs) != 2 || refs["refs/heads/main"] != a || refs["refs/heads/agent/x"] != b {
		t.Errorf("%v", refs)
	}
	for want, ref := range map[string]string{"refs/heads/agent/x": "refs/heads/agent/x", "refs/heads/none": "refs/heads/main"} {
		if got, _, err := someBranch(refs, want); err != nil || got != ref {
			t.Errorf("someBranch(%s) = %s, %v", want, got, err)
		}
	}
	if _, _, err := someBranch(parseRefs(nil), "x"); err == nil {
		t.Error("found a branch where there is none")
	}
	for _, bad := range []string{"zzzz", "00", "ffffshort", "0003"} {
		if got := parseRefs([]byte(bad)); len(got) != 0 {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestReportOf(t *testing.T) {
	body := pkt("unpack ok\n") + pkt("ng refs/heads/x fetch first\n") + "0000"
	if got := reportOf([]byte(body), "refs/heads/x"); got != "ng refs/heads/x fetch first" {
		t.Errorf("%q", got)
	}
	if got := reportOf([]byte(body), "refs/heads/y"); got != "" {
		t.Errorf("%q", got)
	}
}

// Each framing is one request to a strict parser, or none; and to a parser that
// is taken in, what is left over is the inner request.
func TestFramings(t *testing.T) {
	const head, inner = "POST /outer HTTP/1.1\r\nHost: a\r\n", "GET /inner HTTP/1.1\r\nHost: b\r\n\r\n"
	for name, tt := range map[string]struct {
		f    framing
		body func(r *bytes.Reader) error // what a parser that is taken in skips as the outer body
	}{
		"CL.CL": {twoLengths, func(*bytes.Reader) error { return nil }},
		"CL.TE": {lengthAndChunked, skip("0\r\n\r\n")},
		"TE.TE": {disguisedChunked, skip("0\r\n\r\n")},
	} {
		raw := tt.f(head, inner)
		at := strings.Index(raw, "\r\n\r\n")
		if !strings.HasPrefix(raw, head) || at < 0 {
			t.Fatalf("%s: %q", name, raw)
		}
		rest := raw[at+4:]
		r := bytes.NewReader([]byte(rest))
		if err := tt.body(r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		left, _ := io.ReadAll(r)
		if string(left) != inner {
			t.Errorf("%s leaves %q over", name, left)
		}
	}
}

// skip consumes given texts.
func skip(parts ...string) func(*bytes.Reader) error {
	return func(r *bytes.Reader) error {
		for _, p := range parts {
			b := make([]byte, len(p))
			if _, err := io.ReadFull(r, b); err != nil || string(b) != p {
				return io.ErrUnexpectedEOF
			}
		}
		return nil
	}
}

// One parser sees two chunks, the second with the inner request in it; the other
// sees one chunk, the end, and the inner request.
func TestChunkExtension(t *testing.T) {
	const inner = "GET /inner HTTP/1.1\r\nHost: b\r\n\r\n"
	_, body, _ := strings.Cut(chunkExtension("POST / HTTP/1.1\r\n", inner), "\r\n\r\n")
	bareLF := strings.TrimPrefix(body, "2;\n")
	data, rest, _ := strings.Cut(bareLF, "\r\n")
	size, rest, _ := strings.Cut(rest, "\r\n")
	if data != "xx" || len(size) != 2 || !strings.HasPrefix(rest, "0\r\n\r\n"+inner+"\r\n0\r\n\r\n") {
		t.Errorf("for the first parser: %q, %q, %q", data, size, rest)
	}
	if n := len("0\r\n\r\n" + inner); size != hexOf(n) {
		t.Errorf("chunk size %s, want %s", size, hexOf(n))
	}
	_, crlf, _ := strings.Cut(body, "\r\n") // the extension goes on to CR LF
	if crlf[2:4] != "\r\n" || !strings.HasPrefix(crlf[4:], "0\r\n\r\n"+inner) {
		t.Errorf("for the second parser: %q", crlf)
	}
}

func hexOf(n int) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[n>>4], digits[n&15]})
}
