package quic

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"testing"
)

// protect is the sender's side: it encrypts frames and protects the header,
// whose packet number is its last four bytes.
func protect(t testing.TB, par parameters, dcid, head, frames []byte) []byte {
	t.Helper()
	secret, err := hkdf.Extract(sha256.New, dcid, par.salt)
	check(t, err)
	secret, err = expand(secret, "client in", 32)
	check(t, err)
	key, err := expand(secret, par.key, 16)
	check(t, err)
	iv, err := expand(secret, par.iv, 12)
	check(t, err)
	hp, err := expand(secret, par.hp, 16)
	check(t, err)
	number := len(head) - 4
	for i := range 4 {
		iv[8+i] ^= head[number+i]
	}
	block, err := aes.NewCipher(key)
	check(t, err)
	aead, err := cipher.NewGCM(block)
	check(t, err)
	packet := aead.Seal(append([]byte(nil), head...), iv, frames, head)
	mask, err := aes.NewCipher(hp)
	check(t, err)
	var m [16]byte
	mask.Encrypt(m[:], packet[number+4:number+20])
	packet[0] ^= m[0] & 0x0f
	for i := range 4 {
		packet[number+i] ^= m[1+i]
	}
	return packet
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
