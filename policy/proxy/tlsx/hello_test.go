package tlsx

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

// capture records the ClientHello of the standard library's client.
func capture(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	done := make(chan []byte)
	go func() {
		buf := make([]byte, 64<<10)
		n, _ := server.Read(buf)
		_ = server.Close()
		done <- buf[:n]
	}()
	_ = tls.Client(client, cfg).Handshake()
	return <-done
}

func TestReadsRealHellos(t *testing.T) {
	raw := capture(t, &tls.Config{ServerName: "host.example", NextProtos: []string{"h2", "http/1.1"}, InsecureSkipVerify: true})
	for name, r := range map[string]io.Reader{
		"whole":       bytes.NewReader(append(append([]byte{}, raw...), "more"...)),
		"byte a time": iotest.OneByteReader(bytes.NewReader(raw)),
		"in records":  bytes.NewReader(fragment(raw, 7)),
	} {
		h, read, err := Read(r)
		if err != nil || h.ServerName != "host.example" || len(h.ALPN) != 2 || h.ALPN[0] != "h2" || h.ECH {
			t.Errorf("%s: %+v %v", name, h, err)
		}
		if name == "whole" && !bytes.Equal(read, raw) {
			t.Errorf("%s: read %d bytes of %d", name, len(read), len(raw))
		}
	}
}

// fragment cuts the handshake message into records of n bytes.
func fragment(record []byte, n int) []byte {
	var out []byte
	for msg := record[5:]; len(msg) > 0; {
		k := min(n, len(msg))
		out = append(out, 22, 3, 1, byte(k>>8), byte(k))
		out = append(out, msg[:k]...)
		msg = msg[k:]
	}
	return out
}

func TestWithoutServerName(t *testing.T) {
	raw := capture(t, &tls.Config{InsecureSkipVerify: true})
	if h, _, err := Read(bytes.NewReader(raw)); err != nil || h.ServerName != "" {
		t.Errorf("%+v %v", h, err)
	}
}

func TestRefusals(t *testing.T) {
	raw := capture(t, &tls.Config{ServerName: "host.example", InsecureSkipVerify: true})
	_, read, err := Read(bytes.NewReader([]byte("GET / HTTP/1.1\r\n")))
	if !errors.Is(err, ErrNotTLS) || string(read) != "G" {
		t.Errorf("HTTP: %q %v", read, err)
	}
	if _, _, err := Read(bytes.NewReader(raw[:len(raw)-1])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v", err)
	}
	two := bytes.Replace(raw, []byte("\x00\x00\x00\x11\x00\x0f\x00\x00\x0chost.example"), []byte("\x00\x00\x00\x11\x00\x0f\x01\x00\x0chost.example"), 1)
	if bytes.Equal(two, raw) {
		t.Fatal("the extension was not found")
	}
	if _, _, err := Read(bytes.NewReader(two)); !errors.Is(err, ErrMalformed) {
		t.Errorf("name of another type: %v", err)
	}
	if _, _, err := Read(bytes.NewReader([]byte{22, 3, 1, 0, 4, 2, 0, 0, 0})); !errors.Is(err, ErrMalformed) {
		t.Errorf("another handshake message: %v", err)
	}
}

// TestAgreesWithTheStandardServer: both read the same name from a hello.
func TestAgreesWithTheStandardServer(t *testing.T) {
	for _, name := range []string{"host.example", "UPPER.example", "a", ""} {
		raw := capture(t, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		h, _, err := Read(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		std := "not asked"
		cfg := &tls.Config{GetConfigForClient: func(chi *tls.ClientHelloInfo) (*tls.Config, error) {
			std = chi.ServerName
			return nil, errors.New("enough")
		}}
		_ = tls.Server(&replay{r: bytes.NewReader(raw)}, cfg).Handshake()
		if std != h.ServerName {
			t.Errorf("read in two ways: %q and %q", h.ServerName, std)
		}
	}
}

// FuzzClientHello: what is read is what came and no more of it; the cut into
// records makes no difference; a hello that is cut short is none.
func FuzzClientHello(f *testing.F) {
	f.Add(capture(f, &tls.Config{ServerName: "host.example", NextProtos: []string{"h2"}, InsecureSkipVerify: true}), uint8(3))
	f.Add(capture(f, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}), uint8(200))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		h, raw, err := Read(bytes.NewReader(in))
		if !bytes.HasPrefix(in, raw) {
			t.Fatal("what was read is not what came")
		}
		if err != nil {
			return
		}
		if _, _, err := Read(bytes.NewReader(raw[:len(raw)-1])); err == nil {
			t.Fatal("a hello without its last byte was accepted")
		}
		again, _, err := Read(bytes.NewReader(fragment(message(raw), int(size)+1)))
		if err != nil || again.ServerName != h.ServerName || again.ECH != h.ECH || len(again.ALPN) != len(h.ALPN) {
			t.Fatalf("in other records: %+v %v, was %+v", again, err, h)
		}
	})
}

// message puts the records of a hello together, behind one record's head.
func message(raw []byte) []byte {
	out := make([]byte, 5)
	for len(raw) > 0 {
		n := int(raw[3])<<8 | int(raw[4])
		out = append(out, raw[5:5+n]...)
		raw = raw[5+n:]
	}
	return out
}

// replay is a connection that only can be read.
type replay struct {
	net.Conn
	r io.Reader
}

func (r *replay) Read(p []byte) (int, error)  { return r.r.Read(p) }
func (r *replay) Write(p []byte) (int, error) { return len(p), nil }
func (r *replay) Close() error                { return nil }
