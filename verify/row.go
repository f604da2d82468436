package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
)

// ErrNoRow means that a manifest has no such row.
var ErrNoRow = errors.New("the manifest has no such row")

// Prove takes one row out of a packet, with its inclusion proof and the
// attestation, so that it can be shown without the rest. row is
// "TECHNIQUE/variant", or the number of a line from 0. Nothing is verified: who
// is shown the row does that.
func Prove(p fs.FS, row string) ([]byte, error) {
	bundle, err := packet.ReadDocument(p, packet.AttestationFile)
	if err != nil {
		return nil, fmt.Errorf("read the attestation: %w", err)
	}
	f, err := packet.Open(p, packet.ManifestFile)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	defer f.Close()
	out := predicate.Row{Schema: predicate.RowSchema, Index: -1, Proof: []string{}, Attestation: json.RawMessage(bundle)}
	var leaves []manifest.Hash
	for r := manifest.NewReader(f); ; {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		leaves = append(leaves, manifest.LeafHash(l.Raw))
		found, err := isRow(l, row)
		if err != nil {
			return nil, err
		}
		if found {
			out.Index, out.Line = l.Seq, string(l.Raw)
		}
	}
	if out.Index < 0 {
		return nil, fmt.Errorf("%w: %.100q; write TECHNIQUE/variant or the number of a line", ErrNoRow, row)
	}
	out.Size = int64(len(leaves))
	path, err := manifest.Prove(leaves, out.Index)
	if err != nil {
		return nil, err
	}
	for _, h := range path {
		out.Proof = append(out.Proof, h.String())
	}
	data, err := json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), err
}

func isRow(l manifest.Line, row string) (bool, error) {
	if strconv.FormatInt(l.Seq, 10) == row {
		return true, nil
	}
	if l.Type != manifest.TypeTechnique {
		return false, nil
	}
	entry, err := l.Decode()
	if err != nil {
		return false, err
	}
	t := entry.(*manifest.Technique)
	return t.Technique+"/"+t.Variant == row, nil
}

// VerifyRow verifies a row proof: the attestation in it as Verify does of a
// bundle alone, and that the row is a line of the signed manifest at its place.
// The entry is in the report's Evidence only then.
func VerifyRow(data []byte, in Input) Report {
	row, err := predicate.ParseRow(data)
	if err != nil {
		var l lines
		l.fail(CheckParse, CodeBundleMalformed, err.Error(), "")
		v := verification{in: in, lines: l}
		v.unauthenticated()
		r := Report{Checks: inOrder(v.list), Times: Times{Checked: manifest.FormatTime(in.At)}}
		r.Verdict = r.verdict()
		return r
	}
	in.Packet, in.Bundle = nil, row.Attestation
	r := Verify(in)
	if r.Evidence == nil {
		return r
	}
	var l lines
	entry, err := rowIncluded(row, r.Evidence.Boundary.Battery)
	if err != nil {
		l.fail(CheckManifest, CodeManifestRow, err.Error(), "line")
	} else {
		r.Evidence.Row = entry
		l.pass(CheckManifest, CodeManifestRowOK, fmt.Sprintf("line %d of the signed manifest's %d", row.Index, row.Size), "line")
	}
	l.skip(CheckRerun, CodeRerunUnasked, "one row was asked about; a re-run is of the whole claim", "")
	for i, c := range r.Checks {
		switch {
		case c.Name == CheckManifest:
			r.Checks[i] = l.list[0]
		case c.Code == CodeRerunSkipped:
			r.Checks[i] = l.list[1]
		}
	}
	r.Verdict = r.verdict()
	return r
}

// rowIncluded checks the inclusion proof and reads the entry.
func rowIncluded(row predicate.Row, b predicate.Battery) (any, error) {
	root, err := manifest.ParseHash(b.MerkleRoot)
	if err != nil {
		return nil, fmt.Errorf("signed Merkle root: %w", err)
	}
	if row.Size != b.Count {
		return nil, fmt.Errorf("the proof is for %d lines, signed are %d", row.Size, b.Count)
	}
	var path []manifest.Hash
	for _, s := range row.Proof {
		h, err := manifest.ParseHash(s)
		if err != nil {
			return nil, fmt.Errorf("inclusion proof: %w", err)
		}
		path = append(path, h)
	}
	if !manifest.Included(root, manifest.LeafHash([]byte(row.Line)), row.Index, row.Size, path) {
		return nil, errors.New("the line is not in the signed manifest at this place")
	}
	return manifest.DecodeLine(row.Index, []byte(row.Line))
}
