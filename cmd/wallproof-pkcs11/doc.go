// Wallproof-pkcs11 is the helper that signs with keys in a PKCS #11 token: a
// hardware module, a smart card, SoftHSM. It speaks Sigstore's KMS plugin protocol
// and is installed as sigstore-kms-pkcs11, beside wallproof or in PATH, so it
// serves every other tool that knows the protocol too. Beyond it,
//
//	sigstore-kms-pkcs11 describe pkcs11://…
//
// prints one JSON object: the reference, and the form of it that goes into
// evidence, which names no path of this machine.
//
// # References
//
// A reference is a PKCS #11 URI (RFC 7512), written with or without "//":
//
//	pkcs11://token=wallproof;object=signer
//	pkcs11:serial=1f2e;id=%01?module-path=/usr/lib/softhsm/libsofthsm2.so
//
// token, serial or slot-id name the token, object (the label) and id the key; one
// token and one private key must match. The module is module-path, or
// WALLPROOF_PKCS11_MODULE. The PIN is WALLPROOF_PKCS11_PIN, or the first line of
// the file that pin-source=file:/… names; pin-value is refused, because other
// users of the machine see command lines.
//
// Keys of type EC (P-256, P-384) and RSA (2048 bits or more, PKCS #1 v1.5) sign;
// the public half is read from the public key object or the certificate of the
// same id.
//
// # Loading a module without a C compiler
//
// The module is a shared library. It is opened by github.com/ebitengine/purego,
// which needs no cgo, so this builds like everything else; the program is linked
// to the C library dynamically for it, which is one more reason why it is a
// program of its own. Linux and macOS, on 64-bit processors.
package main
