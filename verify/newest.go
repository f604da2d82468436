package verify

import (
	"fmt"

	"github.com/wallproof/wallproof/attest/manifest"
)

// Newest chooses among several attestations of one image: of those with the best
// verdict (valid before held before invalid) the one that was collected last. It
// returns its index and says why, or −1 when there is none.
func Newest(reports []Report) (index int, why string) {
	index = -1
	for i, r := range reports {
		if index < 0 || better(r, reports[index]) {
			index = i
		}
	}
	if index < 0 {
		return index, "there is no attestation"
	}
	r := reports[index]
	why = fmt.Sprintf("%s, collected %s", r.Verdict, orUnknown(r.Times.Collected))
	if n := len(reports) - 1; n > 0 {
		why += fmt.Sprintf("; %d other attestations are older or worse", n)
	}
	return index, why
}

func orUnknown(s string) string {
	if s == "" {
		return "at an unknown time"
	}
	return s
}

// better reports whether a is to be preferred to b.
func better(a, b Report) bool {
	if ra, rb := rank(a.Verdict), rank(b.Verdict); ra != rb {
		return ra > rb
	}
	// A report whose statement was not authenticated has no time that counts.
	ta, errA := manifest.ParseTime(a.Times.Collected)
	tb, errB := manifest.ParseTime(b.Times.Collected)
	if errA != nil || errB != nil {
		return errA == nil && errB != nil
	}
	return ta.After(tb)
}

func rank(v Verdict) int {
	switch v {
	case Valid:
		return 2
	case VerdictHeld:
		return 1
	}
	return 0
}
