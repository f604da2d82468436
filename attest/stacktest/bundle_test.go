//go:build stack

package stacktest

import (
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// exchangeEntries puts the log entries of one bundle into another.
func exchangeEntries(dest, source []byte) ([]byte, error) {
	var a, b protobundle.Bundle
	if err := protojson.Unmarshal(dest, &a); err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(source, &b); err != nil {
		return nil, err
	}
	a.VerificationMaterial.TlogEntries = b.VerificationMaterial.TlogEntries
	return protojson.Marshal(&a)
}
