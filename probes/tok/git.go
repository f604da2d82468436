package tok

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// This file is as much of git's wire format as a push needs (gitprotocol-pack,
// gitformat-pack), so that the probe needs no git client.

const zeroID = "0000000000000000000000000000000000000000"

// Object types of a pack.
const (
	objectCommit = 1
	objectTree   = 2
)

// update is one ref update with the objects that it needs.
type update struct {
	old, new, ref string
	pack          []byte
}

// bytes is the body of a git-receive-pack request.
func (u update) bytes() []byte {
	command := u.old + " " + u.new + " " + u.ref + "\x00 report-status"
	return append([]byte(pkt(command)+"0000"), u.pack...)
}

// pkt frames one line (gitprotocol-common).
func pkt(s string) string { return fmt.Sprintf("%04x", len(s)+4) + s }

// lines takes a stream of pkt-lines apart, as far as it is one.
func lines(b []byte) []string {
	var out []string
	for len(b) >= 4 {
		n, err := strconv.ParseUint(string(b[:4]), 16, 16)
		switch {
		case err != nil || int(n) > len(b):
			return out
		case n < 4:
			b = b[4:]
		default:
			out = append(out, string(b[4:n]))
			b = b[n:]
		}
	}
	return out
}

// parseRefs reads a ref advertisement: ref to object id.
func parseRefs(b []byte) map[string]string {
	refs := map[string]string{}
	for _, line := range lines(b) {
		line, _, _ = strings.Cut(line, "\x00")
		id, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if ok && len(id) == len(zeroID) && strings.HasPrefix(ref, "refs/") {
			refs[ref] = id
		}
	}
	return refs
}

var errNoBranch = errors.New("the repository advertised no branch")

// someBranch returns the wanted ref, or else main, or else the first branch.
func someBranch(refs map[string]string, want string) (ref, id string, err error) {
	var heads []string
	for r := range refs {
		if strings.HasPrefix(r, "refs/heads/") {
			heads = append(heads, r)
		}
	}
	slices.Sort(heads)
	for _, r := range append([]string{want, "refs/heads/main"}, heads...) {
		if id, ok := refs[r]; ok {
			return r, id, nil
		}
	}
	return "", "", errNoBranch
}

// reportOf finds the line of a report-status answer that is about a ref.
func reportOf(b []byte, ref string) string {
	for _, line := range append(lines(b), strings.Split(string(b), "\n")...) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "ng "+ref) || strings.HasPrefix(line, "ok "+ref) {
			return line
		}
	}
	return ""
}

// emptyPack is a pack of no objects, for a ref that points at a known one.
func emptyPack() []byte { return pack() }

// orphan makes a commit without parent over an empty tree.
func orphan(message string) (id string, packed []byte) {
	tree := object{kind: objectTree}
	who := "wallproof-probe <probe@wallproof.invalid> 946684800 +0000"
	commit := object{kind: objectCommit, body: []byte("tree " + tree.id() + "\nauthor " + who + "\ncommitter " + who + "\n\n" + message + "\n")}
	return commit.id(), pack(tree, commit)
}

type object struct {
	kind int
	body []byte
}

func (o object) id() string {
	name := map[int]string{objectCommit: "commit", objectTree: "tree"}[o.kind]
	sum := sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", name, len(o.body)), o.body...))
	return hex.EncodeToString(sum[:])
}

// pack writes a version 2 pack.
func pack(objects ...object) []byte {
	out := []byte("PACK")
	out = binary.BigEndian.AppendUint32(out, 2)
	out = binary.BigEndian.AppendUint32(out, uint32(len(objects)))
	for _, o := range objects {
		size := len(o.body)
		head := byte(o.kind<<4 | size&15)
		for size >>= 4; size > 0; size >>= 7 {
			out = append(out, head|0x80)
			head = byte(size & 0x7f)
		}
		out = append(out, head)
		var z bytes.Buffer
		w := zlib.NewWriter(&z)
		_, _ = w.Write(o.body) // a bytes.Buffer takes everything
		_ = w.Close()
		out = append(out, z.Bytes()...)
	}
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}
