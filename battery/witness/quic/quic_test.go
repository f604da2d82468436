package quic

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// clientHello is the CRYPTO data of the client's Initial packet in RFC 9001,
// appendix A.2.
const clientHello = "010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff"

// initialHead is the start of the protected packet there: enough to check the
// derivation of keys by hand. The whole packet is rebuilt by protect.
const initialHead = "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8bab936b47d92ec356c0bab7df5976d27cd449f63300099f399"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rfcPacket is the client's Initial of RFC 9001, appendix A.2: 1200 bytes.
func rfcPacket(t testing.TB) []byte {
	t.Helper()
	frames := append([]byte{0x06, 0x00, 0x40, 0xf1}, unhex(t, clientHello)...)
	frames = append(frames, make([]byte, 1162-len(frames))...)
	head := unhex(t, "c300000001088394c8f03e5157080000449e00000002")
	return protect(t, versions[Version1], unhex(t, "8394c8f03e515708"), head, frames)
}

func TestRFC9001(t *testing.T) {
	packet := rfcPacket(t)
	if want := unhex(t, initialHead); len(packet) != 1200 || !bytes.HasPrefix(packet, want) {
		t.Fatalf("packet of %d bytes begins %x, want %x", len(packet), packet[:64], want)
	}
	p, err := Parse(packet)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(p.Crypto, unhex(t, clientHello)) || p.Version != Version1 || hex.EncodeToString(p.DCID) != "8394c8f03e515708" {
		t.Errorf("read %+v", p)
	}
	if !strings.Contains(string(p.Crypto), "example.com") {
		t.Error("no server name in the ClientHello")
	}
}

func TestVersion2(t *testing.T) {
	head := unhex(t, "d36b3343cf088394c8f03e5157080000449e00000002")
	frames := append([]byte{0x01, 0x06, 0x05, 0x03}, "def"...)
	frames = append(frames, 0x06, 0x00, 0x05)
	frames = append(frames, "hello"...)
	frames = append(frames, make([]byte, 1162-len(frames))...)
	p, err := Parse(protect(t, versions[Version2], unhex(t, "8394c8f03e515708"), head, frames))
	if err != nil || string(p.Crypto) != "hellodef" {
		t.Errorf("%+v %v", p, err)
	}
}

func TestNotInitial(t *testing.T) {
	good := rfcPacket(t)
	flipped := bytes.Clone(good)
	flipped[700] ^= 1
	for name, b := range map[string][]byte{
		"empty": nil, "short header": {0x40, 1, 2, 3, 4, 5, 6, 7, 8}, "cut": good[:100], "changed": flipped, "handshake packet": append([]byte{0xe0}, good[1:]...),
		"unknown version": append([]byte{0xc0, 9, 9, 9, 9}, good[5:]...), "text": []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		if p, err := Parse(b); !errors.Is(err, ErrNotInitial) || p != nil {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if !LongHeader([]byte{0xc3, 0, 0, 0, 1, 8, 1, 2}) || LongHeader([]byte("hello, world")) {
		t.Error("long header is told wrongly")
	}
}

// A packet that reads is one that was protected with keys that follow from it,
// so nothing but what was sent comes out.
func FuzzParse(f *testing.F) {
	f.Add(rfcPacket(f))
	f.Add([]byte{0xc0, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		if len(p.DCID) > 20 || len(p.SCID) > 255 || len(p.Crypto) > maxCrypto || len(p.Crypto) > len(b) {
			t.Fatalf("%+v", p)
		}
		if !LongHeader(b) {
			t.Fatal("an Initial packet without a long header")
		}
	})
}
