package witness

import (
	"crypto/tls"
	"slices"
	"strings"
)

// extensionECH is encrypted_client_hello (RFC 9849).
const extensionECH = 0xfe0d

// noteECH is the detail of a sighting whose ClientHello hid another one.
const noteECH = "ClientHello with encrypted_client_hello"

// tlsConfig answers any ClientHello: a certificate for whatever name it asks
// for, or for the address when it names none.
func (w *World) tlsConfig(l *ledger) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS10, // the world takes whatever comes; it protects nothing
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			note := ""
			if slices.Contains(hello.Extensions, extensionECH) {
				note = noteECH
			}
			l.hello(strings.ToLower(strings.TrimSuffix(hello.ServerName, ".")), note)
			name := hello.ServerName
			if name == "" {
				name = l.dst.Addr().String()
			}
			cert, err := w.minter.For(name)
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS10, Certificates: []tls.Certificate{*cert}, NextProtos: nextProtos(hello.SupportedProtos),
				// Nobody resumes here, and the open proxy's own page is served over a pipe, on
				// which nothing may be sent that the other side does not wait for.
				SessionTicketsDisabled: true,
			}, nil
		},
	}
}

// nextProtos picks what to agree on: HTTP when it is offered, else whatever the
// client wants first, so that no handshake fails for lack of a protocol.
func nextProtos(offered []string) []string {
	for _, p := range []string{"h2", "http/1.1"} {
		if slices.Contains(offered, p) {
			return []string{p}
		}
	}
	if len(offered) > 0 {
		return offered[:1]
	}
	return nil
}
