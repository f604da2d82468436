package site

import (
	"cmp"
	"strings"
	"time"

	"github.com/wallproof/wallproof/site/history"
)

// record is what the rest of the site needs to know of one attestation. It is
// small and can be stored, unlike the evidence itself.
type record struct {
	ID        string   `json:"id"` // names the folder; "" where no page is rendered
	Digest    string   `json:"digest,omitempty"`
	Subject   string   `json:"subject,omitempty"`
	Name      string   `json:"name,omitempty"`
	Policy    string   `json:"policy,omitempty"`
	Run       string   `json:"run,omitempty"` // head of the battery's manifest
	Collected string   `json:"collected,omitempty"`
	Expires   string   `json:"expires,omitempty"`
	State     State    `json:"state"`
	Codes     []string `json:"codes,omitempty"`
	Claim     string   `json:"claim,omitempty"` // "0 critical escapes"; only while it is shown
	Critical  bool     `json:"critical,omitempty"`
	Ends      []string `json:"ends,omitempty"`  // of the names of its files
	Bytes     int64    `json:"bytes,omitempty"` // of those files
	Sum       string   `json:"sum,omitempty"`   // of what is in them
	made      string   // names those files, where they were just written
	packet    string
	reused    bool
	unread    bool
}

func (r *record) collected() time.Time { return parseTime(r.Collected) }

// chip is the word for the whole attestation.
func (r *record) chip() chip {
	if r.State == StateHeld && onlyLesserEscapes(r.Codes) {
		return chip{Word: "Held in part", Glyph: "held", Class: "hold"}
	}
	return stateWord(r.State, r.Codes)
}

func (r *record) summary() Summary {
	s := Summary{Packet: r.packet, Digest: r.Digest, Subject: r.Subject, State: r.State, Codes: r.Codes}
	if r.ID != "" {
		s.Page = attestationStem(r.ID) + endPage
	}
	return s
}

// newer orders records: later runs first; of those that ended together the one that
// claims less, so that no claim is shown because of an order that means nothing; then
// by digest. Times are all written in one form, in which later is greater.
func newer(a, b *record) int {
	return cmp.Or(strings.Compare(b.Collected, a.Collected), a.claims()-b.claims(), strings.Compare(a.Digest, b.Digest), strings.Compare(a.packet, b.packet))
}

// claims is how much of the claim is shown: nothing, a part, or all of it.
func (r *record) claims() int {
	switch {
	case r.State == StateCurrent:
		return 2
	case r.State == StateHeld && onlyLesserEscapes(r.Codes):
		return 1
	}
	return 0
}

// holdings joins reason codes with when each came up.
func holdings(codes []string, message map[string]string, e *history.Entry, expires, now time.Time) []holding {
	out := make([]holding, 0, len(codes))
	for _, c := range codes {
		h := holding{code: c, message: message[c], since: now}
		if t, ok := firstSeen(e, c); ok {
			h.since = t
		}
		if c == "expired" && !expires.IsZero() && expires.Before(h.since) {
			h.since = expires
		}
		if e != nil {
			for _, l := range e.Latched {
				if l.Code == c {
					h.latched, h.since = true, parseTime(l.Since)
				}
			}
		}
		out = append(out, h)
	}
	return out
}

// firstSeen is when a code came up for the last time, in one unbroken row of
// events up to now.
func firstSeen(e *history.Entry, code string) (time.Time, bool) {
	var t time.Time
	if e == nil {
		return t, false
	}
	for i := len(e.Events) - 1; i >= 0; i-- {
		ev := e.Events[i]
		has := false
		for _, c := range ev.Codes {
			has = has || c == code
		}
		if !has {
			break
		}
		t = parseTime(ev.Time)
	}
	return t, !t.IsZero()
}
