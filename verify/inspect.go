package verify

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/probes/catalog"
)

// Derived is what a packet gives by itself, without any signature: everything
// in it read strictly, and every outcome judged again. A statement is built from
// it, and compared with it.
type Derived struct {
	Files       []predicate.File
	Manifest    *manifest.Manifest
	Judged      []manifest.Technique // with outcome, reason and findings as judged here
	Vectors     []judge.Summary
	Policy      predicate.Policy
	Redaction   *packet.Redaction
	ThreatModel *predicate.ThreatModel
	RedTeam     *packet.ParsedRedTeam

	catalogue       []catalog.Technique
	redactionDigest string
	unclaimed       int64 // canaries that got out in the name of no attempt
}

// Inspect reads a packet that carries no statement yet. Every fault is a failing
// line; Derived is nil when there is one. catalogue may be nil, for the one that
// this verifier carries.
func Inspect(p fs.FS, catalogue []catalog.Technique) (*Derived, []Check) {
	v := NewVerifier(nil, "", catalogue)
	i := inspection{packet: p, known: v.known(), policies: &v.policies}
	i.run(nil)
	if _, failed := i.failed(); failed {
		return nil, i.list
	}
	return &i.derived, i.list
}

// inspection is the state of reading one packet.
type inspection struct {
	lines
	packet   fs.FS
	known    *known
	policies *policies
	rules    *reading     // of the packet's policy, nil where it is not there or not the signed one
	parts    *parts.Parts // of the same, nil where it cannot be read
	derived  Derived
	// authentic tells which files have the content that was signed. Nil means
	// that there is no statement and every file counts.
	authentic map[string]bool
}

// trusted reports whether a file's content may be used.
func (i *inspection) trusted(name string) bool { return i.authentic == nil || i.authentic[name] }

// run does all checks on the packet itself. b is the signed statement's
// predicate, or nil.
func (i *inspection) run(b *predicate.Boundary) {
	i.derived.catalogue = i.known.list
	if !i.files(b) {
		for _, name := range []string{CheckManifest, CheckObservations, CheckCatalogue, CheckOutcomes, CheckRedaction} {
			i.skip(name, CodeNotAuthenticated, "the files of the packet could not be listed", "")
		}
		return
	}
	read := i.manifest(b)
	if !read || !i.trusted(packet.ManifestFile) {
		for _, name := range []string{CheckObservations, CheckCatalogue, CheckOutcomes} {
			i.skip(name, CodeNotAuthenticated, "the manifest is not to be relied on", packet.ManifestFile)
		}
		return
	}
	i.policy()
	i.wiring()
	i.observations()
	i.filterLog()
	i.proxyLog()
	i.judgeAgain()
	i.documents()
}

// changed says that a file is no longer what it was when the packet was listed: who
// can write to the folder could exchange it between the two.
func (i *inspection) changed(name string, data []byte) error {
	for _, f := range i.derived.Files {
		if f.Path == name && digestOf(data) != "sha256:"+f.SHA256 {
			return fmt.Errorf("%s changed while the packet was read", name)
		}
	}
	return nil
}

// files compares the packet with the signed index. It is false when the packet
// cannot be listed: nothing of it is opened then.
func (i *inspection) files(b *predicate.Boundary) bool {
	have, err := packet.Index(i.packet)
	if err != nil {
		i.fail(CheckPacket, packetCode(err), err.Error(), "")
		if b != nil {
			i.authentic = map[string]bool{}
		}
		return false
	}
	i.derived.Files = have
	if b == nil {
		return true
	}
	i.authentic = map[string]bool{}
	signed := map[string]predicate.File{}
	for _, f := range b.Files {
		signed[f.Path] = f
	}
	for _, f := range have {
		i.authentic[f.Path] = signed[f.Path] == f
	}
	faults := packet.Compare(have, b.Files)
	for n, fault := range faults {
		if n == maxListed {
			i.fail(CheckPacket, packetCode(fault), fmt.Sprintf("and %d more", len(faults)-n), "")
			return true
		}
		var e *packet.Error
		evidence := ""
		if errors.As(fault, &e) {
			evidence = e.Path
		}
		i.fail(CheckPacket, packetCode(fault), fault.Error(), evidence)
	}
	if len(faults) == 0 {
		i.pass(CheckPacket, CodePacketOK, fmt.Sprintf("all %d files are the signed ones", len(have)), "")
	}
	return true
}

// maxListed bounds how many faults of one kind are listed one by one.
const maxListed = 20

func packetCode(err error) Code {
	if r := packet.ReasonOf(err); r != "" {
		return Code(r)
	}
	return CodePacketUnreadable
}

// manifest reads the chain and compares it with what was signed.
func (i *inspection) manifest(b *predicate.Boundary) bool {
	f, err := packet.Open(i.packet, packet.ManifestFile)
	if err != nil {
		i.fail(CheckManifest, CodePacketIncomplete, "the packet has no manifest: it is incomplete", packet.ManifestFile)
		return false
	}
	defer f.Close()
	m, err := manifest.Read(f)
	if err != nil {
		code := Code(manifest.ReasonOf(err))
		if code == "" {
			code = CodePacketUnreadable
		}
		i.fail(CheckManifest, code, err.Error(), evidenceLine(err))
		return false
	}
	i.derived.Manifest = m
	if b != nil && !i.sameHead(m.Summary, b.Battery) {
		return false
	}
	if fact := missingFact(m.Run); fact != "" {
		i.fail(CheckManifest, CodeRunFact, "entry 0: "+fact+"; every run records it", packet.ManifestFile+":1")
		return false
	}
	if fault := runFault(m.Run); fault != "" {
		i.fail(CheckManifest, CodeManifestRun, fault, packet.ManifestFile+":1")
		return false
	}
	i.pass(CheckManifest, CodeManifestOK, fmt.Sprintf("%d lines, head %s", m.Summary.Count, m.Summary.Head), packet.ManifestFile)
	return true
}

func evidenceLine(err error) string {
	var e *manifest.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s:%d", packet.ManifestFile, e.Line+1)
	}
	return packet.ManifestFile
}

func (i *inspection) sameHead(have manifest.Summary, want predicate.Battery) bool {
	switch {
	case have.Head != want.Head:
		i.fail(CheckManifest, CodeManifestRebuilt, "a consistent chain, but not the signed one: head "+have.Head+", signed is "+want.Head, packet.ManifestFile)
	case have.Count != want.Count:
		i.fail(CheckManifest, CodeManifestCount, fmt.Sprintf("%d lines, signed are %d", have.Count, want.Count), packet.ManifestFile)
	case have.MerkleRoot != want.MerkleRoot:
		i.fail(CheckManifest, CodeManifestRoot, "Merkle root "+have.MerkleRoot+", signed is "+want.MerkleRoot, packet.ManifestFile)
	default:
		return true
	}
	return false
}

// judgeAgain checks the catalogue and computes every outcome anew.
func (i *inspection) judgeAgain() {
	m := i.derived.Manifest
	if i.known.err != nil || m.Run.CatalogDigest != i.known.digest {
		i.fail(CheckCatalogue, CodeCatalogueUnknown, "judged against catalogue "+m.Run.CatalogDigest+"; this verifier knows "+i.known.digest+
			": verify with the version that recorded it, "+m.Run.Tool.Version, packet.ManifestFile+":1")
		i.skip(CheckOutcomes, CodeNotAuthenticated, "outcomes cannot be judged against an unknown catalogue", "")
		return
	}
	if !i.techniques() {
		i.skip(CheckOutcomes, CodeNotAuthenticated, "an entry is not of the catalogue", "")
		return
	}
	i.pass(CheckCatalogue, CodeCatalogueOK, fmt.Sprintf("%d techniques, %s", len(i.known.list), i.known.digest), packet.ManifestFile+":1")
	i.applicable()
	i.outcomes()
}

// CatalogueDigest names a catalogue as catalog.Digest does.
func CatalogueDigest(list []catalog.Technique) (string, error) {
	data, err := canon.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("digest of a catalogue: %w", err)
	}
	return predicate.Digest(data), nil
}

// nonceKey decodes the key that the terminal entry publishes.
func (i *inspection) nonceKey() ([]byte, bool) {
	key, err := hex.DecodeString(i.derived.Manifest.Terminal.NonceKey)
	if err != nil || len(key) < minNonceKey {
		i.fail(CheckObservations, CodeNonceKey, fmt.Sprintf("the terminal entry's nonceKey is not at least %d bytes in hex", minNonceKey), packet.ManifestFile)
		return nil, false
	}
	return key, true
}

// minNonceKey is the least number of bytes of a nonce key.
const minNonceKey = 16
