package site

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/wallproof/wallproof/attest/packet"
)

// Names of the verifier's files in the folder that LoadWasm reads.
const (
	WasmFile = "wallproof-verify.wasm" // or with ".gz" at the end
	ExecFile = "wasm_exec.js"
)

// maxWasmBytes bounds the verifier.
const maxWasmBytes = 256 << 20

// LoadWasm reads the verifier from a folder: WasmFile, plain or compressed, and
// ExecFile beside it. A folder without it gives a zero Wasm, and a site whose
// verify page explains the command line.
func LoadWasm(dir string) (Wasm, error) {
	var w Wasm
	for _, name := range []string{WasmFile + ".gz", WasmFile} {
		b, err := readBounded(filepath.Join(dir, name), maxWasmBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Wasm{}, fmt.Errorf("site: verifier for the browser: %w", err)
		}
		w.Module = b
		break
	}
	if len(w.Module) == 0 {
		return Wasm{}, nil
	}
	b, err := readBounded(filepath.Join(dir, ExecFile), maxWasmBytes)
	if err != nil {
		return Wasm{}, fmt.Errorf("site: verifier for the browser: %w", err)
	}
	w.Exec = b
	return w, nil
}

// verifyView is the verify page.
type verifyView struct {
	Wasm             bool
	Module, Fallback string // the compressed module; the stem of its parts as scripts
	Exec             string
	Parts, Size      int
	Megabytes        string
	Packet           string
	Attestation      string // that the packet holds
	PacketScript     string
	Key, Fingerprint string
	Identity, Issuer string
	Command          string
}

const (
	// partBytes is how much of the module one script holds, before base64: small
	// enough for a progress bar to move.
	partBytes = 768 << 10
	// maxInlinePacket bounds the packet that is also written as a script.
	maxInlinePacket = 8 << 20
)

// writeVerify writes the verify page and, where the build has it, the verifier.
// A browser does not let a page from a folder fetch files, so module and packet
// are written a second time as scripts.
func (b *builder) writeVerify() error {
	view := verifyView{Command: b.command()}
	v := b.page("verify/index.html", "Verify · "+b.publisher(), "Verify an evidence packet in the browser or on the command line.", nil)
	if len(b.in.Wasm.Module) > 0 {
		if err := b.writeVerifier(&view, &v); err != nil {
			return err
		}
		v.CSP = cspVerify
	}
	v.Body = view
	return b.put("verify/index.html", pageVerify, v)
}

func (b *builder) writeVerifier(view *verifyView, v *pageView) error {
	small, err := compress(b.in.Wasm.Module)
	if err != nil {
		return err
	}
	module, exec := newAsset("verifier.bin", small), newAsset("go.js", b.in.Wasm.Exec)
	tampers, err1 := builtinAsset("tampers.js")
	script, err2 := builtinAsset("verify.js")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, a := range []asset{module, exec, tampers, script} {
		if err := b.tree.put(a.path, a.content); err != nil {
			return err
		}
	}
	v.Scripts = []string{v.Root + tampers.path, v.Root + script.path}
	stem := module.path[:len(module.path)-len(".bin")] + "-"
	view.Wasm, view.Size, view.Megabytes = true, len(small), fmt.Sprintf("%.1f MB", float64(len(small))/1e6)
	view.Module, view.Exec, view.Fallback = v.Root+module.path, v.Root+exec.path, v.Root+stem
	for ; view.Parts*partBytes < len(small); view.Parts++ {
		part := small[view.Parts*partBytes : min((view.Parts+1)*partBytes, len(small))]
		if err := b.tree.put(fmt.Sprintf("%s%d.js", stem, view.Parts), scriptOf("wallproofParts.push", part)); err != nil {
			return err
		}
	}
	if err := b.trustOf(view); err != nil {
		return err
	}
	return b.ownPacket(view, v.Root)
}

// scriptOf is a script that calls a function with content in base64.
func scriptOf(call string, content []byte) []byte {
	return []byte(call + "(\"" + base64.StdEncoding.EncodeToString(content) + "\");\n")
}

// trustOf fills in whom the build itself trusted.
func (b *builder) trustOf(view *verifyView) error {
	t := b.in.Verify.Trust
	if t.Identity != nil {
		view.Identity, view.Issuer = clean(t.Identity.SAN), clean(t.Identity.Issuer)
	}
	if t.Key == nil {
		return nil
	}
	der, err := x509.MarshalPKIXPublicKey(t.Key)
	if err != nil {
		return fmt.Errorf("site: trusted key: %w", err)
	}
	sum := sha256.Sum256(der)
	view.Key = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	view.Fingerprint = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

// ownPacket names the primary packet, and writes it as a script too.
func (b *builder) ownPacket(view *verifyView, root string) error {
	r := b.primaryRecord()
	if r.ID == "" || r.State == StateInvalid {
		return nil
	}
	view.Packet, view.Attestation = root+attestationStem(r.ID)+endPacket, r.Digest
	for _, p := range b.in.Packets {
		if p.Name != r.packet {
			continue
		}
		files, closer, err := p.Open()
		if err != nil {
			return err
		}
		defer closer.Close()
		var tar bytes.Buffer
		if err := packet.WriteArchive(&tar, files); err != nil {
			return err
		}
		if tar.Len() > maxInlinePacket {
			return nil
		}
		a := newAsset("packet.js", scriptOf("wallproofTake", tar.Bytes()))
		view.PacketScript = root + a.path
		return b.tree.put(a.path, a.content)
	}
	return nil
}

// compress is gzip without name and time, so that the same module gives the same
// bytes. What is compressed already stays as it is.
func compress(b []byte) ([]byte, error) {
	if bytes.HasPrefix(b, []byte("\x1f\x8b")) {
		return b, nil
	}
	var w bytes.Buffer
	z, err := gzip.NewWriterLevel(&w, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(b)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("site: compress the verifier: %w", err)
	}
	return w.Bytes(), nil
}
