package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/wallproof/wallproof/probes/catalog"
)

var update = flag.Bool("update", false, "write generated files anew")

// docs/techniques.md is generated; a difference fails.
func TestTechniquesDocument(t *testing.T) {
	const path = "../../docs/techniques.md"
	var want bytes.Buffer
	if err := techniquesMarkdown(&want, catalog.All()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not what the catalogue says; run `go test ./cmd/wallproof -run TestTechniquesDocument -update`", path)
	}
}
