package review

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wallproof/wallproof/policy"
)

var update = flag.Bool("update", false, "write golden files")

const blockedLog = `{"run":"01234567","user":"u","host":"api.example.com","port":443,"seen":12,"firstSeen":"2026-01-01T00:00:00.000Z","lastSeen":"2026-01-02T00:00:00.000Z","point":"proxy"}
{"host":"API.example.com.","port":8443,"seen":1}
{"host":"registry.npmjs.org","seen":5}
{"host":"registry.yarnpkg.com","seen":1}
{"host":"evil.example.net","seen":9}
{"host":"metadata.google.internal","seen":3}
{"host":"169.254.169.254","port":80,"seen":2}
{"host":"203.0.113.9","seen":2}
{"host":"known.example.com","seen":4,"reason":"method"}
{"host":"known.example.com","port":80,"seen":1}
{"host":"mfrggzdfmztwq2lknnwg23tpobyxe43uov3ho6dzpiydcmrt.example.org","seen":1}
{"type":"decision","id":1,"host":"event.example.com","port":443,"verdict":"deny","reason":"default-deny","client":"192.0.2.2:1"}
{"type":"decision","host":"fine.example.com","port":443,"verdict":"allow"}
{"type":"closed","id":1}
{"host":"a b"}
not json

{"host":"c1.many.example.org"}
{"host":"c2.many.example.org"}
{"host":"c3.many.example.org"}
{"host":"c4.many.example.org"}
{"host":"c5.many.example.org"}
`

func TestSuggest(t *testing.T) {
	p := mustParse(t, "mode: allowlist\nallow: [{host: known.example.com, methods: [GET]}]\nblock:\n- host: evil.example.net\n")
	s, err := Suggest(p, strings.NewReader(blockedLog))
	if err != nil {
		t.Fatal(err)
	}
	got := s.Format()
	const path = "testdata/suggest.golden"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v (run with -update to write it); got\n%s", err, got)
	}
	// What is suggested is a part of a policy.
	doc := "version: 1\nmode: allowlist\n" + string(got)
	q, err := policy.Parse("suggested.yaml", []byte(doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	e, err := policy.Compile(q)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]bool{
		"https://api.example.com/": true, "https://api.example.com:8443/": true, "https://registry.npmjs.org/": true,
		"https://evil.example.net/": false, "https://fine.example.com/": false, "https://event.example.com/": true, "http://known.example.com/": true,
	} {
		if got := e.Explain(url).Allowed(); got != want {
			t.Errorf("%s: %t", url, got)
		}
	}
}

// The route log of an open policy gives the entries of a closed one.
func TestSuggestFromRoutes(t *testing.T) {
	log := `{"host":"often.example.com","port":443,"route":"tunnel","seen":7}
{"host":"once.example.com","port":443,"route":"tunnel","seen":1}
{"host":"direct.example.com","port":80,"route":"direct","seen":3}
{"host":"blocked.example.com","port":443,"route":"refused","seen":3}
{"host":"named.example.com","port":443,"route":"tunnel","seen":30}
`
	for _, c := range []struct{ doc, want string }{
		{"mode: public\nallow: [{host: named.example.com}]\n", "often.example.com direct.example.com blocked.example.com"},
		{"mode: allowlist\nallow: [{host: named.example.com}]\n", "blocked.example.com"},
	} {
		s, err := Suggest(mustParse(t, c.doc), strings.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, a := range s.Allow {
			got[a.Entry.Host] = true
		}
		want := strings.Fields(c.want)
		if len(got) != len(want) {
			t.Errorf("%q: %v", c.doc, s.Allow)
		}
		for _, h := range want {
			if !got[h] {
				t.Errorf("%q: %s is missing", c.doc, h)
			}
		}
	}
}

// Data that leaves in names is not offered for allowing.
func TestSuggestDoesNotAllowExfiltration(t *testing.T) {
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "{\"host\":\"%020d.collector.example.com\"}\n", i)
	}
	s, err := Suggest(mustParse(t, "mode: allowlist\nallow: [{host: a.com}]\n"), strings.NewReader(b.String()))
	if err != nil || len(s.Allow) != 0 || len(s.Refused) != 50 || len(s.Hints) != 0 {
		t.Errorf("%v: %d suggested, %d refused, hints %v", err, len(s.Allow), len(s.Refused), s.Hints)
	}
}

func TestSuggestRefuses(t *testing.T) {
	p := mustParse(t, "mode: public\n")
	if _, err := Suggest(p, strings.NewReader(strings.Repeat("x", maxLogLine+1))); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a long line: %v", err)
	}
	if _, err := Suggest(p, iotest.ErrReader(errors.New("broken"))); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a broken log: %v", err)
	}
}

// No log makes Suggest propose something that the policy would refuse to read,
// or a host that is always denied.
func FuzzSuggest(f *testing.F) {
	f.Add(blockedLog)
	f.Add("{\"host\":\"# x\\n- y\",\"seen\":1}")
	p := mustParse(f, "mode: allowlist\nallow: [{host: known.example.com}]\nblock: [{host: evil.example.net}]\n")
	f.Fuzz(func(t *testing.T, log string) {
		s, err := Suggest(p, strings.NewReader(log))
		if err != nil {
			return
		}
		if len(s.Allow)+len(s.Packs) == 0 {
			return
		}
		q, err := policy.Parse("p", append([]byte("version: 1\nmode: allowlist\n"), s.Format()...))
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Format())
		}
		e, err := policy.Compile(q)
		if err != nil {
			t.Fatal(err)
		}
		if e.OpensMetadata() || e.OpensPrivate() || e.Explain("https://evil.example.net/").Allowed() {
			t.Fatalf("suggested too much:\n%s", s.Format())
		}
	})
}
