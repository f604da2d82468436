package adapter

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestSquidLine(t *testing.T) {
	const at = "1764460800.250     50 "
	began := time.UnixMilli(1764460800200)
	tests := []struct {
		name, line string
		want       Record
		skip, bad  bool
	}{
		{name: "denied, with the client's port", line: at + "[192.0.2.2]:40123 TCP_DENIED/403 3900 CONNECT evil.example:443 - HIER_NONE/- text/html",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:40123"), Method: "CONNECT", Scheme: "https", Host: "evil.example", Port: 443, URL: "evil.example:443", Status: 403, Verdict: Denied, Reason: "squid:TCP_DENIED"}},
		{name: "the native format, without a port", line: at + "192.0.2.2 TCP_DENIED/403 3900 GET http://evil.example/wabc - HIER_NONE/- text/html",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:0"), Method: "GET", Scheme: "http", Host: "evil.example", Port: 80, URL: "http://evil.example/wabc", Status: 403, Verdict: Denied, Reason: "squid:TCP_DENIED"}},
		{name: "IPv6 client and target", line: at + "[2001:db8:0:1::2]:5 TCP_DENIED/403 0 CONNECT [2a0d:5600::1]:443 - HIER_NONE/- -",
			want: Record{Time: began, Client: netip.MustParseAddrPort("[2001:db8:0:1::2]:5"), Method: "CONNECT", Scheme: "https", Host: "2a0d:5600::1", Port: 443, URL: "[2a0d:5600::1]:443", Status: 403, Verdict: Denied, Reason: "squid:TCP_DENIED"}},
		{name: "passed on", line: at + "[192.0.2.2]:1 TCP_TUNNEL/200 99 CONNECT ok.example:443 - HIER_DIRECT/93.184.216.34 -",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:1"), Method: "CONNECT", Scheme: "https", Host: "ok.example", Port: 443, URL: "ok.example:443", Dialled: "93.184.216.34", Status: 200, Verdict: Allowed, Reason: "squid:TCP_TUNNEL"}},
		{name: "the origin's own 403 is no refusal of squid's", line: at + "[192.0.2.2]:1 TCP_MISS/403 99 GET http://ok.example/ - HIER_DIRECT/93.184.216.34 -",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:1"), Method: "GET", Scheme: "http", Host: "ok.example", Port: 80, URL: "http://ok.example/", Dialled: "93.184.216.34", Status: 403, Verdict: Allowed, Reason: "squid:TCP_MISS"}},
		{name: "a name that does not resolve is a failure", line: at + "[192.0.2.2]:1 NONE_NONE/503 0 CONNECT ok.example:443 - HIER_NONE/- -",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:1"), Method: "CONNECT", Scheme: "https", Host: "ok.example", Port: 443, URL: "ok.example:443", Status: 503, Verdict: Failed, Reason: "squid:NONE_NONE"}},
		{name: "a request that could not be parsed", line: at + "[192.0.2.2]:1 NONE_NONE/400 0 - error:invalid-request - HIER_NONE/- text/html",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:1"), Method: "-", URL: "error:invalid-request", Status: 400, Verdict: Denied, Reason: "squid:NONE_NONE"}},
		{name: "userinfo before another host", line: at + "[192.0.2.2]:1 TCP_DENIED/403 0 GET http://ok.example@evil.example:8080/x - HIER_NONE/- -",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:1"), Method: "GET", Scheme: "http", Host: "evil.example", Port: 8080, URL: "http://ok.example@evil.example:8080/x", Status: 403, Verdict: Denied, Reason: "squid:TCP_DENIED"}},
		{name: "a host that is none", line: at + "[192.0.2.2]:1 TCP_DENIED/403 0 CONNECT a%00b:443 - HIER_NONE/- -",
			want: Record{Time: began, Client: netip.MustParseAddrPort("192.0.2.2:1"), Method: "CONNECT", Scheme: "https", Host: `"a%00b"`, Port: 443, URL: "a%00b:443", Status: 403, Verdict: Denied, Reason: "squid:TCP_DENIED"}},
		{name: "a connection without a request", line: at + "[192.0.2.2]:1 NONE_NONE/000 0 NONE error:transaction-end-before-headers - HIER_NONE/- -", skip: true},
		{name: "another format", line: `192.0.2.2 - - [30/Nov/2026:00:00:00 +0000] "GET http://x/ HTTP/1.1" 403 1 TCP_DENIED:HIER_NONE`, bad: true},
		{name: "no time", line: "now 5 [192.0.2.2]:1 TCP_DENIED/403 0 GET http://x/ - HIER_NONE/- -", bad: true},
		{name: "no client", line: at + "192.0.2.2:40 TCP_DENIED/403 0 GET http://x/ - HIER_NONE/- -", bad: true},
		{name: "no status", line: at + "[192.0.2.2]:1 TCP_DENIED 0 GET http://x/ - HIER_NONE/- -", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := squid.Line([]byte(tt.line))
			if (err != nil) != tt.bad || ok == (tt.skip || tt.bad) {
				t.Fatalf("got ok %v, error %v", ok, err)
			}
			if ok {
				compare(t, got, tt.want)
			}
		})
	}
}

func compare(t *testing.T, got, want Record) {
	t.Helper()
	if !got.Time.Equal(want.Time) {
		t.Errorf("time %s, want %s", got.Time, want.Time)
	}
	got.Time, want.Time = time.Time{}, time.Time{}
	if got != want {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

func TestMitmproxyLine(t *testing.T) {
	at := time.Unix(1764460800, 250000000)
	client := netip.MustParseAddrPort("192.0.2.2:40123")
	tests := []struct {
		name, line string
		want       Record
		bad        bool
	}{
		{name: "its own refusal of a tunnel", line: `{"time":1764460800.25,"client":["::ffff:192.0.2.2",40123],"method":"CONNECT","url":"evil.example:443","status":403,"own":true,"error":"","server":null}`,
			want: Record{Time: at, Client: client, Method: "CONNECT", Scheme: "https", Host: "evil.example", Port: 443, URL: "evil.example:443", Status: 403, Verdict: Denied, Reason: "mitmproxy:403"}},
		{name: "the origin's 403", line: `{"time":1764460800.25,"client":["192.0.2.2",40123],"method":"GET","url":"https://ok.example/x","status":403,"own":false,"error":"","server":["93.184.216.34",443]}`,
			want: Record{Time: at, Client: client, Method: "GET", Scheme: "https", Host: "ok.example", Port: 443, URL: "https://ok.example/x", Dialled: "93.184.216.34:443", Status: 403, Verdict: Allowed, Reason: "mitmproxy:passed"}},
		{name: "killed by an addon", line: `{"time":1764460800.25,"client":["192.0.2.2",40123],"method":"GET","url":"http://evil.example/","status":0,"own":false,"error":"killed","server":null}`,
			want: Record{Time: at, Client: client, Method: "GET", Scheme: "http", Host: "evil.example", Port: 80, URL: "http://evil.example/", Verdict: Denied, Reason: "mitmproxy:killed"}},
		{name: "a dead upstream", line: `{"time":1764460800.25,"client":["192.0.2.2",40123],"method":"GET","url":"http://ok.example/","status":502,"own":true,"error":"failed","server":null}`,
			want: Record{Time: at, Client: client, Method: "GET", Scheme: "http", Host: "ok.example", Port: 80, URL: "http://ok.example/", Status: 502, Verdict: Failed, Reason: "mitmproxy:failed"}},
		{name: "a key that it does not have", line: `{"time":1,"client":["192.0.2.2",1],"method":"GET","url":"http://x/","verdict":"deny"}`, bad: true},
		{name: "no client", line: `{"time":1,"client":[],"method":"GET","url":"http://x/"}`, bad: true},
		{name: "no time", line: `{"client":["192.0.2.2",1],"method":"GET","url":"http://x/"}`, bad: true},
		{name: "mitmdump's own output", line: "127.0.0.1:1: GET http://x/", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok, err := mitmproxy.Line([]byte(tt.line))
			if (err != nil) != tt.bad || ok == tt.bad {
				t.Fatalf("got ok %v, error %v", ok, err)
			}
			if ok {
				compare(t, got, tt.want)
			}
		})
	}
}

func TestRead(t *testing.T) {
	const line = "1764460800.250     50 [192.0.2.2]:40123 TCP_DENIED/403 3900 CONNECT evil.example:443 - HIER_NONE/- text/html\n"
	tests := []struct {
		name, log       string
		records, unread int
		err             error
	}{
		{name: "nothing was asked", log: ""},
		{name: "three lines", log: strings.Repeat(line, 3), records: 3},
		{name: "a last line that is cut short", log: line + line[:40], records: 1},
		{name: "lines that an attacker wrote", log: line + "rubbish\n" + line + "\x00\xff\n", records: 2, unread: 2},
		{name: "a line that is far too long", log: line + strings.Repeat("x", 3*MaxLogLine) + "\n" + line, records: 2, unread: 1},
		{name: "another format", log: "one\ntwo\n", unread: 2, err: ErrFormat},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := squid.Read(strings.NewReader(tt.log))
			if !errors.Is(err, tt.err) || len(got.Records) != tt.records || got.Unread != tt.unread || got.Cut {
				t.Errorf("got %d records, %d unread, cut %v, error %v", len(got.Records), got.Unread, got.Cut, err)
			}
			if tt.err != nil && !strings.Contains(err.Error(), "line 1:") {
				t.Errorf("the error names no line: %v", err)
			}
		})
	}
	if got, err := squid.Read(strings.NewReader(strings.Repeat(line, MaxRecords+1))); err != nil || !got.Cut || len(got.Records) != MaxRecords {
		t.Errorf("a log that is too long: %d records, cut %v, %v", len(got.Records), got.Cut, err)
	}
}

func TestLookup(t *testing.T) {
	for _, name := range Names() {
		if a, err := Lookup(name); err != nil || a.Name != name || a.Format == "" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if _, err := Lookup("envoy"); err == nil || !strings.Contains(err.Error(), "squid, mitmproxy") {
		t.Errorf("an unknown adapter: %v", err)
	}
}

// FuzzLine: whatever stands in a log, a line that is read is about a client and
// has a verdict, and its host is one or is quoted.
func FuzzLine(f *testing.F) {
	f.Add("1764460800.250     50 [192.0.2.2]:40123 TCP_DENIED/403 3900 CONNECT evil.example:443 - HIER_NONE/- text/html")
	f.Add(`{"time":1764460800.25,"client":["192.0.2.2",40123],"method":"GET","url":"http://x/","status":403,"own":true,"error":"","server":null}`)
	f.Fuzz(func(t *testing.T, line string) {
		for _, a := range All() {
			r, ok, err := a.Line([]byte(line))
			if ok && err != nil {
				t.Errorf("%s: read, and not understood", a.Name)
			}
			if !ok {
				continue
			}
			if !r.Client.Addr().IsValid() || r.Verdict == "" || r.Reason == "" || r.Port < 0 || r.Port > 65535 {
				t.Errorf("%s: %+v", a.Name, r)
			}
			for _, c := range []byte(r.Host) {
				if c <= ' ' && c != ' ' || c > '~' {
					t.Errorf("%s: host %q", a.Name, r.Host)
				}
			}
		}
	})
}
