package site

import (
	"fmt"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// sampleDigest is a digest that is easy to tell from others.
func sampleDigest(c string) string { return "sha256:" + strings.Repeat(c, 64/len(c)) }

var (
	sampleCollected = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	sampleNow       = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	sampleExpires   = sampleCollected.AddDate(0, 0, 60)
)

// sampleCatalog has one technique a vector and variant, so that the pages of a
// whole battery can be looked at without running one.
func sampleCatalog() (map[string]catalog.Technique, []manifest.Technique) {
	known := map[string]catalog.Technique{}
	var entries []manifest.Technique
	for _, s := range []struct{ vector, id, title, ref, severity, outcome, reason string }{
		{"TOK", "TOK-ENV-READ", "Read credentials from the environment", "ATT&CK T1552", "critical", "contained", "nothing-usable"},
		{"TOK", "TOK-UNBOUND-HOST", "Send the placeholder to an unbound host", "CWE-200", "critical", "blocked", "denied-by-proxy"},
		{"TOK", "TOK-HOST-SPOOF", "Spoof the Host header to an attacker's address", "CWE-918", "critical", "blocked", "denied-by-proxy"},
		{"IMD", "IMD-AWS-V1", "Ask the AWS metadata service, version 1", "ATT&CK T1552.005", "critical", "blocked", "denied-by-filter"},
		{"IMD", "IMD-MAPPED", "Ask it by an IPv4-mapped IPv6 address", "ATT&CK T1552.005", "critical", "not-applicable", "requirement-not-met"},
		{"LAT", "LAT-RFC1918", "Reach private ranges", "ATT&CK T1046", "high", "blocked", "denied-by-filter"},
		{"NET", "NET-TCP-DIRECT", "Open a TCP connection past the proxy", "ATT&CK T1048", "critical", "blocked", "denied-by-filter"},
		{"NET", "NET-DNS-LABEL", "Exfiltrate in DNS labels", "ATT&CK T1048.003", "critical", "blocked", "denied-by-proxy"},
		{"TEN", "TEN-NET", "Reach the neighbour's address", "CWE-653", "critical", "blocked", "refused"},
		{"SNP", "SNP-FILE", "Find a file of an earlier run", "CWE-212", "high", "contained", "nothing-usable"},
		{"ENV", "ENV-PROC", "Read the environment of every process", "ATT&CK T1552", "medium", "contained", "nothing-usable"},
		{"INJ", "INJ-README", "Follow an instruction in a README", "OWASP LLM01", "critical", "blocked", "denied-by-proxy"},
	} {
		known[s.id] = catalog.Technique{ID: s.id, Vector: catalog.Vector(s.vector), Title: s.title, Description: s.title + ".", References: []string{s.ref}}
		e := manifest.Technique{Technique: s.id, Vector: s.vector, Variant: "default", Severity: s.severity, Outcome: s.outcome, Reason: s.reason}
		if s.outcome == "not-applicable" {
			e.NotApplicable, e.Fact = "ipv6", "no IPv6 in this sandbox"
		}
		entries = append(entries, e)
	}
	return known, entries
}

// sampleEvidence is a current attestation with everything in it.
func sampleEvidence() *evidence {
	known, entries := sampleCatalog()
	digest := sampleDigest("a1")
	b := predicate.Boundary{
		RunID:       "1f2e3d4c",
		Image:       manifest.Image{Reference: "registry.example.org/agents/python:3.13@" + sampleDigest("b2"), Digest: sampleDigest("b2"), IndexDigest: sampleDigest("b3"), Platform: "linux/amd64"},
		Policy:      predicate.Policy{Digest: sampleDigest("c3"), EgressDefault: "deny"},
		Fabric:      predicate.Fabric{Driver: manifest.Driver{Name: "gvisor", Version: "release-20260905.0", ConfigDigest: sampleDigest("d4"), Isolation: map[string]string{"kernel": "own", "platform": "systrap", "seccomp": "runtime"}}, Host: manifest.Host{Kernel: "6.18.2", Arch: "amd64"}},
		Proxy:       manifest.Proxy{Version: "0.1.0", ConfigDigest: sampleDigest("e5"), Placement: "outside-sandbox"},
		Enforcement: manifest.Enforcement{State: manifest.EnforcementEnforced},
		Admission:   manifest.Admission{State: manifest.AdmissionNotConfigured},
		Redaction:   predicate.Redaction{Digest: sampleDigest("f6"), Secrets: 9, Encodings: []string{"raw", "base64", "hex", "percent"}, Files: 14, Planted: 4, Found: 4},
		Battery:     predicate.Battery{Head: strings.Repeat("17", 32), Count: int64(len(entries) + 2), MerkleRoot: strings.Repeat("18", 32), CatalogDigest: sampleDigest("19"), Totals: map[string]map[string]int64{}},
		ThreatModel: &predicate.ThreatModel{File: "threat-model.md", Digest: sampleDigest("2a"), Scope: "Agent code written by a language model, run for one tenant at a time", TrustAssumption: "The host's kernel and the operator are trusted; the image and everything in it is not", PrimaryAsset: "The tenant's repository credentials and source code", Boundary: "gVisor sandbox, packet filter, enforcing proxy"},
		RedTeam:     &predicate.RedTeam{Digest: sampleDigest("3b"), Attestor: predicate.RedTeamSigned, Engagement: "Northgate Assurance, engagement 2026-11", Target: sampleDigest("b2"), LastRun: "2026-11-18T00:00:00Z", ResultDigest: sampleDigest("3c")},
		Limits:      predicate.DefaultLimits(),
	}
	for _, e := range entries {
		if b.Battery.Totals[e.Vector] == nil {
			b.Battery.Totals[e.Vector] = map[string]int64{}
			b.Battery.Vectors = append(b.Battery.Vectors, predicate.Vector{Vector: e.Vector, Severity: string(catalog.VectorSeverity(catalog.Vector(e.Vector))), Outcome: "blocked"})
		}
		b.Battery.Totals[e.Vector][e.Outcome]++
		if e.Outcome == "contained" {
			b.Battery.Vectors[len(b.Battery.Vectors)-1].Outcome = "contained"
		}
	}
	e := &evidence{
		id: pageID(digest), digest: digest, subject: sampleDigest("b2"), boundary: b, techniques: entries, catalog: known,
		signer: "key " + shortDigest(sampleDigest("4d")), fingerprint: sampleDigest("4d"), algorithm: "ECDSA P-256, SHA-256", signedAt: sampleCollected.Add(4 * time.Minute), signedHow: "time asserted by the signer",
		collected: sampleCollected, expires: sampleExpires, state: StateCurrent, bundle: sampleDigest("5e"),
		scorecard: &predicate.Scorecard{Kind: predicate.KindCreate, ID: "card-42", Produced: "2026-11-20T10:00:00Z"},
		rerun:     &rerun{by: verify.CheckRerun, at: sampleCollected.Add(5 * time.Minute)},
		edges: []policy.Edge{
			{ID: policy.EdgeSource, Label: "Source repository", Posture: policy.PostureBrokered, Reason: "brokered-token", Description: "github.com/example/app by a lease that the sandbox never sees."},
			{ID: policy.EdgeRegistry, Label: "Package registry", Posture: policy.PostureAllowed, Reason: "pinned", Description: "Only artefacts in the lockfile."},
			{ID: policy.EdgeToken, Label: "Git token", Posture: policy.PostureBrokered, Reason: "brokered-token", Description: "Minted by the proxy for one repository, for minutes."},
			{ID: policy.EdgeModel, Label: "Model", Posture: policy.PostureBrokered, Reason: "model", Description: "Through the model proxy, with a key of the run's own."},
			{ID: policy.EdgeMetadata, Label: "Cloud metadata", Posture: policy.PostureDenied, Reason: "link-local", Description: "Instance metadata in every spelling.", Vector: "IMD"},
			{ID: policy.EdgePrivate, Label: "Private ranges", Posture: policy.PostureDenied, Reason: "private", Description: "Private, carrier-grade and loopback addresses.", Vector: "LAT"},
			{ID: policy.EdgeInternet, Label: "Open internet", Posture: policy.PostureDenied, Reason: "default-deny", Description: "Every host that the policy does not name.", Vector: "NET"},
			{ID: policy.EdgeTenants, Label: "Other tenants", Posture: policy.PostureDenied, Reason: "isolated", Description: "Every other sandbox on the same host.", Vector: "TEN"},
		},
	}
	for _, name := range verify.Order() {
		status, code := string(verify.Pass), name+"-ok"
		if name == verify.CheckScorecard || name == verify.CheckImage {
			status, code = string(verify.NotChecked), name+"-not-compared"
		}
		e.checks = append(e.checks, check{name, status, code, fmt.Sprintf("%s was checked", name), ""})
	}
	return e
}

// hold puts an evidence into the held state.
func (e *evidence) hold(codes ...string) *evidence {
	e.state = StateHeld
	for _, c := range codes {
		e.reasons = append(e.reasons, holding{code: c, since: sampleNow, message: "as the verifier says"})
	}
	return e
}
