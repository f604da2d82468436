// Package quic reads the first packet of a QUIC connection as any observer on
// the path can: the header in clear, and the client's CRYPTO data, which is
// protected only by keys that follow from the header (RFC 9001 section 5.2). It
// is pure.
package quic

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

// Versions whose Initial packets can be read.
const (
	Version1 = 0x00000001 // RFC 9000
	Version2 = 0x6b3343cf // RFC 9369
)

// maxCrypto bounds the CRYPTO data of one packet.
const maxCrypto = 4096

// ErrNotInitial means that a datagram is no Initial packet that can be read.
var ErrNotInitial = errors.New("no QUIC Initial packet")

// Initial is an Initial packet.
type Initial struct {
	Version    uint32
	DCID, SCID []byte
	Token      []byte
	Crypto     []byte // CRYPTO frames put together: the TLS ClientHello or its start
}

// LongHeader reports whether a datagram begins with a QUIC long header of any
// version (RFC 8999 section 5.1).
func LongHeader(b []byte) bool {
	return len(b) >= 7 && b[0]&0x80 != 0 && int(b[5]) <= 20 && (b[0]&0x40 != 0 || binary.BigEndian.Uint32(b[1:]) == 0)
}

// parameters that differ between the versions.
type parameters struct {
	salt           []byte
	key, iv, hp    string
	initialPattern byte // bits 4 and 5 of the first byte
}

var versions = map[uint32]parameters{
	Version1: {
		salt: []byte{0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc, 0xbb, 0x7f, 0x0a},
		key:  "quic key", iv: "quic iv", hp: "quic hp", initialPattern: 0x00,
	},
	Version2: {
		salt: []byte{0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9, 0xbd, 0x2e, 0xd9},
		key:  "quicv2 key", iv: "quicv2 iv", hp: "quicv2 hp", initialPattern: 0x10,
	},
}

// Parse reads the Initial packet at the start of a datagram.
func Parse(b []byte) (*Initial, error) {
	if !LongHeader(b) {
		return nil, ErrNotInitial
	}
	p := &Initial{Version: binary.BigEndian.Uint32(b[1:])}
	par, ok := versions[p.Version]
	if !ok || b[0]&0x30 != par.initialPattern {
		return nil, ErrNotInitial
	}
	r := reader{b: b, at: 5}
	p.DCID = r.bytes(int(r.byte()))
	p.SCID = r.bytes(int(r.byte()))
	p.Token = r.bytes(r.varint())
	length := r.varint()
	number := r.at
	if r.bad || length > len(b)-number || length < 4+16 {
		return nil, fmt.Errorf("%w: cut short", ErrNotInitial)
	}
	frames, err := unprotect(par, p.DCID, b[:number+length], number)
	if err != nil {
		return nil, err
	}
	p.Crypto = cryptoData(frames)
	return p, nil
}

// unprotect removes header protection and decrypts (RFC 9001 sections 5.3, 5.4).
func unprotect(par parameters, dcid, packet []byte, number int) ([]byte, error) {
	secret, err := hkdf.Extract(sha256.New, dcid, par.salt)
	if err != nil {
		return nil, err
	}
	if secret, err = expand(secret, "client in", 32); err != nil {
		return nil, err
	}
	key, err1 := expand(secret, par.key, 16)
	iv, err2 := expand(secret, par.iv, 12)
	hp, err3 := expand(secret, par.hp, 16)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	mask, err := aes.NewCipher(hp)
	if err != nil {
		return nil, err
	}
	var m [16]byte
	mask.Encrypt(m[:], packet[number+4:number+20])
	head := append([]byte(nil), packet[:number+4]...)
	head[0] ^= m[0] & 0x0f
	size := int(head[0]&3) + 1
	for i := range size {
		head[number+i] ^= m[1+i]
		iv[12-size+i] ^= head[number+i]
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, iv, packet[number+size:], head[:number+size])
	if err != nil {
		return nil, fmt.Errorf("%w: cannot be decrypted", ErrNotInitial)
	}
	return plain, nil
}

// expand is HKDF-Expand-Label of TLS 1.3 with an empty context (RFC 8446 section
// 7.1).
func expand(secret []byte, label string, size int) ([]byte, error) {
	full := "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(size))
	info = append(info, byte(len(full)))
	info = append(info, full...)
	return hkdf.Expand(sha256.New, secret, string(append(info, 0)), size)
}

// cryptoData puts the CRYPTO frames of a packet together (RFC 9000 section
// 19.6), as far as they go.
func cryptoData(frames []byte) []byte {
	data := make([]byte, 0, maxCrypto)
	for r := (reader{b: frames}); r.at < len(frames) && !r.bad; {
		switch kind := r.varint(); kind {
		case 0, 1: // PADDING, PING
		case 2: // ACK: a client's first packet has none; nothing behind it is needed
			return data
		case 6:
			offset, size := r.varint(), r.varint()
			part := r.bytes(size)
			if r.bad || offset+len(part) > maxCrypto {
				return data
			}
			if end := offset + len(part); end > len(data) {
				data = data[:end]
			}
			copy(data[offset:], part)
		default:
			return data
		}
	}
	return data
}

// reader reads with bounds; bad is set once something was not there.
type reader struct {
	b   []byte
	at  int
	bad bool
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n int) []byte {
	if r.bad || n < 0 || n > len(r.b)-r.at {
		r.bad = true
		return nil
	}
	r.at += n
	return r.b[r.at-n : r.at]
}

// varint reads a variable-length integer (RFC 9000 section 16). One that no
// length in a datagram could have is bad.
func (r *reader) varint() int {
	first := r.byte()
	v := uint64(first & 0x3f)
	for range 1<<(first>>6) - 1 {
		v = v<<8 | uint64(r.byte())
	}
	if v > 1<<16 {
		r.bad = true
		return 0
	}
	return int(v)
}
