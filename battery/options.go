package battery

import (
	"io"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy"
)

// Options say what to attack and where to write the evidence.
type Options struct {
	Image  *image.Resolved
	Policy *policy.Policy
	Driver sandbox.Driver
	// Proxy, if not nil, is somebody else's and is attacked in place of our own.
	Proxy *ForeignProxy
	Out   string // folder; the packet is written to Out/packet, which must not exist

	Self  []string // argv prefix of this executable for hidden subcommands, e.g. {"/proc/self/exe"}
	Probe string   // path of the static wallproof-probe
	Agent string   // path of the static wallproof-agent
	State string   // folder for what lives as long as the run; "" means the default

	// Program is the argv of what runs beside the probe in the image's sandbox; nil
	// means the image's entry point.
	Program []string

	// Model drives the agent too, after the obedient one; nil means none does.
	Model *ModelAgent

	// Admission is what let the image in; nil where no rules were given.
	Admission *manifest.Admission

	// Select limits the run to a part of the catalogue; nil means all of it. What
	// is left out is missing from the manifest, and so its vector is inconclusive.
	Select *manifest.Selection
	// Series is the run's place among repeated ones, nil for one by itself.
	Series *manifest.Series

	// CatchAll wires the attack's boundary catch-all also where the policy asks for
	// selective routing: as Exec does.
	CatchAll bool

	// AttemptTimeout bounds one attempt; 0 means DefaultAttemptTimeout.
	AttemptTimeout time.Duration

	// Edits tells which edits of the policy's file there were while the run went on;
	// it is asked once, at the end. Nil means that nobody watched.
	Edits func() []manifest.Edit
	// Operate opens what the operator halts and resumes the run by (true halts); stop
	// closes it. Nil means that nobody can.
	Operate func(run string) (halts <-chan bool, stop func(), err error)

	Tool     manifest.Tool
	Progress func(Progress)   // called from several goroutines; nil drops it
	Clock    func() time.Time // nil means time.Now
	Random   io.Reader        // nil means crypto/rand
	Breaks   Breaks           // empty unless built with the tag "breaks"
}

// DefaultAttemptTimeout is long: a refusal comes at once, so only what hangs
// takes it, and a busy machine must turn neither a refusal into a timeout nor a
// long search of files and memory into half of one.
const DefaultAttemptTimeout = 60 * time.Second

// Progress is one step of a run.
type Progress struct {
	Phase string // "control", "attack", "snapshot", or "" for the run as a whole
	Text  string
}

// Result is what a run found.
type Result struct {
	Packet   string // path of the packet
	Run      manifest.Run
	Vectors  []judge.Summary
	Critical int64                // escaped variants of critical techniques
	Entries  []manifest.Technique // one judged entry a variant, in the catalogue's order
	Summary  manifest.Summary
	Model    *ModelResult // nil when no model drove the agent
	Edits    int          // of the policy's file during the run: with any, it cannot be attested
	Ignored  int          // lines on the probes' output that did not authenticate
}

// Conclusive reports whether nothing escaped, under one policy, and every vector supports a claim,
// and whether a model, where one drove the agent, did work on every task.
func (r *Result) Conclusive() bool {
	if r.Edits > 0 {
		return false
	}
	for _, v := range r.Vectors {
		if !v.Conclusive() {
			return false
		}
	}
	return r.Model == nil || r.Model.Twins && r.Model.Failed == 0
}
