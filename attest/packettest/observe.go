package packettest

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
)

// NonceKey is the key of every packet.
var NonceKey = []byte("packettest nonce key, 32 bytes..")

// strange is a witness service that no technique permits.
const strange = "internet"

// recorder makes the observations of one phase, in time.
type recorder struct {
	phase string
	now   time.Time
	all   []manifest.Observation
}

func (r *recorder) see(o manifest.Observation) {
	r.now = r.now.Add(time.Millisecond)
	o.Time = manifest.FormatTime(r.now)
	r.all = append(r.all, o)
}

// beat records one heartbeat, seen by both sides.
func (r *recorder) beat(run, sandbox, position string) {
	n := judge.HeartbeatNonce(NonceKey, run, sandbox, position, r.phase)
	r.see(manifest.Observation{Side: manifest.SideWitness, Nonce: n, Service: "heartbeat", Proto: "http", Source: "192.0.2.2:40000", Dest: "203.0.113.2:443"})
	r.see(manifest.Observation{Side: manifest.SideProbe, Nonce: n, Sandbox: sandbox, Sign: manifest.SignReached, Proof: nonce.Proof(NonceKey, n), Status: 200, Millis: 3})
}

// succeed records an attempt that got through.
func (r *recorder) succeed(t catalog.Technique, n, sandbox string) {
	probe := manifest.Observation{Side: manifest.SideProbe, Nonce: n, Sandbox: sandbox, Sign: manifest.SignReached, Millis: 4, Local: []string{"tcp/40001"}}
	if t.Proof == catalog.ProofCanary {
		probe.Obtained = []string{canaryDigest(r.phase)}
		r.see(probe)
		return
	}
	if t.Proof == catalog.ProofCondition {
		r.see(probe)
		return
	}
	probe.Proof = nonce.Proof(NonceKey, n)
	r.see(manifest.Observation{Side: manifest.SideWitness, Nonce: n, Service: strange, Proto: "tcp", Source: "192.0.2.2:40001", Dest: "198.51.100.7:443", Count: 1})
	r.see(probe)
}

// withstand records an attempt that an intact boundary refused.
func (r *recorder) withstand(t catalog.Technique, n, sandbox string, arrive bool) {
	if arrive && len(t.Permits) > 0 {
		r.see(manifest.Observation{Side: manifest.SideWitness, Nonce: n, Service: t.Permits[0], Proto: "http", Source: "203.0.113.1:40002", Dest: "203.0.113.2:443"})
	}
	probe := manifest.Observation{Side: manifest.SideProbe, Nonce: n, Sandbox: sandbox, Millis: 2, Local: []string{"tcp/40002"}}
	switch {
	case t.Local:
		probe.Sign = manifest.SignAbsent
		r.see(probe)
		return
	case t.Expect == catalog.ExpectSilence:
		probe.Sign = manifest.SignSent
	default:
		probe.Sign, probe.Errno = manifest.SignRefused, "ECONNREFUSED"
	}
	r.see(manifest.Observation{Side: manifest.SideFilter, Nonce: n, Proto: "tcp", Source: "192.0.2.2:40002", Dest: "198.51.100.7:443", Verdict: judge.VerdictDeny, Rule: "reject-all", Count: 1})
	r.see(probe)
}

// quiet records an attempt that nobody answered: as a control it proves nothing.
func (r *recorder) quiet(n, sandbox string) {
	r.see(manifest.Observation{Side: manifest.SideProbe, Nonce: n, Sandbox: sandbox, Sign: manifest.SignTimeout, Millis: 2000})
}

func canaryDigest(phase string) string {
	sum := sha256.Sum256([]byte("canary of the " + phase))
	return hex.EncodeToString(sum[:])
}

// phases records both phases of the whole catalogue and returns the judged
// entries with both sides' observations.
func (c *config) phases() ([]manifest.Technique, map[string][]manifest.Observation) {
	started, err := manifest.ParseTime(c.run.Started)
	if err != nil {
		panic("packettest: " + err.Error())
	}
	rec := map[string]*recorder{}
	for _, phase := range []string{nonce.PhaseControl, nonce.PhaseAttack} {
		rec[phase] = &recorder{phase: phase, now: started}
	}
	beat := func(position string) {
		for _, r := range rec {
			for _, s := range []catalog.Stage{catalog.StageWork, catalog.StageAgent, catalog.StageImage, catalog.StageFresh, catalog.StageRestored} {
				r.beat(c.run.RunID, string(s), position)
			}
		}
	}
	unmet := c.unmet()
	var entries []manifest.Technique
	beat(judge.Before)
	for n, t := range c.catalogue {
		if n == len(c.catalogue)/2 {
			beat(judge.Between)
		}
		if c.skip[t.ID] {
			continue
		}
		for _, variant := range t.Variants {
			entries = append(entries, c.attempt(t, variant, unmet, rec))
		}
	}
	beat(judge.After)
	observations := map[string][]manifest.Observation{}
	for phase, r := range rec {
		observations[phase] = r.all
		if c.observe != nil {
			observations[phase] = c.observe(phase, r.all)
		}
		slices.SortStableFunc(observations[phase], packet.CompareObservations)
	}
	if c.planned != nil {
		c.planned(entries)
	}
	c.judge(entries, observations)
	return entries, observations
}

// unmet plans as the battery does. A policy that cannot be read takes nothing out.
func (c *config) unmet() parts.Unmet {
	out := parts.UnmetByStack(c.run.Driver.Isolation)
	p, err := policy.ParseCanonical(c.policy)
	if err != nil {
		return out
	}
	if e, err := policy.Compile(p); err == nil {
		maps.Copy(out, parts.Of(e, p).Unmet())
	}
	return out
}

// judge derives from the observations what an entry records of them, and its
// outcome.
func (c *config) judge(entries []manifest.Technique, observations map[string][]manifest.Observation) {
	by := map[string][]manifest.Observation{}
	for _, all := range observations {
		for _, o := range all {
			by[o.Nonce] = append(by[o.Nonce], o)
		}
	}
	beats := map[string]manifest.Heartbeat{}
	fill := func(p *manifest.Phase, phase string) {
		p.Observations, p.FilterIntact = by[p.Nonce], true
		h, ok := beats[phase+p.Sandbox]
		if !ok {
			h = judge.Heartbeats(observations[phase], NonceKey, c.run.RunID, p.Sandbox, phase, false)
			beats[phase+p.Sandbox] = h
		}
		p.Heartbeat = h
	}
	techniques := map[string]catalog.Technique{}
	for _, t := range c.catalogue {
		techniques[t.ID] = t
	}
	for n := range entries {
		e := &entries[n]
		fill(&e.Control, nonce.PhaseControl)
		fill(&e.Attack, nonce.PhaseAttack)
		v := judge.Judge(techniques[e.Technique], *e, judge.Proofs{Control: nonce.Proof(NonceKey, e.Control.Nonce), Attack: nonce.Proof(NonceKey, e.Attack.Nonce)})
		e.Outcome, e.Reason, e.Findings = string(v.Outcome), v.Reason, v.Findings
	}
}

// attempt records one variant in both phases. The entry is judged later.
func (c *config) attempt(t catalog.Technique, variant string, unmet parts.Unmet, rec map[string]*recorder) manifest.Technique {
	e := manifest.Technique{Technique: t.ID, Vector: string(t.Vector), Variant: variant, Severity: string(t.Severity)}
	sandbox := string(t.StageOf(variant))
	control, attack := rec[nonce.PhaseControl], rec[nonce.PhaseAttack]
	nc := nonce.New(NonceKey, c.run.RunID, t.ID, variant, nonce.PhaseControl)
	na := nonce.New(NonceKey, c.run.RunID, t.ID, variant, nonce.PhaseAttack)
	e.Control, e.Attack = manifest.Phase{Nonce: nc, Sandbox: sandbox}, manifest.Phase{Nonce: na, Sandbox: sandbox}
	if missing, fact := unmet.First(t, variant); missing != "" {
		e.NotApplicable, e.Fact = string(missing), fact
		return e
	}
	if c.silent[t.ID] {
		control.quiet(nc, sandbox)
	} else {
		control.succeed(t, nc, sandbox)
	}
	if c.escape[t.ID] {
		attack.succeed(t, na, sandbox)
	} else {
		attack.withstand(t, na, sandbox, c.permitted)
	}
	return e
}
