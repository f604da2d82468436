package catalog

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// least is how many techniques each vector has at least.
var least = map[Vector]int{TOK: 25, IMD: 15, LAT: 18, NET: 30, TEN: 15, SNP: 12, ENV: 25, INJ: 15}

func TestCounts(t *testing.T) {
	count := map[Vector]int{}
	for _, tech := range All() {
		count[tech.Vector]++
	}
	for _, v := range Vectors() {
		if count[v] < least[v] {
			t.Errorf("%s has %d techniques, wants %d", v, count[v], least[v])
		}
		if VectorTitle(v) == string(v) {
			t.Errorf("%s has no title", v)
		}
	}
	if len(count) != len(Vectors()) {
		t.Errorf("techniques of %d vectors, there are %d", len(count), len(Vectors()))
	}
}

var (
	idForm      = regexp.MustCompile(`^(TOK|IMD|LAT|NET|TEN|SNP|ENV|INJ)(-[A-Z0-9]+)+$`)
	variantForm = regexp.MustCompile(`^(default|fresh|restored|(direct|absolute|connect|socks|first)-v[46])$`)
	reference   = regexp.MustCompile(`^(ATT&CK T\d{4}(\.\d{3})?|CWE-\d+|CVE-\d{4}-\d{4,}|RFC \d+( section [0-9.]+)?|OWASP LLM\d{2}:\d{4}|ATLAS AML\.T\d{4}(\.\d{3})?)$`)
)

func TestTechniques(t *testing.T) {
	seen := map[string]bool{}
	for _, tech := range All() {
		t.Run(tech.ID, func(t *testing.T) {
			if seen[tech.ID] || !idForm.MatchString(tech.ID) || !strings.HasPrefix(tech.ID, string(tech.Vector)+"-") {
				t.Errorf("id of vector %s", tech.Vector)
			}
			seen[tech.ID] = true
			if tech.Title == "" || !strings.HasSuffix(tech.Description, ".") || strings.Count(tech.Description, ". ") > 0 {
				t.Errorf("title %q, description %q: want one sentence", tech.Title, tech.Description)
			}
			if !slices.Contains([]Severity{Critical, High, Medium, Low}, tech.Severity) {
				t.Errorf("severity %q", tech.Severity)
			}
			if !slices.Contains([]Proof{ProofReach, ProofCanary, ProofCondition}, tech.Proof) || tech.Expect != ExpectRefusal && tech.Expect != ExpectSilence {
				t.Errorf("proof %q, expect %q", tech.Proof, tech.Expect)
			}
			if len(tech.References) == 0 {
				t.Error("no references")
			}
			for _, r := range tech.References {
				if !reference.MatchString(r) {
					t.Errorf("reference %q", r)
				}
			}
			checkVariants(t, tech)
		})
	}
}

func checkVariants(t *testing.T, tech Technique) {
	t.Helper()
	if len(tech.Variants) == 0 {
		t.Error("no variants")
	}
	for i, v := range tech.Variants {
		if !variantForm.MatchString(v) || slices.Contains(tech.Variants[:i], v) {
			t.Errorf("variant %q", v)
		}
		if !slices.Contains([]Stage{StageWork, StageAgent, StageImage, StageFresh, StageRestored}, tech.StageOf(v)) {
			t.Errorf("stage of %s is %q", v, tech.StageOf(v))
		}
		if needs := tech.RequiresOf(v); len(needs) != len(slices.Compact(slices.Sorted(slices.Values(needs)))) {
			t.Errorf("%s requires %v", v, needs)
		}
	}
	// What may be contained has to have something to obtain, or somewhere to arrive
	// where it must not.
	if tech.Local && tech.Proof == ProofReach && len(tech.Permits) == 0 {
		t.Error("may be contained, but an answer would be an escape")
	}
}

func TestRequiresOf(t *testing.T) {
	tech := Technique{Requires: []Requirement{NeedsProxy}}
	for variant, want := range map[string][]Requirement{
		VariantDefault:  {NeedsProxy},
		DirectV4:        {NeedsProxy},
		DirectV6:        {NeedsProxy, NeedsIPv6},
		ConnectV6:       {NeedsProxy, NeedsIPv6},
		SocksV4:         {NeedsProxy, NeedsSocks},
		VariantRestored: {NeedsProxy, NeedsSnapshot},
	} {
		if got := tech.RequiresOf(variant); !slices.Equal(got, want) {
			t.Errorf("%s requires %v, want %v", variant, got, want)
		}
	}
	if len(tech.Requires) != 1 {
		t.Error("the technique's own requirements were changed")
	}
}

func TestLookup(t *testing.T) {
	if tech, ok := Lookup("NET-TCP"); !ok || tech.ID != "NET-TCP" {
		t.Errorf("NET-TCP: %v", ok)
	}
	if _, ok := Lookup("NET-NOTHING"); ok {
		t.Error("found a technique that does not exist")
	}
}

// Ids are stable: one that is released does not go away, and what it means does
// not change unnoticed.
func TestGolden(t *testing.T) {
	const file = "testdata/catalog.json"
	var got bytes.Buffer
	if err := json.Indent(&got, canonical(All()), "", " "); err != nil {
		t.Fatal(err)
	}
	got.WriteString("\n")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the catalogue is not %s; if that is meant, run the test with -update", file)
	}
}

func TestDigest(t *testing.T) {
	if d := Digest(); !regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString(d) || d != Digest() {
		t.Errorf("digest %q", d)
	}
	a := canonical([]Technique{{ID: "A", Title: "<&>"}})
	if want := `"title":"<&>"`; !bytes.Contains(a, []byte(want)) {
		t.Errorf("canonical form %s escapes what RFC 8785 does not", a)
	}
	if bytes.Equal(a, canonical([]Technique{{ID: "A", Title: "other"}})) {
		t.Error("the canonical form does not depend on the title")
	}
}
