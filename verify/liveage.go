package verify

import (
	"fmt"
	"time"

	"github.com/wallproof/wallproof/attest/predicate"
)

// MaxLiveAge is how old a live.json may be for what it gives to count as what is
// deployed at the moment asked about.
const MaxLiveAge = 7 * 24 * time.Hour

// LiveOutdated tells whether a live.json says nothing of a moment: it is older than
// MaxLiveAge then, or of a later time. One that cannot be read is not outdated.
func LiveOutdated(data []byte, at time.Time) bool {
	live, err := predicate.ParseLive(data)
	return err == nil && outdated(live, at) != ""
}

// outdated tells why a live.json says nothing of a moment, or "". What it shows to
// have drifted did drift, whenever that was, and holds all the same.
func outdated(live predicate.Live, at time.Time) string {
	generated, err := parseAny(live.Generated)
	switch {
	case err != nil: // ParseLive refuses it
		return "it bears no time"
	case generated.After(at.Add(ClockSkew)):
		return fmt.Sprintf("it is of %.40s, later than the time asked about", live.Generated)
	case at.Sub(generated) > MaxLiveAge:
		return fmt.Sprintf("it is of %.40s, more than %d days before the time asked about", live.Generated, MaxLiveAge/(24*time.Hour))
	}
	return ""
}

// same reports that what live.json gives is as attested: now, or no later than it
// was written.
func (v *verification) same(live predicate.Live, check string, passed, old Code, message string) {
	if why := outdated(live, v.in.At); why != "" {
		v.skip(check, old, "live.json gives what was attested, but "+why, "live.json")
		return
	}
	v.pass(check, passed, message, "live.json")
}
