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
// signs them and returns the bundle in JSON, with one LF at the end. Nobody else
// hears of it.
func SignStatement(ctx context.Context, statement []byte, s Signer) ([]byte, error) {
	return SignStatementWith(ctx, statement, s, Services{})
}

// SignStatementWith is SignStatement with services that take part: they issue a
// certificate for a keyless signer, a timestamp, an entry in a log. When one
// fails there is no bundle at all.
func SignStatementWith(ctx context.Context, statement []byte, s Signer, services Services) ([]byte, error) {
	if s == nil {
		return nil, ErrNoSigner
	}
	o, err := services.options(ctx, s, tokenOf(s))
	if err != nil {
		return nil, err
	}
	content := &sign.DSSEData{Data: statement, PayloadType: predicate.PayloadType}
	b, err := sign.Bundle(content, s, o)
	if err != nil && services.any() && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %w", ErrService, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sign the statement: %w", err)
	}
	data, err := protojson.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write the bundle: %w", err)
	}
	return append(data, '\n'), nil
}
