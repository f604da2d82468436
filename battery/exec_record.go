package battery

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
)

// ExecRecordVersion is raised whenever a member of ExecRecord comes to mean
// something else.
const ExecRecordVersion = 1

// ExecRecord is what is kept of a run of exec: what it was wired with, what each
// sandbox was, and what happened. It holds no secret, no argument and no output.
// Times are RFC 3339, UTC.
type ExecRecord struct {
	Version      int             `json:"version"`
	Run          string          `json:"run"`
	Image        string          `json:"image"` // digest
	Driver       manifest.Driver `json:"driver"`
	PolicyDigest string          `json:"policyDigest"` // as the run was wired
	// Routing is what the policy asks for; Wired is what was built, which is never
	// less: exec always routes everything through the proxy.
	Routing     string               `json:"routing"`
	Wired       string               `json:"wired"`
	Proxy       ExecProxy            `json:"proxy"`
	Enforcement manifest.Enforcement `json:"enforcement"`
	Phases      []ExecPhase          `json:"phases"`
	Sandboxes   []ExecSandbox        `json:"sandboxes"`
	Exits       []ExecExit           `json:"exits"`
	Edits       []ExecEdited         `json:"edits"`
	Halts       []ExecHalt           `json:"halts"`
	// Overrides are what the operator let in against the policy's default.
	Overrides []string `json:"overrides"`
	// Attestable: one policy was enforced from the first to the last byte. Why
	// lists what speaks against it.
	Attestable bool     `json:"attestable"`
	Why        []string `json:"why"`
}

// ExecProxy says where the proxy ran: a process of its own outside every sandbox,
// so that it may be shown as Brokered.
type ExecProxy struct {
	Placement string `json:"placement"` // "outside-sandbox"
	User      uint32 `json:"user"`
}

// ExecPhase is a phase and what its proxy enforced.
type ExecPhase struct {
	Phase        policy.Phase `json:"phase"`
	Mode         policy.Mode  `json:"mode"`
	PolicyDigest string       `json:"policyDigest"`
	Started      string       `json:"started,omitempty"`
	Ended        string       `json:"ended,omitempty"`
}

// ExecSandbox is one sandbox and what it was wired with.
type ExecSandbox struct {
	Name         string `json:"name"`
	Role         string `json:"role"` // "work", "task", "orchestrator", "service"
	User         uint32 `json:"user"` // of the agent's commands, or the service's
	PolicyDigest string `json:"policyDigest"`
	Routing      string `json:"routing"` // "catch-all", or "none" of a service
}

// ExecExit is how a command ended.
type ExecExit struct {
	Phase   policy.Phase `json:"phase"`
	Sandbox string       `json:"sandbox"`
	Exit    int          `json:"exit"`
}

// ExecEdited is an edit of the policy during the run.
type ExecEdited struct {
	Time         string `json:"time"`
	PolicyDigest string `json:"policyDigest"`
	InForce      bool   `json:"inForce"`
	Error        string `json:"error,omitempty"` // why it is not
}

// ExecHalt is a halt for review, or its end.
type ExecHalt struct {
	Time   string `json:"time"`
	Halted bool   `json:"halted"`
}

const wiredCatchAll = string(policy.RoutingCatchAll)

// execRecorder writes the record from several goroutines.
type execRecorder struct {
	mu  sync.Mutex
	rec ExecRecord
}

func newExecRecord(id string, o *ExecOptions, d sandbox.Description, e *policy.Evaluator) *execRecorder {
	r := ExecRecord{Version: ExecRecordVersion, Run: id, Image: o.Image.Digest, PolicyDigest: e.Digest(), Routing: string(e.Routing().Routing), Wired: wiredCatchAll,
		Driver:      manifest.Driver{Name: d.Name, Version: d.Version, ConfigDigest: d.ConfigDigest, Isolation: d.Facts},
		Proxy:       ExecProxy{Placement: "outside-sandbox", User: proxyUID},
		Enforcement: manifest.Enforcement{State: manifest.EnforcementFailed, Reason: "no proxy has started"},
		Phases:      []ExecPhase{}, Sandboxes: []ExecSandbox{}, Exits: []ExecExit{}, Edits: []ExecEdited{}, Halts: []ExecHalt{}, Overrides: []string{}, Why: []string{}}
	if m := o.Policy.Model; m != nil {
		for _, id := range m.SelfSearch {
			r.Overrides = append(r.Overrides, "the model "+id+" may search by itself")
		}
	}
	return &execRecorder{rec: r}
}

func (r *execRecorder) change(f func(*ExecRecord)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.rec)
}

func (r *execRecorder) get() *ExecRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.rec
	return &c
}

func execNow() string { return time.Now().UTC().Format(time.RFC3339) }

// proxy notes what a phase's proxy says of itself.
func (r *execRecorder) proxy(phase policy.Phase, ready proxy.Ready, p *policy.Policy) {
	r.change(func(rec *ExecRecord) {
		if slices.ContainsFunc(rec.Phases, func(e ExecPhase) bool { return e.Phase == phase }) {
			return // the orchestrator's, beside the main one
		}
		rec.Phases = append(rec.Phases, ExecPhase{Phase: phase, Mode: p.Mode, PolicyDigest: ready.PolicyDigest})
		if phase != policy.PhaseAgent {
			return
		}
		rec.Enforcement = manifest.Enforcement{State: ready.Enforcement}
		if ready.Enforcement == manifest.EnforcementNothing {
			rec.Enforcement.Reason = "the policy restricts, injects and brokers nothing"
		}
	})
}

func (r *execRecorder) phase(phase policy.Phase, f func(*ExecPhase)) {
	r.change(func(rec *ExecRecord) {
		for i := range rec.Phases {
			if rec.Phases[i].Phase == phase {
				f(&rec.Phases[i])
			}
		}
	})
}

func (r *execRecorder) begin(phase policy.Phase) {
	r.phase(phase, func(p *ExecPhase) { p.Started = execNow() })
}

func (r *execRecorder) done(phase policy.Phase) {
	r.phase(phase, func(p *ExecPhase) { p.Ended = execNow() })
}

func (r *execRecorder) sandbox(b *execBox, user sandbox.User) {
	r.change(func(rec *ExecRecord) {
		s := ExecSandbox{Name: b.host, Role: string(b.role), User: user.UID, PolicyDigest: rec.PolicyDigest, Routing: wiredCatchAll}
		if b.service != nil {
			s.Routing = "none"
		}
		rec.Sandboxes = append(rec.Sandboxes, s)
	})
}

func (r *execRecorder) exit(phase policy.Phase, box string, exit int) {
	r.change(func(rec *ExecRecord) { rec.Exits = append(rec.Exits, ExecExit{phase, box, exit}) })
}

// maxExecEdits bounds the edits and halts that are kept one by one.
const maxExecEdits = 1000

func (r *execRecorder) edit(digest string, err error) {
	r.change(func(rec *ExecRecord) {
		e := ExecEdited{Time: execNow(), PolicyDigest: digest, InForce: err == nil}
		if err != nil {
			e.Error = err.Error()
		} else if digest != rec.PolicyDigest {
			rec.Why = append(rec.Why, fmt.Sprintf("the policy was edited during the run, from %s to %s", rec.PolicyDigest, digest))
		}
		if len(rec.Edits) < maxExecEdits {
			rec.Edits = append(rec.Edits, e)
		}
		if len(rec.Why) > maxExecEdits {
			rec.Why = rec.Why[:maxExecEdits]
		}
	})
}

func (r *execRecorder) halted(stop bool) {
	r.change(func(rec *ExecRecord) {
		if len(rec.Halts) < maxExecEdits {
			rec.Halts = append(rec.Halts, ExecHalt{execNow(), stop})
		}
	})
}

// failed notes that enforcement was lost.
func (r *execRecorder) failed(err error) {
	r.change(func(rec *ExecRecord) {
		rec.Enforcement = manifest.Enforcement{State: manifest.EnforcementFailed, Reason: err.Error()}
	})
}

// end settles whether the run can be attested.
func (r *execRecorder) end(err error) {
	r.change(func(rec *ExecRecord) {
		if rec.Enforcement.State != manifest.EnforcementEnforced {
			rec.Why = append(rec.Why, "enforcement: "+rec.Enforcement.State+": "+rec.Enforcement.Reason)
		}
		if err != nil {
			rec.Why = append(rec.Why, "the run was not completed: "+err.Error())
		}
		rec.Attestable = len(rec.Why) == 0
	})
}
