package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/pack"
)

// Every example of the language's documentation is a policy.
func TestDocumentedExamples(t *testing.T) {
	data, err := os.ReadFile("../docs/formats/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, part := range strings.Split(string(data), "```yaml\n")[1:] {
		doc, _, _ := strings.Cut(part, "```")
		p, err := Parse("example.yaml", []byte(doc))
		if err != nil {
			t.Errorf("example %d: %v\n%s", i+1, err, doc)
			continue
		}
		if err := p.LoadLockfiles(func(name string) ([]byte, error) { return os.ReadFile("testdata/lockfiles/" + name) }); err != nil {
			t.Error(err)
		}
		if _, err := Compile(p); err != nil {
			t.Errorf("example %d: %v\n%s", i+1, err, doc)
		}
		n++
	}
	if n < 7 {
		t.Errorf("only %d examples", n)
	}
}

// The documentation names every key, reason, class and pack.
func TestDocumentationIsComplete(t *testing.T) {
	data, err := os.ReadFile("../docs/formats/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	words := []string{}
	for _, r := range []Reason{
		ReasonAllowEntry, ReasonDefaultAllow, ReasonModel, ReasonService, ReasonPublic, ReasonOpened, ReasonBlockEntry, ReasonDefaultDeny,
		ReasonPort, ReasonMethod, ReasonPath, ReasonLocalhost, ReasonMetadataName, ReasonAmbiguousPath, ReasonBadHost, ReasonBadURL, ReasonBadScheme,
	} {
		words = append(words, "`"+string(r)+"`")
	}
	for _, r := range host.SpecialRanges() {
		words = append(words, "`"+string(r.Class)+"`")
	}
	for _, m := range Modes {
		words = append(words, "`"+string(m)+"`")
	}
	for _, name := range pack.Names() {
		words = append(words, "`"+name+"`")
	}
	for _, f := range documentFields() {
		words = append(words, "`"+f.Name+"`")
	}
	for _, f := range limitsFields {
		words = append(words, "`"+f.Name+"`")
	}
	for _, f := range sourceFields {
		words = append(words, "`"+f.Name+"`")
	}
	for _, list := range [][]string{keysOf(entryFields), keysOf(pinFields), keysOf(ruleFields), keysOf(settingFields), keysOf(brokerFields()), keysOf(modelFields), keysOf(environmentFields), keysOf(serviceFields), keysOf(phasePolicyFields)} {
		words = append(words, list...)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s is not documented", w)
		}
	}
}

func keysOf[T any](table []field[T]) []string {
	var out []string
	for _, f := range table {
		out = append(out, f.Name)
	}
	return out
}
