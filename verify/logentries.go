package verify

import (
	"fmt"
	"strconv"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// logTimes verifies log entries, each of them. logged tells whether there are any.
func logTimes(e *envelope, material root.TrustedMaterial) (times []root.Timestamp, err error, logged bool) {
	entries := e.bundle.GetVerificationMaterial().GetTlogEntries()
	if len(entries) == 0 {
		return nil, nil, false
	}
	times, err = verify.VerifyTlogEntry(e.bundle, material, 1, true)
	if err == nil && len(entries) > 1 {
		err = eachLogEntry(e, material)
	}
	if err != nil {
		return nil, err, true
	}
	return times, nil, true
}

// eachLogEntry verifies each entry by itself. The library is content with one that is
// good, and passes over those of logs that it does not know and over promises that do
// not verify. But a good entry does not make a bad one beside it harmless, as with
// timestamps: what a report says of the entry would be anybody's word.
func eachLogEntry(e *envelope, material root.TrustedMaterial) error {
	m := e.bundle.GetVerificationMaterial()
	for i := range m.GetTlogEntries() {
		alone, err := bundle.NewBundle(&protobundle.Bundle{
			MediaType: e.bundle.GetMediaType(), Content: e.bundle.GetContent(),
			VerificationMaterial: &protobundle.VerificationMaterial{
				Content: m.GetContent(), TlogEntries: m.GetTlogEntries()[i : i+1], TimestampVerificationData: m.GetTimestampVerificationData(),
			},
		})
		if err == nil {
			_, err = verify.VerifyTlogEntry(alone, material, 1, true)
		}
		if err != nil {
			return fmt.Errorf("log entry %d of %d: %w", i+1, len(m.GetTlogEntries()), err)
		}
	}
	return nil
}

// logIndex is the index of the first log entry as its log vouches for it, or "".
// The promise of a log of the first version is over the entry's index in all of the
// log; without one only the index in the tree of the inclusion proof is vouched for.
func (e *envelope) logIndex() string {
	entries, err := e.bundle.TlogEntries()
	if err != nil || len(entries) == 0 {
		return ""
	}
	first := entries[0]
	if first.HasInclusionPromise() || first.IsRekorV2() {
		return strconv.FormatInt(first.LogIndex(), 10)
	}
	return strconv.FormatInt(first.TransparencyLogEntry().GetInclusionProof().GetLogIndex(), 10)
}
