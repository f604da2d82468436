package verify

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
)

// freshness compares the statement with the present, or with the moment that
// was asked about.
func (v *verification) freshness() {
	v.expiry()
	live, ok := v.live()
	v.image(live, ok)
	v.policy(live, ok)
	v.fabric(live, ok)
	v.latch()
}

// expiry checks the order of times and the two limits: the statement's own, and
// the verifier's cap.
func (v *verification) expiry() {
	b := v.boundary
	collected, err1 := manifest.ParseTime(b.Collected)
	attested, err2 := manifest.ParseTime(b.Attested)
	expires, err3 := manifest.ParseTime(b.Expires)
	if err1 != nil || err2 != nil || err3 != nil {
		v.fail(CheckExpiry, CodeTimeBadForm, fmt.Sprintf("collected %.40q, attested %.40q or expires %.40q is not a time in UTC with milliseconds", b.Collected, b.Attested, b.Expires), "predicate.collected")
		return
	}
	maxAge := v.in.MaxAge
	if maxAge == 0 {
		maxAge = DefaultMaxAge
	}
	end, code := expires, CodeExpired
	if limit := collected.Add(maxAge); limit.Before(end) {
		end, code = limit, CodeExpiredCap
	}
	v.report.Times.Expires = manifest.FormatTime(end)
	late := v.in.At.Add(ClockSkew)
	switch {
	case attested.Before(collected) || !expires.After(attested) || (!v.signed.IsZero() && v.signed.Add(ClockSkew).Before(attested)):
		v.fail(CheckExpiry, CodeTimesOrder, fmt.Sprintf("collected %s, attested %s, signed %s, expires %s: out of order", b.Collected, b.Attested, v.report.Times.Signed, b.Expires), "predicate.attested")
	case collected.After(late) || attested.After(late) || v.signed.After(late):
		v.hold(CheckExpiry, CodeNotYet, "at "+v.report.Times.Checked+" this attestation did not exist yet", "predicate.attested")
	case !v.in.At.Before(end):
		v.hold(CheckExpiry, code, "expired on "+manifest.FormatTime(end)+": collect anew", "predicate.expires")
	default:
		v.pass(CheckExpiry, CodeCurrent, "valid until "+manifest.FormatTime(end), "predicate.expires")
	}
}

// live reads live.json. ok tells whether there is one to compare with.
func (v *verification) live() (predicate.Live, bool) {
	if v.in.Live == nil {
		return predicate.Live{}, false
	}
	live, err := predicate.ParseLive(v.in.Live)
	if err != nil {
		v.fail(CheckImage, CodeLiveMalformed, err.Error(), "live.json")
		return predicate.Live{}, false
	}
	return live, true
}

func (v *verification) image(live predicate.Live, ok bool) {
	b := v.boundary.Image
	switch {
	case !ok || live.Image == "":
		v.skip(CheckImage, CodeImageUnknown, "what is deployed was not given", "")
	case live.Image == b.Digest:
		v.same(live, CheckImage, CodeImageSame, CodeImageOutdated, "deployed is the attested image")
	case live.Image == b.IndexDigest:
		v.hold(CheckImage, CodeImageDrift, "live.json names the index "+live.Image+"; attested is its platform manifest "+b.Digest+": write that", "live.json")
	default:
		v.hold(CheckImage, CodeImageDrift, "deployed is "+live.Image+", attested is "+b.Digest, "live.json")
	}
}

func (v *verification) policy(live predicate.Live, ok bool) {
	attested := v.boundary.Policy.Digest
	compared := false
	for _, now := range []struct{ digest, source string }{{v.in.PolicyDigest, "the policy given"}, {live.Policy, "live.json"}} {
		if now.digest == "" || (now.source == "live.json" && !ok) {
			continue
		}
		compared = true
		if err := predicate.CheckDigest(now.digest); err != nil {
			v.fail(CheckPolicy, CodePolicyForm, err.Error(), now.source)
		} else if now.digest != attested {
			v.hold(CheckPolicy, CodePolicyDrift, "in force is "+now.digest+", attested is "+attested, now.source)
		} else if now.source == "live.json" {
			v.same(live, CheckPolicy, CodePolicySame, CodePolicyOutdated, "in force is the attested policy")
		} else {
			v.pass(CheckPolicy, CodePolicySame, "in force is the attested policy", now.source)
		}
	}
	if !compared {
		v.skip(CheckPolicy, CodePolicyUnknown, "the policy in force was not given", "")
	}
}

// fabric compares each member that live.json has.
func (v *verification) fabric(live predicate.Live, ok bool) {
	if !ok || live.Fabric == nil {
		v.skip(CheckFabric, CodeFabricUnknown, "the fabric in use was not given", "")
		return
	}
	now, then := live.Fabric, v.boundary.Fabric
	drifted, same := false, []string{}
	for _, c := range []struct{ name, now, then string }{
		{"driver", now.Driver, then.Driver.Name},
		{"version", now.Version, then.Driver.Version},
		{"configuration", now.ConfigDigest, then.Driver.ConfigDigest},
		{"kernel", now.Kernel, then.Host.Kernel},
		{"architecture", now.Arch, then.Host.Arch},
	} {
		switch c.now {
		case "":
		case c.then:
			same = append(same, c.name)
		default:
			drifted = true
			v.hold(CheckFabric, CodeFabricDrift, fmt.Sprintf("%s is %.100q, attested is %.100q: run battery and red team again", c.name, c.now, c.then), "live.json")
		}
	}
	if now.Isolation != nil {
		if maps.Equal(now.Isolation, then.Driver.Isolation) {
			same = append(same, "isolation")
		} else {
			drifted = true
			v.hold(CheckFabric, CodeFabricDrift, "the isolation facts are not the attested ones: run battery and red team again", "live.json")
		}
	}
	switch {
	case drifted:
	case len(same) == 0:
		v.skip(CheckFabric, CodeFabricUnknown, "live.json says nothing of the fabric in use", "live.json")
	default:
		v.same(live, CheckFabric, CodeFabricSame, CodeFabricOutdated, "the fabric in use is the attested one: "+strings.Join(same, ", "))
	}
}

// latch holds an attestation for good once a drift was seen.
func (v *verification) latch() {
	if v.in.Latched == nil {
		v.skip(CheckLatch, CodeLatchUnknown, "no history was given", "")
		return
	}
	for _, l := range v.in.Latched {
		v.hold(CheckLatch, CodeLatched, fmt.Sprintf("%s was seen on %.40s; only a new collection lifts it", l.Code, l.Since), "history.json")
	}
	if len(v.in.Latched) == 0 {
		v.pass(CheckLatch, CodeNotLatched, "no drift of this attestation was seen before", "history.json")
	}
}

// parseAny reads a time in RFC 3339, as other producers write it.
func parseAny(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) }
