package attest

import (
	"context"
	"errors"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/wallproof/wallproof/attest/predicate"
)

// ErrNoSigner means that nothing to sign with was given.
var ErrNoSigner = errors.New("no signer: give a key")

// SignStatement puts a statement's bytes, as they are, into a DSSE envelope,
// signs them and returns the bundle in JSON, with one LF at the end.
func SignStatement(ctx context.Context, statement []byte, s Signer) ([]byte, error) {
	if s == nil {
		return nil, ErrNoSigner
	}
	content := &sign.DSSEData{Data: statement, PayloadType: predicate.PayloadType}
	b, err := sign.Bundle(content, s, sign.BundleOptions{Context: ctx})
	if err != nil {
		return nil, fmt.Errorf("sign the statement: %w", err)
	}
	data, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write the bundle: %w", err)
	}
	return append(data, '\n'), nil
}
