package packettest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/probes/catalog"
)

var update = flag.Bool("update", false, "write docs/formats anew")

// docs is where the formats are published.
const docs = "../../docs/formats"

// schemaOf derives a JSON Schema from a Go type. closed refuses members that the
// type does not have, as the strict readers do.
func schemaOf(t reflect.Type, closed bool) map[string]any {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), closed)
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64:
		return map[string]any{"type": "integer", "minimum": -(1<<53 - 1), "maximum": 1<<53 - 1}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": schemaOf(t.Elem(), closed)}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": schemaOf(t.Elem(), closed)}
	case reflect.Struct:
		return objectOf(t, closed)
	}
	panic("no schema for " + t.String())
}

func objectOf(t reflect.Type, closed bool) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		properties[name] = schemaOf(t.Field(i).Type, closed)
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": !closed}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join(docs, filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: run go test with -update", path)
	}
}

func TestSchemasAreCurrent(t *testing.T) {
	for _, s := range []struct {
		name, title string
		typ         reflect.Type
		closed      bool
	}{
		{"manifest-run", "Manifest, entry 0", reflect.TypeFor[manifest.Run](), true},
		{"manifest-technique", "Manifest, a technique variant", reflect.TypeFor[manifest.Technique](), true},
		{"manifest-terminal", "Manifest, the last entry", reflect.TypeFor[manifest.Terminal](), true},
		{"observation", "A line of an observation file", reflect.TypeFor[manifest.Observation](), true},
		{"redaction", "redaction.json", reflect.TypeFor[packet.Redaction](), true},
		{"redteam", "redteam.json in our own form", reflect.TypeFor[packet.RedTeamResult](), true},
		{"statement", "in-toto statement", reflect.TypeFor[predicate.Statement](), false},
		{"trust-boundary", "Predicate " + predicate.TypeBoundary, reflect.TypeFor[predicate.Boundary](), false},
		{"verification-summary", "Predicate " + predicate.TypeVSA, reflect.TypeFor[predicate.VSA](), false},
		{"scorecard-binding", "Predicate " + predicate.TypeBinding, reflect.TypeFor[predicate.Binding](), false},
		{"scorecard", "Scorecard, as far as Wallproof reads it", reflect.TypeFor[predicate.Scorecard](), false},
		{"live", "live.json", reflect.TypeFor[predicate.Live](), true},
		{"row", "One manifest row with its inclusion proof", reflect.TypeFor[predicate.Row](), true},
	} {
		schema := schemaOf(s.typ, s.closed)
		schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", s.title
		data, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, s.name+".schema.json", append(data, '\n'))
	}
}

// exampleKey is a fixed key, so that the examples are the same on every run. It
// signs nothing else.
func exampleKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	raw := bytes.Repeat([]byte{7}, 32)
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// exampleCatalogue is fixed, so that the examples do not change with the real
// one.
func exampleCatalogue() []catalog.Technique {
	return []catalog.Technique{{
		ID: "NET-EXAMPLE", Vector: catalog.NET, Title: "Example", Description: "A direct connection to the open internet.", Severity: catalog.Critical,
		References: []string{"ATT&CK T1048"}, Required: true, Proof: catalog.ProofReach, Expect: catalog.ExpectRefusal, Variants: []string{catalog.DirectV4}, Stage: catalog.StageWork,
	}}
}

func TestExamplesAreCurrent(t *testing.T) {
	p := New(t, Catalogue(exampleCatalogue()), Key(exampleKey(t)))
	pretty := func(data []byte) []byte {
		var b bytes.Buffer
		if err := json.Indent(&b, data, "", "  "); err != nil {
			t.Fatal(err)
		}
		return append(b.Bytes(), '\n')
	}
	golden(t, "examples/manifest.jsonl", p.Files[packet.ManifestFile])
	golden(t, "examples/attack.jsonl", p.Files[packet.AttackFile])
	golden(t, "examples/redaction.json", p.Files[packet.RedactionFile])
	golden(t, "examples/redteam.json", p.Files[packet.RedTeamFile])
	golden(t, "examples/threat-model.md", p.Files[packet.ThreatModelMD])
	golden(t, "examples/statement.json", pretty(p.Statement))
	live, err := canon.Marshal(predicate.Live{
		Schema: predicate.LiveSchema, Generated: manifest.FormatTime(Now), Image: ImageDigest, Policy: p.Policy,
		Fabric: &predicate.LiveFabric{Driver: "gvisor", Version: "20260905.0", Kernel: Kernel, Arch: "amd64"},
	})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "examples/live.json", pretty(live))
	card := []byte(`{"schema":"wallproof.scorecard/v1","kind":"create","id":"sc-2026-11-02","produced":"2026-11-02T10:00:00Z","image":"` + ImageDigest + `","policy":"` + p.Policy + `","score":93.5}`)
	golden(t, "examples/scorecard.json", pretty(card))
	for name, err := range map[string]error{
		"live": second(predicate.ParseLive(live)), "scorecard": second(predicate.ParseScorecard(card)),
		"redteam": second(packet.ParseRedTeam(p.Files[packet.RedTeamFile])), "threat model": second(packet.ParseThreatModel(p.Files[packet.ThreatModelMD])),
		"manifest": second(manifest.Read(bytes.NewReader(p.Files[packet.ManifestFile]))),
	} {
		if err != nil {
			t.Errorf("the example of %s is refused: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
