package verify_test

import (
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

// Every limit of time, a second and a millisecond to each side of it.
func TestLimitsToTheSecond(t *testing.T) {
	p := smallPacket(t, packettest.Validity(365*24*time.Hour))
	short := smallPacket(t)
	times := func(p *packettest.Packet) (collected, attested, expires time.Time) {
		t.Helper()
		st, _, err := predicate.ParseStatement(p.Statement)
		if err != nil {
			t.Fatal(err)
		}
		var b predicate.Boundary
		if _, err := st.Decode(&b); err != nil {
			t.Fatal(err)
		}
		for text, dest := range map[string]*time.Time{b.Collected: &collected, b.Attested: &attested, b.Expires: &expires} {
			if *dest, err = manifest.ParseTime(text); err != nil {
				t.Fatal(err)
			}
		}
		return collected, attested, expires
	}
	collected, _, _ := times(p)
	_, attested, expires := times(short)
	const second, step = time.Second, time.Millisecond
	skew := verify.ClockSkew
	live := func(d time.Duration) func(*verify.Input) {
		return liveInput(t, generated(packettest.Now.Add(d).Format(time.RFC3339Nano)))
	}
	for _, c := range []struct {
		name    string
		packet  *packettest.Packet
		limit   time.Time
		change  func(*verify.Input)
		offsets map[time.Duration]verify.Code
	}{
		{"expires", short, expires, nil, map[time.Duration]verify.Code{-second: verify.CodeCurrent, -step: verify.CodeCurrent, 0: verify.CodeExpired, step: verify.CodeExpired, second: verify.CodeExpired}},
		{"the verifier's default cap", p, collected.Add(verify.DefaultMaxAge), nil, map[time.Duration]verify.Code{-second: verify.CodeCurrent, -step: verify.CodeCurrent, 0: verify.CodeExpiredCap, step: verify.CodeExpiredCap}},
		{"a cap of his own", short, collected.Add(24 * time.Hour), func(in *verify.Input) { in.MaxAge = 24 * time.Hour }, map[time.Duration]verify.Code{-second: verify.CodeCurrent, -step: verify.CodeCurrent, 0: verify.CodeExpiredCap, step: verify.CodeExpiredCap}},
		{"a cap beyond the end", short, expires, func(in *verify.Input) { in.MaxAge = 1000 * 24 * time.Hour }, map[time.Duration]verify.Code{-step: verify.CodeCurrent, 0: verify.CodeExpired}},
		{"not before it was attested", short, attested.Add(-skew), nil, map[time.Duration]verify.Code{-second: verify.CodeNotYet, -step: verify.CodeNotYet, 0: verify.CodeCurrent, step: verify.CodeCurrent}},
		{"live.json a week old", short, packettest.Now, live(-verify.MaxLiveAge), map[time.Duration]verify.Code{-second: verify.CodeImageSame, -step: verify.CodeImageSame, 0: verify.CodeImageSame, step: verify.CodeImageOutdated, second: verify.CodeImageOutdated}},
		{"live.json of the future", short, packettest.Now, live(skew), map[time.Duration]verify.Code{-second: verify.CodeImageOutdated, -step: verify.CodeImageOutdated, 0: verify.CodeImageSame, step: verify.CodeImageSame}},
	} {
		for offset, code := range c.offsets {
			in := c.packet.Input()
			in.At, in.WithoutRerun = c.limit.Add(offset), true
			if c.change != nil {
				c.change(&in)
			}
			r := verify.Verify(in)
			held := code == verify.CodeExpired || code == verify.CodeExpiredCap || code == verify.CodeNotYet
			if !r.Has(code) || (r.Verdict == verify.VerdictHeld) != held || r.Verdict == verify.Invalid {
				t.Errorf("%s, %s from it: %s, want %s:%s", c.name, offset, r.Verdict, code, explain(r))
			}
		}
	}
}
