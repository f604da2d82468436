package verify

import (
	"fmt"
	"slices"
	"strings"

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
	return index, why + passedOver(reports, r)
}

// passedOver warns of the newest authenticated attestation that is newer than the
// chosen one and does not support the claim.
func passedOver(reports []Report, chosen Report) string {
	var newest *Report
	for i, r := range reports {
		if r.Signer != nil && rank(r.Verdict) < rank(chosen.Verdict) && after(r, chosen) && (newest == nil || after(r, *newest)) {
			newest = &reports[i]
		}
	}
	if newest == nil {
		return ""
	}
	var codes []string
	for _, c := range newest.Failed() {
		if !slices.Contains(codes, string(c.Code)) && len(codes) < maxCodesNamed {
			codes = append(codes, string(c.Code))
		}
	}
	return fmt.Sprintf("; a newer one, collected %s, is %s: %s", newest.Times.Collected, newest.Verdict, strings.Join(codes, ", "))
}

const maxCodesNamed = 5

// after tells whether a was collected after b, as far as both say when.
func after(a, b Report) bool {
	ta, errA := manifest.ParseTime(a.Times.Collected)
	tb, errB := manifest.ParseTime(b.Times.Collected)
	return errA == nil && errB == nil && ta.After(tb)
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
