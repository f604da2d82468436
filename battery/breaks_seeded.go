//go:build breaks

package battery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/plant"
)

// Breaks are the seeded breaks of the attack's boundary: each opens exactly one
// thing, and the battery has to notice. They exist only in a binary built with
// the tag "breaks".
type Breaks struct {
	Boundary boundary.Hooks
	Proxy    proxy.Breaks
	// Policy is enforced in place of the one that is tested; nil for none.
	Policy *policy.Policy
	// Sandbox is what the driver gets wrong; Descriptor is "file" or "folder", of the
	// host, or "".
	Sandbox    sandbox.Breaks
	Descriptor string
	// Share are the namespaces that the work sandbox has in common with the
	// neighbour's.
	Share []string
	// Leaks are secrets that stand where they may not.
	Leaks []Leak
	// Image are secrets that the image itself holds; ImageEnv those in its
	// configuration's environment, as NAME=text.
	Image    []Leak
	ImageEnv []string
	// ImageLabel and ImageHistory are secrets in the image's configuration that no
	// process inside sees.
	ImageLabel   [2]string
	ImageHistory string
	// ImageLower is a file with a secret that a lower layer of the image holds and a
	// higher one removes; nil for none.
	ImageLower *plant.File
	// Authority: the sandbox believes the authority of the neighbour's proxy.
	Authority bool
	// NeighbourAccepted: the proxy swaps the neighbour's placeholders, too.
	NeighbourAccepted bool
	// NeighbourBelieved: the proxy injects the neighbour's secrets for who says in a
	// header field of this name that it is the neighbour.
	NeighbourBelieved string
	// Random is a source of random bytes, a path, whose state sandboxes restored from
	// one snapshot have in common.
	Random string
	// Unmasked is what is written of a run with its secrets: "transcripts" or
	// "observations", "" for nothing.
	Unmasked string
	// Over is a path of the work sandbox over which an ordinary file is mounted.
	Over string
	// ToolsWritable: the mount from which programs of ours are run can be written to.
	ToolsWritable bool
	// Control runs the control as well. Without it only an escape can be told.
	Control bool
}

// Leak is one secret in a place inside a sandbox where none may be. SecretMark in
// any text of Place stands for its value.
type Leak struct {
	Sandbox string // "work", "agent", "tenant", "fresh" or "restored"
	Secret  string // a name of the policy's, or one of the Secret… constants
	Value   string // in place of a canary; "" for one
	Place   plant.Place
}

// SecretMark stands for the secret's value in the texts of a leak.
const SecretMark = "@secret@"

// Secrets that a leak can name beside the policy's own.
const (
	SecretHost      = "$host"
	SecretNeighbour = "$neighbour"
	SecretPrior     = "$prior"
	SecretGit       = "$git"
	SecretPlatform  = "$platform"
)

func (b Breaks) boundary() boundary.Hooks { return b.Boundary }

// any: the boundary may fail its own verification, because it was broken on
// purpose.
func (b Breaks) any() bool { return true }

func (b Breaks) attackOnly() bool { return !b.Control }

func (b Breaks) proxy(p *phase, owner string) proxy.Breaks {
	out := b.Proxy
	if owner == boxTenant {
		return out
	}
	if b.NeighbourAccepted || b.NeighbourBelieved != "" {
		out.Neighbour, out.NeighbourHeader = p.canaries.tenant, b.NeighbourBelieved
	}
	return out
}

// policy is what the proxy is told to enforce, with its digest.
func (b Breaks) policy(p *phase) ([]byte, string) {
	if b.Policy == nil {
		return p.r.canonical, p.r.policyDigest
	}
	canonical, err := b.Policy.Canonical()
	if err != nil {
		return p.r.canonical, p.r.policyDigest
	}
	digest, err := b.Policy.Digest()
	if err != nil {
		return p.r.canonical, p.r.policyDigest
	}
	return canonical, digest
}

// value is the secret that a leak is about.
func (l Leak) value(c canaries) string {
	if l.Value != "" {
		return l.Value
	}
	switch l.Secret {
	case SecretHost:
		return c.hostFile
	case SecretNeighbour:
		if len(c.tenant) > 0 {
			return c.tenant[0].Value
		}
		return c.neighbour
	case SecretPrior:
		return c.prior
	case SecretGit:
		return c.git
	case SecretPlatform:
		return c.platform
	}
	return c.own.find(l.Secret).Value
}

// place is the leak's place with the secret in it.
func (l Leak) place(c canaries) plant.Place {
	var out plant.Place
	text, err := json.Marshal(l.Place)
	if err != nil {
		return out
	}
	value, err := json.Marshal(l.value(c))
	if err != nil {
		return out
	}
	text = bytes.ReplaceAll(text, []byte(SecretMark), bytes.Trim(value, `"`))
	_ = json.Unmarshal(text, &out) // it was one
	return out
}

func (b Breaks) planting(p *phase, pl plant.Planting) plant.Planting {
	if !p.attacking() {
		return pl
	}
	for _, l := range b.Leaks {
		at := map[string]*plant.Place{boxWork: &pl.Work, boxAgent: &pl.Agent, boxTenant: &pl.Tenant, string(catalog.StageFresh): &pl.Fresh}[l.Sandbox]
		if at == nil {
			continue
		}
		merge(at, l.place(p.canaries))
	}
	return pl
}

// merge adds what another place holds.
func merge(at *plant.Place, more plant.Place) {
	at.Env = append(slices.Clone(at.Env), more.Env...)
	at.Mounts = append(slices.Clone(at.Mounts), more.Mounts...)
	if more.Seed == nil {
		return
	}
	var seed plant.Seed
	if at.Seed != nil {
		seed = *at.Seed
	}
	seed.Files = append(slices.Clone(seed.Files), more.Seed.Files...)
	seed.Deleted = append(slices.Clone(seed.Deleted), more.Seed.Deleted...)
	seed.Memory = append(slices.Clone(seed.Memory), more.Seed.Memory...)
	seed.Processes = append(slices.Clone(seed.Processes), more.Seed.Processes...)
	seed.Sockets = append(slices.Clone(seed.Sockets), more.Seed.Sockets...)
	seed.Segments = append(slices.Clone(seed.Segments), more.Seed.Segments...)
	seed.Queues = append(slices.Clone(seed.Queues), more.Seed.Queues...)
	seed.Keys = append(slices.Clone(seed.Keys), more.Seed.Keys...)
	seed.Pipes = append(slices.Clone(seed.Pipes), more.Seed.Pipes...)
	at.Seed = &seed
}

// priorLeaves is what the prior run has left by the time the base is taken.
func (b Breaks) priorLeaves(p *phase) (plant.Place, bool) {
	var out plant.Place
	found := false
	for _, l := range b.Leaks {
		if p.attacking() && l.Sandbox == string(catalog.StageRestored) {
			merge(&out, l.place(p.canaries))
			found = true
		}
	}
	return out, found
}

// spec breaks a sandbox before it starts.
func (b Breaks) spec(p *phase, name string, spec *sandbox.Spec) error {
	if !p.attacking() {
		return nil
	}
	spec.Breaks = b.Sandbox
	switch b.Descriptor {
	case "file":
		spec.Breaks.Descriptor = filepath.Join(p.dir, "host", "root", "secret.txt")
	case "folder":
		spec.Breaks.Descriptor = filepath.Join(p.dir, "host")
		if err := writeFiles(spec.Breaks.Descriptor, []plant.File{{Path: "anyone/may-read.txt", Content: "token: " + p.canaries.hostFile + "\n"}}, 0); err != nil {
			return err
		}
	}
	for _, kv := range b.ImageEnv {
		spec.Env = append(slices.Clone(spec.Env), strings.ReplaceAll(kv, SecretMark, p.canaries.hostFile))
	}
	if name == boxPrior {
		return b.restored(p, spec)
	}
	if b.ToolsWritable {
		spec.Mounts = slices.Clone(spec.Mounts)
		for i := range spec.Mounts {
			if m := &spec.Mounts[i]; m.Target == toolsMount {
				m.ReadOnly = false
				if err := giveAway(m.Source); err != nil {
					return err
				}
			}
		}
	}
	if name == boxWork && b.Over != "" {
		return b.mountOver(p, spec)
	}
	if name == boxWork && len(b.Share) > 0 {
		return b.join(p, spec)
	}
	return nil
}

// giveAway makes the files of a folder the sandbox's own.
func giveAway(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := os.Chown(filepath.Join(dir, e.Name()), image.IDBase, image.IDBase); err != nil {
			return err
		}
	}
	return nil
}

// mountOver mounts an ordinary file over a path.
func (b Breaks) mountOver(p *phase, spec *sandbox.Spec) error {
	dir := filepath.Join(p.dir, "over")
	if err := writeFiles(dir, []plant.File{{Path: "file", Content: "an ordinary file\n"}}, image.IDBase); err != nil {
		return err
	}
	spec.Mounts = append(slices.Clone(spec.Mounts), sandbox.Mount{Source: filepath.Join(dir, "file"), Target: b.Over, ReadOnly: true})
	return nil
}

func (b Breaks) unmasked(what string) bool { return b.Unmasked == what }

// transcripts are those of the run as they were written, where that is broken.
func (b Breaks) transcripts(r *run, masked []transcriptLine) []transcriptLine {
	if !b.unmasked("transcripts") {
		return masked
	}
	var out []transcriptLine
	for _, p := range r.phases() {
		for _, t := range p.transcripts {
			for line := range bytes.Lines(t.data) {
				out = append(out, transcriptLine{Phase: t.phase, Agent: t.agent, Role: "raw", Text: strings.ToValidUTF8(string(line), "?")})
			}
		}
	}
	return out
}

// restored breaks a sandbox that is restored, and the one whose snapshot it is.
func (b Breaks) restored(p *phase, spec *sandbox.Spec) error {
	if !p.attacking() {
		return nil
	}
	if leaves, ok := b.priorLeaves(p); ok { // what is restored has the mounts of its snapshot
		shared, err := p.sharedMounts(leaves.Mounts)
		if err != nil {
			return err
		}
		for _, m := range shared {
			if !slices.Contains(spec.Mounts, m) {
				spec.Mounts = append(slices.Clone(spec.Mounts), m)
			}
		}
	}
	if b.Random == "" {
		return nil
	}
	dir := filepath.Join(p.dir, "random")
	if err := writeFiles(dir, []plant.File{{Path: "state", Content: strings.Repeat("the state of a snapshot ", 16)}}, image.IDBase); err != nil {
		return err
	}
	m := sandbox.Mount{Source: filepath.Join(dir, "state"), Target: b.Random, ReadOnly: true}
	if !slices.Contains(spec.Mounts, m) {
		spec.Mounts = append(slices.Clone(spec.Mounts), m)
	}
	return nil
}

// joinPatience bounds the wait for the neighbour, whose namespaces are joined.
const joinPatience = 30 * time.Second

// join waits for the neighbour and has the work sandbox use its namespaces.
func (b Breaks) join(p *phase, spec *sandbox.Spec) error {
	deadline := time.Now().Add(joinPatience)
	for time.Now().Before(deadline) {
		p.mu.Lock()
		sb := p.sandboxes[boxTenant]
		p.mu.Unlock()
		if sb == nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		file := filepath.Join(drivers.DefaultStateDir, p.r.driver.Name, sb.ID(), "bundle", "init.pid")
		pid, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("find the neighbour's first process: %w", err)
		}
		spec.Breaks.Joined = map[string]string{}
		for _, ns := range b.Share {
			spec.Breaks.Joined[ns] = fmt.Sprintf("/proc/%s/ns/%s", bytes.TrimSpace(pid), ns)
		}
		return nil
	}
	return errors.New("the neighbour's sandbox does not start")
}

// lower are files that a lower layer of the image holds.
func (b Breaks) lower(r *run) []plant.File {
	if b.ImageLower == nil {
		return nil
	}
	f := *b.ImageLower
	f.Content = strings.ReplaceAll(f.Content, SecretMark, r.attack.canaries.hostFile)
	return []plant.File{f}
}

// authority is what the sandboxes believe besides the run's own.
func (b Breaks) authority(p *phase) string {
	if !b.Authority {
		return ""
	}
	return p.tenantCA
}

// imageText adds variables, labels and history to what the image says of itself.
func (b Breaks) imageText(p *phase, text string) string {
	for _, more := range append([]string{b.ImageLabel[1], b.ImageHistory}, b.ImageEnv...) {
		if more != "" {
			text += "\n" + b.ImageLabel[0] + " " + strings.ReplaceAll(more, SecretMark, p.canaries.hostFile)
		}
	}
	return text
}

// image puts secrets into the unpacked image.
func (b Breaks) image(r *run) error {
	for _, l := range b.Image {
		pl := l.place(r.attack.canaries)
		if pl.Seed == nil {
			continue
		}
		if err := writeFiles(r.rootfs, pl.Seed.Files, image.IDBase); err != nil {
			return err
		}
	}
	return nil
}
