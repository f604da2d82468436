package attest

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/digitorus/timestamp"
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"google.golang.org/protobuf/encoding/protojson"
)

// Record is what a bundle says of its own signature: who signed, when, and where
// it is logged. It is for printing right after signing; a verifier finds all of
// it out for itself.
type Record struct {
	Identity   string   // subject alternative name of the certificate, "" for a bare key
	Issuer     string   // OIDC issuer of the identity
	Logs       []string // "REKOR-KEY-ID index N", one for each log entry
	Timestamps []string // RFC 3339, by a timestamp authority
}

// ReadRecord reads the record of a bundle, and believes it.
func ReadRecord(bundle []byte) (Record, error) {
	var b protobundle.Bundle
	var r Record
	if err := protojson.Unmarshal(bytes.TrimSpace(bundle), &b); err != nil {
		return r, fmt.Errorf("read the bundle: %w", err)
	}
	m := b.GetVerificationMaterial()
	if raw := m.GetCertificate().GetRawBytes(); raw != nil {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			return r, fmt.Errorf("read the bundle's certificate: %w", err)
		}
		s, err := certificate.SummarizeCertificate(c)
		if err != nil {
			return r, fmt.Errorf("read the bundle's certificate: %w", err)
		}
		r.Identity, r.Issuer = s.SubjectAlternativeName, s.Issuer
	}
	for _, e := range m.GetTlogEntries() {
		r.Logs = append(r.Logs, fmt.Sprintf("%x index %d", e.GetLogId().GetKeyId(), e.GetLogIndex()))
	}
	for _, t := range m.GetTimestampVerificationData().GetRfc3161Timestamps() {
		ts, err := timestamp.ParseResponse(t.GetSignedTimestamp())
		if err != nil {
			return r, fmt.Errorf("read the bundle's timestamp: %w", err)
		}
		r.Timestamps = append(r.Timestamps, ts.Time.UTC().Format(time.RFC3339))
	}
	return r, nil
}
