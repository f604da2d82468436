package witness

import (
	"strings"
	"testing"
)

func TestSniff(t *testing.T) {
	tests := []struct {
		in   string
		want wire
	}{
		{"", wireUnknown}, {"\x16", wireUnknown}, {"\x16\x03", wireTLS}, {"\x16\x03\x01\x02", wireTLS}, {"\x16\x04", wirePlain},
		{"G", wireUnknown}, {"GET", wireUnknown}, {"GET ", wireUnknown}, {"GET /", wireHTTP}, {"OPTIONS *", wireHTTP}, {"M-SEARCH *", wireHTTP},
		{"GET http://x/ HTTP/1.1\r\n", wireHTTP}, {"GET http://x/", wireUnknown}, {"CONNECT a:1 HTTP/1.1\r\n", wireHTTP},
		{"PRI", wireUnknown}, {http2Preface, wireHTTP2}, {http2Preface + "x", wireHTTP2}, {"PRI * HTTP/2.0\r\n\r\nXX", wireHTTP},
		{"SSH", wireUnknown}, {"SSH-2.0-x\r\n", wireSSH}, {"SSH-", wireSSH},
		{"EHLO x\r\n", wirePlain}, {"USER x\n", wirePlain}, {"PING x\r\n", wirePlain}, {"EHLO x", wireUnknown},
		{"get /", wirePlain}, {"\x00", wirePlain}, {strings.Repeat("A", 30), wirePlain}, {" /", wirePlain},
		{"GET " + strings.Repeat("a", peekSize), wirePlain},
	}
	for _, tc := range tests {
		if got := sniff([]byte(tc.in)); got != tc.want {
			t.Errorf("sniff(%.40q) = %d, want %d", tc.in, got, tc.want)
		}
	}
}

// Once told, a protocol stays: more bytes never change it, so that it does not
// matter how a connection is cut into segments.
func FuzzSniff(f *testing.F) {
	for _, s := range []string{"\x16\x03\x01", "GET / HTTP/1.1\r\n", "SSH-2.0-x", http2Preface, "EHLO x\r\n", "GET http://x HTTP/1.1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > peekSize {
			return
		}
		told := wireUnknown
		for i := range len(b) + 1 {
			got := sniff(b[:i])
			if told != wireUnknown && got != told {
				t.Fatalf("%q is %d, %q is %d", b[:i-1], told, b[:i], got)
			}
			told = got
		}
	})
}

func TestHostName(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM": "example.com", "example.com.:443": "example.com", "[::1]:80": "::1", "[fd00::1]": "fd00::1", "::1": "::1",
		"1.2.3.4:5": "1.2.3.4", "": "", "a:b:c": "a:b:c", "[x": "[x",
	} {
		if got := hostName(in); got != want {
			t.Errorf("hostName(%q) = %q, want %q", in, got, want)
		}
	}
}
