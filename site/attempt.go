package site

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// attempt is one packet that was examined, before it is published.
type attempt struct {
	job      job
	doubt    doubt // of other runs over the image
	record   *record
	report   verify.Report
	evidence *evidence // nil when it does not verify or is taken over
	messages map[string]string
	kept     *cached   // what was kept of it, when it is taken over
	files    fs.FS     // while the packet is open
	closer   io.Closer // of files, or nil
}

// close releases the packet.
func (a *attempt) close() error {
	if a.closer == nil {
		return nil
	}
	c := a.closer
	a.files, a.closer = nil, nil
	return c.Close()
}

// attempt examines a packet, or takes its record over from the build before.
func (b *builder) attempt(j job, against doubt) (*attempt, error) {
	a := &attempt{job: j, doubt: against}
	latched := b.latched(j.attestation, j.run)
	if a.kept = b.cache.record(j.packet.Stamp, b.cacheKey(j, against, latched), b.now); a.kept != nil {
		a.record = a.kept.Record
		a.record.packet, a.record.reused = j.packet.Name, true
		return a, nil
	}
	files, closer, err := j.packet.Open()
	if err != nil {
		// A packet that cannot even be read is one that does not verify.
		a.record = &record{State: StateInvalid, Codes: []string{codeOf(err)}, packet: j.packet.Name}
		return a, nil
	}
	a.files, a.closer = files, closer
	a.report = examine(b.verifier, files, b.verifyInput(j), latched, b.now)
	a.evidence = b.judge(a, files, latched)
	return a, nil
}

// codeOf is the reason code of a packet that cannot be read.
func codeOf(err error) string {
	if r := packet.ReasonOf(err); r != "" {
		return string(r)
	}
	return string(verify.CodePacketUnreadable)
}

func (b *builder) latched(digest, run string) []history.Latch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.history.Latched(digest, run)
}

// judge turns the report into state, record and evidence; the evidence is nil
// when it does not verify.
func (b *builder) judge(a *attempt, files fs.FS, latched []history.Latch) *evidence {
	state, codes := stateOf(a.report, latched)
	a.record = &record{State: state, Codes: codes, packet: a.job.packet.Name}
	e := evidenceOf(a.report, state, b.catalog)
	if e == nil {
		a.record.State = StateInvalid
		a.record.Digest = a.job.attestation
		return nil
	}
	a.messages = map[string]string{}
	for _, c := range a.report.Checks {
		a.messages[string(c.Code)] = c.Message
	}
	for _, c := range codes {
		a.record.Critical = a.record.Critical || isCritical(c)
	}
	if a.doubt == laterDoubt || a.doubt == sameTime && !a.record.Critical {
		codes = append(codes, codeContradicted)
	}
	var err error
	if e.edges, err = b.edgesOf(files); err != nil {
		codes = append(codes, codePolicyUnread)
		a.messages[codePolicyUnread] = err.Error()
	}
	if len(codes) > 0 {
		state, codes = StateHeld, unique(codes)
	}
	e.state = state
	a.fill(e, codes)
	return e
}

func (a *attempt) fill(e *evidence, codes []string) {
	r := a.record
	r.State, r.Codes = e.state, codes
	r.ID, r.Digest, r.Subject, r.Name = e.id, e.digest, clean(e.subject), e.name()
	r.Policy, r.Run = clean(e.boundary.Policy.Digest), runOf(e.boundary.Battery.Head)
	r.Collected, r.Expires = at(e.collected).ISO, at(e.expires).ISO
}

// publish notes the state in the history and writes the attestation's folder.
func (b *builder) publish(a *attempt) error {
	r := a.record
	entry := b.note(r)
	if r.reused {
		ok, err := b.tree.reuse(a.kept, a.job.intact, b.cache.started)
		if err != nil {
			return err
		}
		if !ok {
			return b.renew(a)
		}
		a.kept.State, a.kept.Read = a.job.state, a.job.read
		b.cache.put(*a.kept)
		return nil
	}
	if a.evidence != nil {
		a.evidence.reasons = holdings(r.Codes, a.messages, entry, a.evidence.expires, b.now)
		if a.evidence.shown() {
			r.Claim = count(a.evidence.criticalEscapes(), "critical escape", "critical escapes")
		}
	}
	if err := b.writeAttestation(a, entry); err != nil {
		return err
	}
	if b.in.Cache == "" {
		return nil
	}
	// The page shows the history, so the key is that of the history as it is now.
	key := b.cacheKey(a.job, a.doubt, b.latched(r.Digest, r.Run))
	return b.remember(a, key)
}

// remember puts a packet into the cache, under the stamp of what was examined.
func (b *builder) remember(a *attempt, key string) error {
	j, r := a.job, a.record
	if a.files == nil || !cacheable(r) {
		return nil
	}
	if j.packet.content != nil {
		var err error
		if j.packet.Stamp, err = contentStamp(a.files); err != nil {
			return fmt.Errorf("site: %s: %w", j.packet.Name, err)
		}
	}
	if j.packet.Stamp == "" {
		return nil
	}
	b.cache.put(cached{
		Key: key, At: history.Stamp(b.now), Stamp: j.packet.Stamp, State: j.state, Read: j.read,
		Made: r.made, Seen: b.cache.started,
		Record: r, Name: j.name, Collected: at(j.collected).ISO,
	})
	return nil
}

// renew examines a packet whose pages could not be taken over after all.
func (b *builder) renew(a *attempt) error {
	b.cache.forget(a.job.packet.Stamp)
	again, err := b.attempt(a.job, a.doubt)
	if err != nil {
		return err
	}
	*a.record = *again.record
	again.record = a.record
	return errors.Join(b.publish(again), again.close())
}

func contains(codes []string, code string) bool {
	for _, c := range codes {
		if c == code {
			return true
		}
	}
	return false
}

// note latches drift and records the state. It returns a copy of the entry.
func (b *builder) note(r *record) *history.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range r.Codes {
		if r.State == StateHeld && isLatching(c) {
			b.history.Latch(r.Digest, r.Run, c, b.now)
		}
	}
	b.history.Collect(r.Digest, r.collected())
	if r.Policy != "" {
		b.history.Attestations[r.Digest].Policy = r.Policy
	}
	b.history.Record(r.Digest, r.Subject, r.Name, r.State, r.Codes, b.now)
	e := *b.history.Attestations[r.Digest]
	return &e
}

// copyPacket writes the packet's archive and bundle for download.
func (b *builder) copyPacket(a *attempt, to *files) error {
	bundle, err := packet.ReadDocument(a.files, packet.AttestationFile)
	if err != nil {
		return fmt.Errorf("site: bundle of %s: %w", a.job.packet.Name, err)
	}
	if err := to.put(endBundle, bundle); err != nil {
		return err
	}
	if whole, ok := a.files.(archive); ok {
		return to.putSummed(endPacket, whole.raw, whole.sum())
	}
	return to.stream(endPacket, func(w io.Writer) error { return packet.WriteArchive(w, a.files) })
}
