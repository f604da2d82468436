package attest_test

import (
	"context"
	"encoding/hex"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"

	"github.com/wallproof/wallproof/attest"
)

// recording is a signer that tells what it signed, for a test's timestamp
// authority, which needs the signature itself.
type recording struct {
	attest.Signer
	signed func(sig []byte)
}

func (r recording) SignData(ctx context.Context, data []byte) ([]byte, []byte, error) {
	sig, digest, err := r.Signer.SignData(ctx, data)
	if err == nil {
		r.signed(sig)
	}
	return sig, digest, err
}

// trustedRootOf is the trusted root of a deployment in memory.
func trustedRootOf(t testing.TB, v *ca.VirtualSigstore) []byte {
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
