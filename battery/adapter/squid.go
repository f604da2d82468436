package adapter

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// squid reads squid's access log in its native format, which has no client port,
// or in that format with one, which ties refusals to attempts far better:
//
//	logformat wallproof %ts.%03tu %6tr [%>a]:%>p %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt
var squid = Adapter{Name: "squid", Line: squidLine,
	Format: "its native access log, best with the client's port: logformat wallproof %ts.%03tu %6tr [%>a]:%>p %Ss/%03>Hs %<st %rm %ru %[un %Sh/%<a %mt"}

func squidLine(line []byte) (Record, bool, error) {
	f := strings.Fields(string(line))
	if len(f) < 9 {
		return Record{}, false, fmt.Errorf("%d fields, not at least 9", len(f))
	}
	ended, err := squidTime(f[0])
	if err != nil {
		return Record{}, false, err
	}
	elapsed, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || elapsed < 0 {
		return Record{}, false, errors.New("the second field is no duration in milliseconds")
	}
	r := Record{Time: ended.Add(-time.Duration(elapsed) * time.Millisecond)}
	if r.Client, err = squidClient(f[2]); err != nil {
		return Record{}, false, err
	}
	code, status, ok := strings.Cut(f[3], "/")
	if r.Status, err = strconv.Atoi(status); !ok || err != nil || plainWord(code) == "" {
		return Record{}, false, errors.New("the fourth field is no result code with a status")
	}
	if r.Status == 0 && strings.HasPrefix(code, "NONE") {
		return Record{}, false, nil // a connection without a request
	}
	r.setURL(f[5], f[6])
	if _, peer, ok := strings.Cut(f[8], "/"); ok && peer != "-" {
		if a, err := netip.ParseAddr(peer); err == nil {
			r.Dialled = a.String()
		}
	}
	r.Verdict, r.Reason = squidVerdict(code, r), "squid:"+code
	return r, true, nil
}

// squidVerdict tells a refusal from a failure. Squid refuses with DENIED whatever
// its access rules refuse, and with NONE and a status of 4xx what it could not
// parse; 502 to 504 are what it says when the far side is not to be had.
func squidVerdict(code string, r Record) Verdict {
	switch {
	case strings.Contains(code, "DENIED"):
		return Denied
	case r.Status >= 502 && r.Status <= 504:
		return Failed
	case strings.HasPrefix(code, "NONE") && r.Status >= 400 && r.Status < 500 && r.Dialled == "":
		return Denied
	}
	return Allowed
}

// squidTime reads seconds since 1970 with milliseconds.
func squidTime(s string) (time.Time, error) {
	sec, ms, ok := strings.Cut(s, ".")
	a, err := strconv.ParseInt(sec, 10, 64)
	b, errMs := strconv.ParseInt(ms, 10, 64)
	if !ok || len(ms) != 3 || err != nil || errMs != nil || a < 0 || b < 0 {
		return time.Time{}, errors.New("the first field is no time in seconds with milliseconds")
	}
	return time.UnixMilli(a*1000 + b), nil
}

// squidClient reads "ADDRESS" or "[ADDRESS]:PORT".
func squidClient(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a.Unmap(), 0), nil
	}
	addr, port, ok := strings.Cut(strings.TrimPrefix(s, "["), "]:")
	a, err := netip.ParseAddr(addr)
	p, errPort := strconv.ParseUint(port, 10, 16)
	if !ok || err != nil || errPort != nil {
		return netip.AddrPort{}, errors.New("the third field is no client address")
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(p)), nil
}
