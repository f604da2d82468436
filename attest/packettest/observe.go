package packettest

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
)

// nonceKey is the key of every packet.
var nonceKey = []byte("packettest nonce key, 32 bytes..")

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

func (r *recorder) byNonce(n string) []manifest.Observation {
	var out []manifest.Observation
	for _, o := range r.all {
		if o.Nonce == n {
			out = append(out, o)
		}
	}
	return out
}

// beat records one heartbeat, seen by both sides.
func (r *recorder) beat(run, sandbox, position string) {
	n := judge.HeartbeatNonce(nonceKey, run, sandbox, position, r.phase)
	r.see(manifest.Observation{Side: manifest.SideWitness, Nonce: n, Service: "heartbeat", Proto: "http", Source: "192.0.2.2:40000", Dest: "203.0.113.2:443"})
	r.see(manifest.Observation{Side: manifest.SideProbe, Nonce: n, Sandbox: sandbox, Sign: manifest.SignReached, Proof: nonce.Proof(nonceKey, n), Status: 200, Millis: 3})
}

// succeed records an attempt that got through.
func (r *recorder) succeed(t catalog.Technique, n, sandbox string) {
	probe := manifest.Observation{Side: manifest.SideProbe, Nonce: n, Sandbox: sandbox, Sign: manifest.SignReached, Millis: 4, Local: []string{"tcp/40001"}}
	if t.Proof == catalog.ProofCanary {
		probe.Obtained = []string{canaryDigest(r.phase)}
		r.see(probe)
		return
	}
	probe.Proof = nonce.Proof(nonceKey, n)
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
		for _, s := range []catalog.Stage{catalog.StageWork, catalog.StageAgent, catalog.StageFresh, catalog.StageRestored} {
			for _, position := range []string{judge.Before, judge.Between, judge.After} {
				rec[phase].beat(c.run.RunID, string(s), position)
			}
		}
	}
	var entries []manifest.Technique
	for _, t := range c.catalogue {
		if c.skip[t.ID] {
			continue
		}
		for _, variant := range t.Variants {
			entries = append(entries, c.attempt(t, variant, rec))
		}
	}
	return entries, map[string][]manifest.Observation{
		nonce.PhaseControl: rec[nonce.PhaseControl].all,
		nonce.PhaseAttack:  rec[nonce.PhaseAttack].all,
	}
}

// attempt records one variant in both phases and has it judged.
func (c *config) attempt(t catalog.Technique, variant string, rec map[string]*recorder) manifest.Technique {
	e := manifest.Technique{Technique: t.ID, Vector: string(t.Vector), Variant: variant, Severity: string(t.Severity)}
	sandbox := string(t.StageOf(variant))
	if c.notApplicable && slices.Contains(t.RequiresOf(variant), catalog.NeedsIPv6) {
		e.NotApplicable, e.Fact = string(catalog.NeedsIPv6), "no IPv6 address inside"
		e.Control.Observations, e.Attack.Observations = nil, nil
	} else {
		control, attack := rec[nonce.PhaseControl], rec[nonce.PhaseAttack]
		nc := nonce.New(nonceKey, c.run.RunID, t.ID, variant, nonce.PhaseControl)
		na := nonce.New(nonceKey, c.run.RunID, t.ID, variant, nonce.PhaseAttack)
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
		alive := manifest.Heartbeat{Before: true, Between: true, After: true}
		e.Control = manifest.Phase{Nonce: nc, Sandbox: sandbox, Heartbeat: alive, FilterIntact: true, Observations: control.byNonce(nc)}
		e.Attack = manifest.Phase{Nonce: na, Sandbox: sandbox, Heartbeat: alive, FilterIntact: true, Observations: attack.byNonce(na)}
	}
	v := judge.Judge(t, e, judge.Proofs{Control: proofOf(e.Control), Attack: proofOf(e.Attack)})
	e.Outcome, e.Reason, e.Findings = string(v.Outcome), v.Reason, v.Findings
	return e
}

func proofOf(p manifest.Phase) string {
	if p.Nonce == "" {
		return ""
	}
	return nonce.Proof(nonceKey, p.Nonce)
}
