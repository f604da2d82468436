package policy

import (
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy/host"
)

// mustParse reads a policy; version is added when it is not there.
func mustParse(t testing.TB, doc string) *Policy {
	t.Helper()
	if !strings.HasPrefix(doc, "version") {
		doc = "version: 1\n" + doc
	}
	p, err := Parse("test.yaml", []byte(doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return p
}

func mustCompile(t testing.TB, doc string) *Evaluator {
	t.Helper()
	e, err := Compile(mustParse(t, doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return e
}

func mustHost(t testing.TB, s string) host.Host {
	t.Helper()
	h, err := host.Parse(s)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return h
}

// explained writes a decision as "allow allow-entry github.com:2".
func explained(e *Evaluator, line string) string {
	method, url, ok := strings.Cut(line, " ")
	if !ok {
		method, url = "GET", line
	}
	x := e.ExplainRequest(method, url)
	s := x.Verdict.String() + " " + string(x.Reason)
	if x.Entry != "" {
		s += " " + x.Entry
	}
	return s
}

// want is one line of a decision table: "[METHOD] URL" and the decision.
type want struct{ ask, decision string }

func checkDecisions(t *testing.T, e *Evaluator, table []want) {
	t.Helper()
	for _, w := range table {
		if got := explained(e, w.ask); got != w.decision {
			t.Errorf("%-50s got  %s\n%-50s want %s", w.ask, got, "", w.decision)
		}
	}
}
