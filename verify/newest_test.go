package verify_test

import (
	"strings"
	"testing"

	"github.com/wallproof/wallproof/verify"
)

func TestNewest(t *testing.T) {
	report := func(v verify.Verdict, collected string) verify.Report {
		return verify.Report{Verdict: v, Times: verify.Times{Collected: collected}}
	}
	const day1, day2 = "2026-11-01T00:00:00.000Z", "2026-11-02T00:00:00.000Z"
	for _, c := range []struct {
		name string
		list []verify.Report
		want int
	}{
		{"none", nil, -1},
		{"one", []verify.Report{report(verify.Invalid, "")}, 0},
		{"newest valid", []verify.Report{report(verify.Valid, day1), report(verify.Valid, day2)}, 1},
		{"order does not matter", []verify.Report{report(verify.Valid, day2), report(verify.Valid, day1)}, 0},
		{"valid before a newer held one", []verify.Report{report(verify.VerdictHeld, day2), report(verify.Valid, day1)}, 1},
		{"held before a newer invalid one", []verify.Report{report(verify.Invalid, day2), report(verify.VerdictHeld, day1)}, 1},
		{"a time that was not authenticated does not count", []verify.Report{report(verify.Invalid, ""), report(verify.Invalid, day1)}, 1},
	} {
		got, why := verify.Newest(c.list)
		if got != c.want || why == "" {
			t.Errorf("%s: %d (%s), want %d", c.name, got, why, c.want)
		}
	}
	if _, why := verify.Newest([]verify.Report{report(verify.Valid, day1), report(verify.Invalid, "")}); !strings.Contains(why, "1 other") {
		t.Errorf("why = %q", why)
	}
	// One that is newer, and does not support the claim, is told of, if it is the
	// attester's.
	escaped := report(verify.VerdictHeld, day2)
	escaped.Checks = []verify.Check{{Name: verify.CheckBattery, Status: verify.Held, Code: verify.CodeCriticalEscape}}
	if i, why := verify.Newest([]verify.Report{report(verify.Valid, day1), escaped}); i != 0 || strings.Contains(why, "a newer one") {
		t.Errorf("of nobody: %d, %q", i, why)
	}
	escaped.Signer = &verify.Signer{Kind: "key"}
	if i, why := verify.Newest([]verify.Report{report(verify.Valid, day1), escaped}); i != 0 || !strings.Contains(why, "a newer one, collected "+day2+", is held: critical-escape") {
		t.Errorf("a newer escape: %d, %q", i, why)
	}
	escaped.Times.Collected = "2026-10-01T00:00:00.000Z"
	if _, why := verify.Newest([]verify.Report{report(verify.Valid, day1), escaped}); strings.Contains(why, "a newer one") {
		t.Errorf("an older escape: %q", why)
	}
}
