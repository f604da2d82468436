package trustroot

import (
	"slices"
	"testing"
	"time"
)

// The embedded root is the file whose digest the package names, and knows what the
// public-good instance signs with today: both logs, a timestamp authority, a
// certificate authority and a certificate log that are in use.
func TestEmbeddedRootIsCurrent(t *testing.T) {
	data, err := PublicGood()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	var logs []string
	for _, l := range tr.RekorLogs() {
		if l.ValidityPeriodStart.Before(PublicGoodDate) && (l.ValidityPeriodEnd.IsZero() || l.ValidityPeriodEnd.After(PublicGoodDate)) {
			logs = append(logs, l.BaseURL)
		}
	}
	slices.Sort(logs)
	if want := []string{"https://log2025-1.rekor.sigstore.dev", "https://rekor.sigstore.dev"}; !slices.Equal(logs, want) {
		t.Errorf("logs %v, want %v", logs, want)
	}
	for what, n := range map[string]int{"timestamp authorities": len(tr.TimestampingAuthorities()), "certificate authorities": len(tr.FulcioCertificateAuthorities()), "certificate logs": len(tr.CTLogs())} {
		if n == 0 {
			t.Errorf("no %s", what)
		}
	}
	if PublicGoodDate.After(time.Now()) {
		t.Errorf("the embedded root is of %s, which has not come", PublicGoodDate)
	}
}
