// Package kms signs with keys that never leave a key service: gcpkms://,
// awskms://, azurekms://, hashivault://, pkcs11:, or any other scheme for which a
// Sigstore KMS plugin is installed.
//
// The clients of these services are large, so they are not linked in here: they
// live in helper executables (cmd/wallproof-kms, cmd/wallproof-pkcs11), which speak
// Sigstore's KMS plugin protocol and are called sigstore-kms-SCHEME, beside this program or in
// PATH. Beyond that protocol our helper answers
//
//	sigstore-kms-SCHEME describe SCHEME://…
//
// with one JSON object on standard output (keyref.Description), so that the version of
// the key that signs is pinned and recorded.
package kms

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms/cliplugin"
	"github.com/sigstore/sigstore/pkg/signature/options"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/keyref"
	"github.com/wallproof/wallproof/verify"
)

// Errors of Open.
var (
	ErrReference = errors.New("not a key reference; write SCHEME://…, for example gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/1")
	ErrNoHelper  = errors.New("the helper for this key service is not installed")
	ErrService   = errors.New("the key service refused or failed; nothing was signed")
)

// callTimeout bounds one call of a helper. Our own helper gives up earlier and says
// why; one of somebody else's is ended.
var callTimeout = 75 * time.Second

// Open connects to a key. dir is a folder that is searched for the helper before
// PATH, usually that of the running program; it may be empty.
func Open(ctx context.Context, ref, dir string) (attest.Signer, error) {
	scheme, key, ok := keyref.Split(ref)
	if !ok {
		return nil, fmt.Errorf("%w (%.200q)", ErrReference, ref)
	}
	ref = scheme + "://" + key
	helper, err := find(cliplugin.PluginBinaryPrefix+scheme, dir)
	if err != nil {
		return nil, err
	}
	d, why := describe(ctx, helper, ref)
	if d.URI != "" {
		ref = d.URI
	}
	public, err := publicKey(ctx, ref)
	if err != nil && why != "" {
		return nil, fmt.Errorf("%w (%s)", err, why)
	}
	if err != nil {
		return nil, err
	}
	details, err := signature.GetDefaultAlgorithmDetails(public)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", keyfile.ErrForm, err)
	}
	fingerprint, err := verify.Fingerprint(public)
	if err != nil {
		return nil, err
	}
	// The key's fingerprint pins the version where the service does not name one,
	// and lets a verifier compare.
	name := ref
	if d.Record != "" {
		name = d.Record
	}
	if d.Version != "" {
		name += "?version=" + d.Version
	}
	return &signer{ref: ref, name: name + "#" + fingerprint, public: public, details: details, Description: d}, nil
}

// find looks for the helper and makes sure that the plugin client, which asks
// PATH, finds the same.
func find(name, dir string) (string, error) {
	if dir != "" {
		path := filepath.Join(dir, name)
		if _, err := exec.LookPath(path); err == nil {
			list := os.Getenv("PATH")
			if !strings.HasPrefix(list, dir+string(os.PathListSeparator)) {
				if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+list); err != nil {
					return "", fmt.Errorf("find the helper: %w", err)
				}
			}
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: %s is neither beside this program nor in PATH", ErrNoHelper, name)
	}
	return path, nil
}

// Bounds of a helper's answer, and of what it says to an error.
const (
	maxDescription = 64 << 10
	maxReason      = 400
)

// describe asks our helper; one of somebody else's does not know the question.
// Where there is no answer, why is what the helper said.
func describe(ctx context.Context, helper, ref string) (d keyref.Description, why string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, helper, "describe", ref)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil || out.Len() > maxDescription {
		text := strings.Join(strings.Fields(said.String()), " ")
		return keyref.Description{}, text[:min(len(text), maxReason)]
	}
	if json.Unmarshal(out.Bytes(), &d) != nil || !keyref.Is(d.URI) {
		return keyref.Description{}, ""
	}
	return d, ""
}

func publicKey(ctx context.Context, ref string) (crypto.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sv, err := cliplugin.LoadSignerVerifier(ctx, ref, crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrService, err)
	}
	key, err := sv.PublicKey(options.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("%w: read the public key of %s: %w", ErrService, ref, err)
	}
	return key, nil
}

// signer is a key in a key service.
type signer struct {
	keyref.Description
	ref, name string
	public    crypto.PublicKey
	details   signature.AlgorithmDetails
}

func (s *signer) KeyName() string                             { return s.name }
func (s *signer) GetPublicKey() crypto.PublicKey              { return s.public }
func (s *signer) GetHashAlgorithm() protocommon.HashAlgorithm { return s.details.GetProtoHashType() }
func (s *signer) GetSigningAlgorithm() protocommon.PublicKeyDetails {
	return s.details.GetSignatureAlgorithm()
}
func (s *signer) GetKeyAlgorithm() string { return attest.KeyAlgorithm(s.details) }
func (s *signer) GetHint() []byte         { return attest.KeyHint(s.public) }

func (s *signer) GetPublicKeyPem() (string, error) {
	data, err := keyfile.MarshalPublicKey(s.public)
	return string(data), err
}

// SignData lets the service sign. The public key was read before: a key that was
// rotated in between signs with another one, and that is noticed here.
func (s *signer) SignData(ctx context.Context, data []byte) (sig, digest []byte, err error) {
	hash := s.details.GetHashType()
	digest = data
	if hash != crypto.Hash(0) {
		h := hash.New()
		h.Write(data)
		digest = h.Sum(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sv, err := cliplugin.LoadSignerVerifier(ctx, s.ref, hash)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrService, err)
	}
	sig, err = sv.SignMessage(bytes.NewReader(data), options.WithContext(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: sign with %s: %w", ErrService, s.ref, err)
	}
	v, err := signature.LoadDefaultVerifier(s.public)
	if err != nil {
		return nil, nil, err
	}
	if err := v.VerifySignature(bytes.NewReader(sig), bytes.NewReader(data)); err != nil {
		return nil, nil, fmt.Errorf("%w: the signature is not by the key that %s had a moment ago: %w", ErrService, s.ref, err)
	}
	return sig, digest, nil
}
