package witness

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/witness/forge"
	"github.com/wallproof/wallproof/probes/paths"
)

// Bounds on what is recorded. The first arrival of a nonce at a service is kept
// whatever else there is, as long as the nonces of the run are known; so a flood
// cannot hide an arrival.
const (
	maxRecords         = 1 << 16 // in all
	maxPerNonce        = 64      // records of one nonce, beyond which new destinations are counted with an old one
	maxObtained        = 64      // digests in one record
	maxDetail          = 256     // bytes, as manifest.Observation has it
	flushEvery         = 200 * time.Millisecond
	evidenceTimeFormat = forge.TimeFormat
)

// sighting is something that reached the world.
type sighting struct {
	nonces   []string
	obtained []string // digests of canaries
	service  string
	proto    string
	src, dst netip.AddrPort
	host     string
	bytes    int64
	status   int64
	detail   string
	datagram bool // came as one; else over a connection
}

// recorder keeps one observation for each nonce, service, protocol and
// destination, and reports each at once and again when it has grown.
type recorder struct {
	emit func(Event)
	now  func() time.Time

	mu      sync.Mutex
	records map[recordKey]*record
	first   map[[2]string]*record // by nonce and service
	count   map[string]int        // records by nonce
	at      map[nonceAt]bool      // nonces by destination, services' own sightings only
	order   []*record
	dropped uint64
}

type recordKey struct{ nonce, service, proto, dest string }

type nonceAt struct {
	nonce    string
	dst      netip.AddrPort
	datagram bool
}

type record struct {
	id    uint64
	obs   manifest.Observation
	dirty bool
}

func newRecorder(emit func(Event), now func() time.Time) *recorder {
	return &recorder{
		emit: emit, now: now, records: map[recordKey]*record{}, first: map[[2]string]*record{},
		count: map[string]int{}, at: map[nonceAt]bool{},
	}
}

// see records a sighting, once for each of its nonces. One without nonces is
// recorded only when it brought a canary.
func (r *recorder) see(s sighting) {
	nonces := s.nonces
	if len(nonces) == 0 {
		if len(s.obtained) == 0 {
			return
		}
		nonces = []string{""}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range nonces {
		r.seeOne(n, s)
	}
}

// accounted notes that nonces on their way to a destination are no arrivals, so
// that the packets that carried them are none either.
func (r *recorder) accounted(nonces []string, dst netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range nonces {
		if len(r.at) < maxRecords {
			r.at[nonceAt{n, dst, false}] = true
		}
	}
}

func (r *recorder) seeOne(n string, s sighting) {
	if s.service != paths.ServiceCapture && len(r.at) < maxRecords {
		r.at[nonceAt{n, s.dst, s.datagram}] = true
	}
	key := recordKey{n, s.service, s.proto, addrText(s.dst)}
	rec := r.records[key]
	if rec == nil {
		rec = r.place(key)
	}
	if rec == nil {
		r.dropped++
		return
	}
	if rec.id == 0 {
		r.order = append(r.order, rec)
		rec.id = uint64(len(r.order))
		rec.obs = manifest.Observation{
			Side: manifest.SideWitness, Nonce: n, Time: r.now().UTC().Format(evidenceTimeFormat), Service: s.service, Proto: s.proto,
			Source: addrText(s.src), Dest: addrText(s.dst), Host: printable(s.host), Status: s.status, Detail: printable(s.detail),
		}
		r.grow(rec, s)
		r.report(rec)
		return
	}
	r.grow(rec, s)
	rec.dirty = true
}

// place finds room for a new record: its own, or, when its nonce has many, that
// of the nonce's first arrival at the same service; nil when there is none.
func (r *recorder) place(key recordKey) *record {
	pair := [2]string{key.nonce, key.service}
	known := r.first[pair]
	if known != nil && (r.count[key.nonce] >= maxPerNonce || len(r.records) >= maxRecords) {
		return known
	}
	if len(r.records) >= maxRecords+maxRecords/4 { // the last quarter is for first arrivals
		return nil
	}
	rec := &record{}
	r.records[key] = rec
	r.count[key.nonce]++
	if known == nil {
		r.first[pair] = rec
	}
	return rec
}

func (r *recorder) grow(rec *record, s sighting) {
	rec.obs.Count++
	rec.obs.Bytes += s.bytes
	for _, d := range s.obtained {
		if len(rec.obs.Obtained) < maxObtained && !slices.Contains(rec.obs.Obtained, d) {
			rec.obs.Obtained = append(rec.obs.Obtained, d)
		}
	}
}

// report emits a copy of a record.
func (r *recorder) report(rec *record) {
	rec.dirty = false
	obs := rec.obs
	obs.Obtained = slices.Clone(rec.obs.Obtained)
	r.emit(Event{Type: EventObservation, ID: rec.id, Observation: &obs})
}

// flush reports the records that have grown.
func (r *recorder) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.order {
		if rec.dirty {
			r.report(rec)
		}
	}
}

// sawAll tells whether services saw all the nonces arrive at a destination, by
// the same transport.
func (r *recorder) sawAll(nonces []string, dst netip.AddrPort, datagram bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range nonces {
		if !r.at[nonceAt{n, dst, datagram}] {
			return false
		}
	}
	return true
}

func (r *recorder) droppedCount() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

func addrText(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// printable cuts a text to what an observation's member may hold.
func printable(s string) string {
	if len(s) > maxDetail {
		s = s[:maxDetail]
	}
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}
