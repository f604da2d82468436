// Package history keeps what a trust-boundary site has said before. It is pure:
// bytes in, bytes out.
//
// history.json is one object:
//
//	{
//	  "schema": "wallproof.history/v1",
//	  "attestations": {
//	    "sha256:…": {
//	      "subject": "sha256:…",
//	      "name":    "ghcr.io/example/agent",
//	      "policy":  "sha256:…",
//	      "run":     "sha256:…",
//	      "collected": "2026-01-02T03:04:05Z",
//	      "latched": [{"code": "policy-drift", "since": "2026-01-02T03:04:05Z"}],
//	      "events":  [{"time": "2026-01-02T03:04:05Z", "state": "held", "codes": ["policy-drift"]}]
//	    }
//	  }
//	}
//
// Drift latches: once a drifted state was seen, going back to the old policy,
// image or fabric does not revive the attestation. Only a new collection does:
// signing the same run once more gives another attestation, which the latches of
// that run hold as well.
//
// An attestation whose packet is not handed over any more stays here: the event
// "removed" says when. Its latches stay too, for when it comes back, and drift that
// can be seen of it meanwhile is added to them.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Schema names the format. An unknown one is refused.
const Schema = "wallproof.history/v1"

// Bounds on a history file, which may come from a checkout that others write to.
const (
	MaxBytes  = 64 << 20
	MaxEvents = 1 << 16 // a single attestation's
)

// State is what a site says of one attestation.
type State string

// The states. Only StateCurrent supports a claim.
const (
	StateCurrent State = "current" // valid, and everything it says still holds
	StateHeld    State = "held"    // valid, but a claim is not shown
	StateInvalid State = "invalid" // does not verify
	StateRemoved State = "removed" // its packet is not published any more
)

// History is the whole file.
type History struct {
	Schema       string            `json:"schema"`
	Attestations map[string]*Entry `json:"attestations"` // by attestation digest

	runs map[string][]Latch // by run: what holds any attestation of it
}

// Entry is the history of one attestation.
type Entry struct {
	Subject   string  `json:"subject,omitempty"`   // the image's platform manifest digest
	Name      string  `json:"name,omitempty"`      // the image's name, as attested
	Policy    string  `json:"policy,omitempty"`    // digest of the attested policy
	Run       string  `json:"run,omitempty"`       // head of the battery's manifest: what was collected
	Collected string  `json:"collected,omitempty"` // when the run ended, RFC 3339, UTC
	Latched   []Latch `json:"latched,omitempty"`   // oldest first
	Events    []Event `json:"events,omitempty"`    // oldest first; each differs from the one before it
}

// Latch is a reason that holds an attestation for good.
type Latch struct {
	Code  string `json:"code"`
	Since string `json:"since"` // RFC 3339, UTC
}

// Event is one change of state.
type Event struct {
	Time  string   `json:"time"` // RFC 3339, UTC
	State State    `json:"state"`
	Codes []string `json:"codes,omitempty"` // sorted
}

// New returns an empty history.
func New() *History {
	return &History{Schema: Schema, Attestations: map[string]*Entry{}, runs: map[string][]Latch{}}
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	codeForm   = regexp.MustCompile(`^[a-z0-9]+([.:-][a-z0-9]+)*$`)
)

// ErrSchema marks a history of a format that this version does not know.
var ErrSchema = errors.New("history: unknown schema")

// Parse reads a history strictly: unknown members, unknown states, unordered
// events and malformed digests are refused. No bytes at all give an empty
// history, since a first build has none.
func Parse(b []byte) (*History, error) {
	if len(b) == 0 {
		return New(), nil
	}
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("history: %d bytes, more than the limit of %d", len(b), MaxBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	h := New()
	h.Schema = ""
	if err := dec.Decode(h); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	if dec.More() {
		return nil, errors.New("history: data after the object")
	}
	if h.Schema != Schema {
		return nil, fmt.Errorf("%w %q, want %q", ErrSchema, h.Schema, Schema)
	}
	if h.Attestations == nil {
		h.Attestations = map[string]*Entry{}
	}
	for digest, e := range h.Attestations {
		if err := e.check(digest); err != nil {
			return nil, err
		}
		for _, l := range e.Latched {
			h.hold(e.Run, l)
		}
	}
	return h, nil
}

func (e *Entry) check(digest string) error {
	if !digestForm.MatchString(digest) {
		return fmt.Errorf("history: %q is not a sha256 digest", digest)
	}
	if e == nil || len(e.Events) > MaxEvents {
		return fmt.Errorf("history: %s: needs at most %d events", digest, MaxEvents)
	}
	for what, d := range map[string]string{"run": e.Run, "policy": e.Policy} {
		if d != "" && !digestForm.MatchString(d) {
			return fmt.Errorf("history: %s: %s %q is not a sha256 digest", digest, what, d)
		}
	}
	if _, err := time.Parse(time.RFC3339, e.Collected); e.Collected != "" && err != nil {
		return fmt.Errorf("history: %s: bad time of collection %q", digest, e.Collected)
	}
	last := time.Time{}
	for i, ev := range e.Events {
		t, err := time.Parse(time.RFC3339, ev.Time)
		if err != nil || t.Before(last) {
			return fmt.Errorf("history: %s: event %d: bad or unordered time %q", digest, i, ev.Time)
		}
		last = t
		if !slices.Contains([]State{StateCurrent, StateHeld, StateInvalid, StateRemoved}, ev.State) {
			return fmt.Errorf("history: %s: event %d: unknown state %q", digest, i, ev.State)
		}
		for _, c := range ev.Codes {
			if !codeForm.MatchString(c) {
				return fmt.Errorf("history: %s: event %d: bad reason code %q", digest, i, c)
			}
		}
	}
	for _, l := range e.Latched {
		if _, err := time.Parse(time.RFC3339, l.Since); err != nil || !codeForm.MatchString(l.Code) {
			return fmt.Errorf("history: %s: bad latch %q since %q", digest, l.Code, l.Since)
		}
	}
	return nil
}

// Bytes writes the history: indented, members in a fixed order, one LF at the
// end, so that two builds give the same bytes and a diff is readable.
func (h *History) Bytes() ([]byte, error) {
	b, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return append(b, '\n'), nil
}

// Latched returns the reasons that hold the attestation for good, its own and
// those of other attestations of the same run ("" where that is not known), or
// nil. Of a code the first sighting counts.
func (h *History) Latched(digest, run string) []Latch {
	var out []Latch
	if e := h.Attestations[digest]; e != nil {
		out = slices.Clone(e.Latched)
	}
	for _, l := range h.runs[run] {
		out = withLatch(out, l)
	}
	return out
}

// Latch records that a reason for good was seen at a time. The first sighting
// of a code counts.
func (h *History) Latch(digest, run, code string, at time.Time) {
	e := h.entry(digest)
	l := Latch{Code: code, Since: Stamp(at)}
	for _, known := range h.runs[run] {
		if known.Code == code {
			l = known
		}
	}
	if run != "" {
		e.Run = run
	}
	e.Latched = withLatch(e.Latched, l)
	h.hold(run, l)
}

// hold adds a latch to a run.
func (h *History) hold(run string, l Latch) {
	if run != "" {
		h.runs[run] = withLatch(h.runs[run], l)
	}
}

// withLatch adds a latch, or keeps the earlier one of its code.
func withLatch(list []Latch, l Latch) []Latch {
	for i, k := range list {
		if k.Code != l.Code {
			continue
		}
		if l.Since < k.Since {
			list[i] = l
		}
		return list
	}
	return append(list, l)
}

// Record notes the state of an attestation at a time. It adds an event only
// when state or codes differ from the last one. A time before the last event is
// moved up to it, because a clock that was set back must not unorder the file.
func (h *History) Record(digest, subject, name string, s State, codes []string, at time.Time) {
	e := h.entry(digest)
	if subject != "" {
		e.Subject, e.Name = subject, name
	}
	codes = slices.Compact(slices.Sorted(slices.Values(codes)))
	stamp := Stamp(at)
	if n := len(e.Events); n > 0 {
		last := e.Events[n-1]
		if last.State == s && slices.Equal(last.Codes, codes) {
			return
		}
		if strings.Compare(stamp, last.Time) < 0 {
			stamp = last.Time
		}
	}
	e.Events = append(e.Events, Event{Time: stamp, State: s, Codes: codes})
}

// Remove records of all attestations that are not present in a build that they are
// published no longer, and returns those of which this was not known, sorted.
func (h *History) Remove(present func(digest string) bool, at time.Time) []string {
	var out []string
	for digest, e := range h.Attestations {
		if n := len(e.Events); n == 0 || e.Events[n-1].State == StateRemoved || present(digest) {
			continue
		}
		h.Record(digest, "", "", StateRemoved, nil, at)
		out = append(out, digest)
	}
	slices.Sort(out)
	return out
}

// Absent lists the attestations that are published no longer, sorted.
func (h *History) Absent() []string {
	var out []string
	for digest, e := range h.Attestations {
		if n := len(e.Events); n > 0 && e.Events[n-1].State == StateRemoved {
			out = append(out, digest)
		}
	}
	slices.Sort(out)
	return out
}

// Collect notes when what an attestation is about was collected.
func (h *History) Collect(digest string, at time.Time) {
	if !at.IsZero() {
		h.entry(digest).Collected = Stamp(at)
	}
}

// Finding is when a run ended that found something, and the attestations of all runs
// that ended then and did.
type Finding struct {
	At time.Time
	By []string
}

// Latest gives for each image the end of the newest run whose attestation was ever
// seen with a code that matches. What was found once is not unfound, although the
// attestation may have other codes since: its packet may be damaged now.
func (h *History) Latest(matches func(code string) bool) map[string]Finding {
	out := map[string]Finding{}
	for digest, e := range h.Attestations {
		if !slices.ContainsFunc(e.Events, func(ev Event) bool { return ev.State == StateHeld && slices.ContainsFunc(ev.Codes, matches) }) {
			continue
		}
		at, err := time.Parse(time.RFC3339, e.Collected)
		if err != nil {
			continue
		}
		known := out[e.Subject]
		switch {
		case at.After(known.At):
			out[e.Subject] = Finding{at, []string{digest}}
		case at.Equal(known.At):
			out[e.Subject] = Finding{at, append(known.By, digest)}
		}
	}
	return out
}

// Since returns the time of the last change of state, or "".
func (h *History) Since(digest string) string {
	if e := h.Attestations[digest]; e != nil && len(e.Events) > 0 {
		return e.Events[len(e.Events)-1].Time
	}
	return ""
}

func (h *History) entry(digest string) *Entry {
	e := h.Attestations[digest]
	if e == nil {
		e = &Entry{}
		h.Attestations[digest] = e
	}
	return e
}

// Stamp writes a time the way a history holds it: RFC 3339, UTC, seconds.
func Stamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format(time.RFC3339) }
