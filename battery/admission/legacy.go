package admission

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"crypto/sha256"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protodsse "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
)

// Annotations of cosign's tags.
const (
	signatureAnnotation   = "dev.cosignproject.cosign/signature"
	certificateAnnotation = "dev.sigstore.cosign/certificate"
	bundleAnnotation      = "dev.sigstore.cosign/bundle"
)

// legacy brings a layer of cosign's tags into the form of a bundle, so that both
// are verified in one way. By a key: the signature alone. By a certificate: with
// the log's entry, which promises by its signature when it was made.
func legacy(data []byte, annotations map[string]string, simple bool) (*bundle.Bundle, []byte, error) {
	b := &protobundle.Bundle{VerificationMaterial: &protobundle.VerificationMaterial{}}
	payload := data
	var err error
	if simple {
		err = signed(b, data, annotations[signatureAnnotation])
	} else {
		payload, err = enveloped(b, data)
	}
	if err != nil {
		return nil, nil, err
	}
	if cert := annotations[certificateAnnotation]; cert != "" {
		b.MediaType = "application/vnd.dev.sigstore.bundle+json;version=0.1"
		err = certified(b.VerificationMaterial, cert, annotations[bundleAnnotation])
	} else {
		b.MediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"
		b.VerificationMaterial.Content = &protobundle.VerificationMaterial_PublicKey{PublicKey: &protocommon.PublicKeyIdentifier{}}
	}
	if err != nil {
		return nil, nil, err
	}
	out, err := bundle.NewBundle(b)
	return out, payload, err
}

// signed is a payload with its signature beside it.
func signed(b *protobundle.Bundle, payload []byte, sig string) error {
	raw, err := base64.StdEncoding.DecodeString(sig)
	if err != nil || len(raw) == 0 {
		return errors.New("the layer has no signature in its annotations")
	}
	sum := sha256.Sum256(payload)
	b.Content = &protobundle.Bundle_MessageSignature{MessageSignature: &protocommon.MessageSignature{Signature: raw,
		MessageDigest: &protocommon.HashOutput{Algorithm: protocommon.HashAlgorithm_SHA2_256, Digest: sum[:]}}}
	return nil
}

// enveloped is a DSSE envelope with a statement.
func enveloped(b *protobundle.Bundle, data []byte) ([]byte, error) {
	var e struct {
		PayloadType string `json:"payloadType"`
		Payload     []byte `json:"payload"`
		Signatures  []struct {
			KeyID string `json:"keyid"`
			Sig   []byte `json:"sig"`
		} `json:"signatures"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("read the envelope: %w", err)
	}
	if e.PayloadType != statementType || len(e.Signatures) != 1 {
		return nil, fmt.Errorf("a payload of the type %.80q with %d signatures; a statement with one is wanted", e.PayloadType, len(e.Signatures))
	}
	b.Content = &protobundle.Bundle_DsseEnvelope{DsseEnvelope: &protodsse.Envelope{Payload: e.Payload, PayloadType: e.PayloadType,
		Signatures: []*protodsse.Signature{{Sig: e.Signatures[0].Sig, Keyid: e.Signatures[0].KeyID}}}}
	return e.Payload, nil
}

// logEntry is what cosign keeps of an entry of Rekor.
type logEntry struct {
	SignedEntryTimestamp []byte
	Payload              struct {
		Body           []byte `json:"body"`
		IntegratedTime int64  `json:"integratedTime"`
		LogIndex       int64  `json:"logIndex"`
		LogID          string `json:"logID"`
	}
}

// certified adds the certificate and the log's entry.
func certified(m *protobundle.VerificationMaterial, cert, entry string) error {
	block, _ := pem.Decode([]byte(cert))
	if block == nil || block.Type != "CERTIFICATE" {
		return errors.New("the certificate in the annotations is no certificate in PEM")
	}
	m.Content = &protobundle.VerificationMaterial_X509CertificateChain{X509CertificateChain: &protocommon.X509CertificateChain{
		Certificates: []*protocommon.X509Certificate{{RawBytes: block.Bytes}}}}
	var e logEntry
	if err := json.Unmarshal([]byte(entry), &e); err != nil {
		return errors.New("signed by a certificate, and no entry of a log shows when; it cannot be told whether the certificate was valid")
	}
	id, err := hex.DecodeString(e.Payload.LogID)
	if err != nil {
		return fmt.Errorf("read the log's entry: %w", err)
	}
	var kind struct {
		Kind    string `json:"kind"`
		Version string `json:"apiVersion"`
	}
	if err := json.Unmarshal(e.Payload.Body, &kind); err != nil {
		return fmt.Errorf("read the log's entry: %w", err)
	}
	m.TlogEntries = []*protorekor.TransparencyLogEntry{{
		LogIndex: e.Payload.LogIndex, LogId: &protocommon.LogId{KeyId: id}, IntegratedTime: e.Payload.IntegratedTime, CanonicalizedBody: e.Payload.Body,
		KindVersion:      &protorekor.KindVersion{Kind: kind.Kind, Version: kind.Version},
		InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: e.SignedEntryTimestamp},
	}}
	return nil
}
