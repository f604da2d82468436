package kit

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
)

// TLS record types (RFC 8446 section 5.1).
const (
	recordAlert     = 21
	recordHandshake = 22
)

// ClientHello returns the record of a ClientHello whose server name is any bytes
// at all, also what crypto/tls would refuse to send, such as an address. alpn may
// hold the nonce, so that the hello carries it in clear.
func ClientHello(name string, alpn ...string) ([]byte, error) {
	if len(name) < 4 {
		return nil, fmt.Errorf("make a ClientHello: server name %q is too short", name)
	}
	stand := strings.Repeat("x", len(name)-2) + ".y"
	rec := &recorder{}
	tc := tls.Client(rec, &tls.Config{ServerName: stand, NextProtos: alpn, InsecureSkipVerify: true})
	if err := tc.Handshake(); err != nil && !errors.Is(err, errRecorded) {
		return nil, fmt.Errorf("make a ClientHello: %w", err)
	}
	if bytes.Count(rec.out, []byte(stand)) != 1 {
		return nil, errors.New("make a ClientHello: no place for the server name")
	}
	return bytes.Replace(rec.out, []byte(stand), []byte(name), 1), nil
}

// Greet sends a ClientHello that is not followed by a handshake and observes how
// it is taken: an alert is a refusal, a ServerHello an answer.
func Greet(c net.Conn, hello []byte) manifest.Observation {
	if _, err := c.Write(hello); err != nil {
		return Sign(err)
	}
	var head [5]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return Sign(err)
	}
	switch head[0] {
	case recordAlert:
		var alert [2]byte
		_, _ = io.ReadFull(c, alert[:])
		return manifest.Observation{Sign: manifest.SignRefused, Detail: "TLS alert " + tls.AlertError(alert[1]).Error()}
	case recordHandshake:
		return manifest.Observation{Sign: manifest.SignAnswered, Bytes: int64(binary.BigEndian.Uint16(head[3:])), Detail: "ServerHello"}
	}
	return manifest.Observation{Sign: manifest.SignAnswered, Bytes: 5, Detail: fmt.Sprintf("record of type %d", head[0])}
}

// EncryptedHello does a TLS handshake whose real server name is encrypted to a
// key that nobody has, and whose outer one is public (RFC 9849). The peer can
// only accept the outer name; that it did is an answer.
func EncryptedHello(ctx context.Context, c net.Conn, public, secret string) manifest.Observation {
	list, err := echConfigs(public)
	if err != nil {
		return Sign(err)
	}
	tc := tls.Client(c, &tls.Config{
		ServerName:                          secret,
		MinVersion:                          tls.VersionTLS13,
		EncryptedClientHelloConfigList:      list,
		EncryptedClientHelloRejectionVerify: func(tls.ConnectionState) error { return nil },
	})
	err = tc.HandshakeContext(ctx)
	var rejected *tls.ECHRejectionError
	if err == nil || errors.As(err, &rejected) {
		return manifest.Observation{Sign: manifest.SignAnswered, Detail: "outer handshake accepted"}
	}
	return Sign(err)
}

// echConfigs makes an ECHConfigList (RFC 9849 section 4) for a fresh key.
func echConfigs(public string) ([]byte, error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an ECH key: %w", err)
	}
	pub := key.PublicKey().Bytes()
	body := []byte{0x5a, 0, 0x20} // config id, KEM X25519
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(pub))), pub...)
	body = append(body, 0, 4, 0, 1, 0, 1) // HKDF-SHA256, AES-128-GCM
	body = append(body, 0, byte(len(public)))
	body = append(append(body, public...), 0, 0)
	config := binary.BigEndian.AppendUint16([]byte{0xfe, 0x0d}, uint16(len(body)))
	config = append(config, body...)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(config))), config...), nil
}

var errRecorded = errors.New("recorded")

// recorder is a connection that keeps what is written and answers nothing.
type recorder struct {
	net.Conn
	out []byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.out = append(r.out, p...)
	return len(p), nil
}

func (r *recorder) Read([]byte) (int, error) { return 0, errRecorded }
