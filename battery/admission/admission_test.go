package admission_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/oci"
	"github.com/wallproof/wallproof/battery/admission"
	"github.com/wallproof/wallproof/battery/image"
)

const (
	identity = "https://github.com/acme/app/.github/workflows/release.yml@refs/tags/v1"
	issuer   = "https://token.actions.example"
	builder  = "https://github.com/acme/builder@v2"
)

// place is a registry with one image.
type place struct {
	repo string
	img  *image.Resolved
}

func newPlace(t *testing.T, referrers bool) place {
	t.Helper()
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(referrers)))
	t.Cleanup(srv.Close)
	p := place{repo: strings.TrimPrefix(srv.URL, "http://") + "/acme/app"}
	p.img = p.push(t)
	return p
}

// push puts another image into the repository.
func (p place) push(t *testing.T) *image.Resolved {
	t.Helper()
	img, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewDigest(p.repo + "@" + d.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return &image.Resolved{Reference: ref.String(), Source: image.FromRegistry, Digest: d.String()}
}

// tagged writes a layer as cosign tags signatures (.sig) and attestations (.att).
func (p place) tagged(t *testing.T, digest, suffix string, media types.MediaType, data []byte, annotations map[string]string) {
	t.Helper()
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{Layer: static.NewLayer(data, media), Annotations: annotations})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(p.repo + ":" + strings.Replace(digest, ":", "-", 1) + suffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
}

// sign signs an image as `cosign sign --key` did up to version 2; at is where the
// signature is put, about what it says.
func (p place) sign(t *testing.T, key *ecdsa.PrivateKey, at, about string) {
	t.Helper()
	data := simple(t, about)
	s, err := signature.LoadSigner(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.SignMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	p.tagged(t, at, ".sig", "application/vnd.dev.cosign.simplesigning.v1+json", data, map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sig)})
}

func simple(t *testing.T, digest string) []byte {
	t.Helper()
	d, err := name.NewDigest("registry.example/acme/app@" + digest)
	if err != nil {
		t.Fatal(err)
	}
	data, err := payload.Cosign{Image: d}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// attest tags an envelope with a statement, as `cosign attest --key` did.
func (p place) attest(t *testing.T, key *ecdsa.PrivateKey, at string, statement []byte) {
	t.Helper()
	s, err := signature.LoadSigner(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := dsse.WrapSigner(s, "application/vnd.in-toto+json").SignMessage(bytes.NewReader(statement))
	if err != nil {
		t.Fatal(err)
	}
	p.tagged(t, at, ".att", "application/vnd.dsse.envelope.v1+json", envelope, map[string]string{"predicateType": "https://slsa.dev/provenance/v0.2"})
}

// attach attaches a bundle with a statement as a referrer, as cosign does since
// version 3.
func (p place) attach(t *testing.T, key *ecdsa.PrivateKey, at string, statement []byte) {
	t.Helper()
	s, err := attest.NewKeySigner(key)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := attest.SignStatement(context.Background(), statement, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := oci.Attach(context.Background(), p.repo+"@"+at, bundle, oci.Options{}); err != nil {
		t.Fatal(err)
	}
}

func statement(predicateType, predicate string, digests ...string) []byte {
	var subjects []string
	for _, d := range digests {
		subjects = append(subjects, `{"name":"app","digest":{"sha256":"`+strings.TrimPrefix(d, "sha256:")+`"}}`)
	}
	return fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[%s],"predicateType":%q,"predicate":%s}`, strings.Join(subjects, ","), predicateType, predicate)
}

func signStatement(digests ...string) []byte {
	return statement("https://sigstore.dev/cosign/sign/v1", `{}`, digests...)
}

func slsa1(id string, digests ...string) []byte {
	return statement("https://slsa.dev/provenance/v1", fmt.Sprintf(`{"buildDefinition":{"buildType":"x"},"runDetails":{"builder":{"id":%q}}}`, id), digests...)
}

func slsa02(id string, digests ...string) []byte {
	return statement("https://slsa.dev/provenance/v0.2", fmt.Sprintf(`{"builder":{"id":%q},"buildType":"x"}`, id), digests...)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (p place) admit(rules admission.Rules) (*manifest.Admission, error) {
	return admission.Admit(context.Background(), p.img, "", &rules, image.Options{})
}

func TestByKey(t *testing.T) {
	ours, theirs := newKey(t), newKey(t)
	for _, tt := range []struct {
		name    string
		put     func(p place)
		builder string
		refused string // part of the refusal, "" for admitted
	}{
		{"unsigned", func(place) {}, "", "neither signatures nor attestations"},
		{"signed, by tag", func(p place) { p.sign(t, ours, p.img.Digest, p.img.Digest) }, "", ""},
		{"signed, by referrer", func(p place) { p.attach(t, ours, p.img.Digest, signStatement(p.img.Digest)) }, "", ""},
		{"another key, by tag", func(p place) { p.sign(t, theirs, p.img.Digest, p.img.Digest) }, "", "does not verify"},
		{"another key, by referrer", func(p place) { p.attach(t, theirs, p.img.Digest, signStatement(p.img.Digest)) }, "", "does not verify"},
		{"another image's, moved over, by tag", func(p place) { p.sign(t, ours, p.img.Digest, p.push(t).Digest) }, "", "signs the image"},
		{"another image's, moved over, by referrer", func(p place) { p.attach(t, ours, p.img.Digest, signStatement(p.push(t).Digest)) }, "", "does not verify"},
		{"another image's, where it belongs", func(p place) { d := p.push(t).Digest; p.sign(t, ours, d, d) }, "", "neither"},
		{"of two subjects", func(p place) { p.attach(t, ours, p.img.Digest, signStatement(p.push(t).Digest, p.img.Digest)) }, "", "2 subjects"},
		{"a good one beside a bad one", func(p place) {
			p.sign(t, theirs, p.img.Digest, p.img.Digest)
			p.attach(t, ours, p.img.Digest, signStatement(p.img.Digest))
		}, "", ""},
		{"a broken bundle beside a good signature", func(p place) {
			p.tagged(t, p.img.Digest, ".att", "application/vnd.dsse.envelope.v1+json", []byte("{"), nil)
			p.sign(t, ours, p.img.Digest, p.img.Digest)
		}, "", ""},
		{"attested only", func(p place) { p.attest(t, ours, p.img.Digest, slsa02(builder, p.img.Digest)) }, "", "no signature"},
		{"signed, no provenance", func(p place) { p.sign(t, ours, p.img.Digest, p.img.Digest) }, builder, "no provenance"},
		{"provenance v0.2, by tag", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.attest(t, ours, p.img.Digest, slsa02(builder, p.img.Digest))
		}, builder, ""},
		{"provenance v1, by referrer", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.attach(t, ours, p.img.Digest, slsa1(builder, p.push(t).Digest, p.img.Digest))
		}, builder, ""},
		{"another builder", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.attach(t, ours, p.img.Digest, slsa1(builder+".evil", p.img.Digest))
		}, builder, "provenance by the builder"},
		{"a builder in the other version's place", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.attach(t, ours, p.img.Digest, statement("https://slsa.dev/provenance/v1", fmt.Sprintf(`{"builder":{"id":%q}}`, builder), p.img.Digest))
		}, builder, "provenance by the builder"},
		{"provenance by another key", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.attach(t, theirs, p.img.Digest, slsa1(builder, p.img.Digest))
		}, builder, "does not verify"},
		{"provenance of another image", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.attest(t, ours, p.img.Digest, slsa02(builder, p.push(t).Digest))
		}, builder, "does not verify"},
		{"a builder named twice", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.attest(t, ours, p.img.Digest, statement("https://slsa.dev/provenance/v0.2", fmt.Sprintf(`{"builder":{"id":"x"},"builder":{"id":%q}}`, builder), p.img.Digest))
		}, builder, "does not verify"},
		{"an envelope of another type", func(p place) {
			p.sign(t, ours, p.img.Digest, p.img.Digest)
			p.tagged(t, p.img.Digest, ".att", "application/vnd.dsse.envelope.v1+json", []byte(`{"payloadType":"text/plain","payload":"","signatures":[{"sig":"AA=="}]}`), nil)
		}, builder, "text/plain"},
	} {
		for _, referrers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, referrers %v", tt.name, referrers), func(t *testing.T) {
				p := newPlace(t, referrers)
				tt.put(p)
				a, err := p.admit(admission.Rules{Key: ours.Public(), Builder: tt.builder})
				if tt.refused != "" {
					if !errors.Is(err, admission.ErrNotAdmitted) || !strings.Contains(err.Error(), tt.refused) || a != nil {
						t.Errorf("got %+v, %v; want a refusal with %q", a, err, tt.refused)
					}
					return
				}
				if err != nil || a.State != manifest.AdmissionAdmitted || len(a.PolicyDigest) != 71 || !strings.Contains(a.Detail, tt.builder) {
					t.Errorf("got %+v, %v", a, err)
				}
			})
		}
	}
}

// The index's signature counts for the manifest that was chosen through it.
func TestIndex(t *testing.T) {
	key := newKey(t)
	p := newPlace(t, true)
	index := p.push(t)
	p.sign(t, key, index.Digest, index.Digest)
	if _, err := p.admit(admission.Rules{Key: key.Public()}); !errors.Is(err, admission.ErrNotAdmitted) {
		t.Errorf("without the index: %v", err)
	}
	p.img.IndexDigest = index.Digest
	if _, err := p.admit(admission.Rules{Key: key.Public()}); err != nil {
		t.Errorf("through the index: %v", err)
	}
}

func TestElsewhere(t *testing.T) {
	key := newKey(t)
	p := newPlace(t, true)
	p.sign(t, key, p.img.Digest, p.img.Digest)
	local := *p.img
	local.Source, local.Reference = image.FromLayout, "./layout@"+p.img.Digest
	rules := &admission.Rules{Key: key.Public()}
	if _, err := admission.Admit(context.Background(), &local, "", rules, image.Options{}); err == nil || errors.Is(err, admission.ErrNotAdmitted) || !strings.Contains(err.Error(), "--admit-from") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := admission.Admit(context.Background(), &local, p.repo, rules, image.Options{}); err != nil {
		t.Errorf("a folder with its repository: %v", err)
	}
	if _, err := admission.Admit(context.Background(), &local, "127.0.0.1:1/none", rules, image.Options{}); err == nil || errors.Is(err, admission.ErrNotAdmitted) {
		t.Errorf("a registry that is not there refuses nothing and admits nothing: %v", err)
	}
}

func TestRules(t *testing.T) {
	key := newKey(t).Public()
	for _, bad := range []admission.Rules{{}, {Builder: builder}, {Key: key, Identity: identity, Issuer: issuer}, {Identity: identity}, {Issuer: issuer}, {Key: key, WithoutSCT: true}, {Identity: identity, Issuer: issuer, WithoutSCT: true}} {
		if bad.Check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	digests := map[string]bool{}
	for _, r := range []admission.Rules{{Key: key}, {Key: newKey(t).Public()}, {Key: key, Builder: builder}, {Identity: identity, Issuer: issuer}, {Identity: identity, Issuer: issuer + "x"}, {Identity: identity, Issuer: issuer, Builder: builder}} {
		d, err := r.Digest()
		if again, _ := r.Digest(); err != nil || digests[d] || d != again {
			t.Errorf("%+v: %s, %v", r, d, err)
		}
		digests[d] = true
	}
}

// keyless signs as `cosign sign` did up to version 2 without a key: certificate
// and log entry in annotations.
func (p place) keyless(t *testing.T, v *ca.VirtualSigstore, who, from string, signed, claimed []byte) {
	t.Helper()
	e, err := v.Sign(who, from, signed)
	if err != nil {
		t.Fatal(err)
	}
	content, err := e.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := e.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := e.TlogEntries()
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	id, err := v.RekorLogID()
	if err != nil {
		t.Fatal(err)
	}
	entry := entries[0].TransparencyLogEntry()
	in := tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(entry.CanonicalizedBody), IntegratedTime: entry.IntegratedTime, LogIndex: entry.LogIndex, LogID: id}
	set, err := v.RekorSignPayload(in)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := json.Marshal(map[string]any{"SignedEntryTimestamp": set, "Payload": map[string]any{"body": entry.CanonicalizedBody, "integratedTime": entry.IntegratedTime, "logIndex": entry.LogIndex, "logID": id}})
	if err != nil {
		t.Fatal(err)
	}
	p.tagged(t, p.img.Digest, ".sig", "application/vnd.dev.cosign.simplesigning.v1+json", claimed, map[string]string{
		"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sig.Signature()),
		"dev.sigstore.cosign/certificate":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content.Certificate().Raw})),
		"dev.sigstore.cosign/bundle":         string(bundle),
	})
}

func trusted(t *testing.T, v *ca.VirtualSigstore) []byte {
	t.Helper()
	logs := v.RekorLogs()
	for id, l := range logs {
		raw, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		l.ID = raw
	}
	tr, err := root.NewTrustedRoot(root.TrustedRootMediaType01, v.FulcioCertificateAuthorities(), nil, v.TimestampingAuthorities(), logs)
	if err != nil {
		t.Fatal(err)
	}
	data, err := tr.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestByIdentity(t *testing.T) {
	v, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	rules := admission.Rules{Identity: identity, Issuer: issuer, TrustedRoot: trusted(t, v), WithoutSCT: true}
	for _, tt := range []struct {
		name string
		put  func(p place)
		good bool
	}{
		{"signed", func(p place) { d := simple(t, p.img.Digest); p.keyless(t, v, identity, issuer, d, d) }, true},
		{"another identity", func(p place) { d := simple(t, p.img.Digest); p.keyless(t, v, identity+"x", issuer, d, d) }, false},
		{"another issuer", func(p place) { d := simple(t, p.img.Digest); p.keyless(t, v, identity, issuer+".evil", d, d) }, false},
		{"another authority", func(p place) { d := simple(t, p.img.Digest); p.keyless(t, other, identity, issuer, d, d) }, false},
		{"another image", func(p place) { d := simple(t, p.push(t).Digest); p.keyless(t, v, identity, issuer, d, d) }, false},
		{"another payload", func(p place) {
			p.keyless(t, v, identity, issuer, simple(t, p.push(t).Digest), simple(t, p.img.Digest))
		}, false},
		{"a bare key", func(p place) { p.sign(t, newKey(t), p.img.Digest, p.img.Digest) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, true)
			tt.put(p)
			a, err := p.admit(rules)
			if tt.good && (err != nil || !strings.Contains(a.Detail, identity)) {
				t.Errorf("got %+v, %v", a, err)
			}
			if !tt.good && !errors.Is(err, admission.ErrNotAdmitted) {
				t.Errorf("got %+v, %v; want a refusal", a, err)
			}
		})
	}
}
