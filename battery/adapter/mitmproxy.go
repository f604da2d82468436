package adapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// mitmproxy reads the lines of examples/stacks/mitmproxy/wallproof_log.py, an
// addon that writes one JSON object a request; mitmproxy itself writes no log with
// times.
var mitmproxy = Adapter{Name: "mitmproxy", Line: mitmLine,
	Format: "the lines of the addon wallproof_log.py (examples/stacks/mitmproxy), which is loaded after all others"}

// mitmFlow is one line of the addon's.
type mitmFlow struct {
	Time   float64 `json:"time"` // seconds since 1970
	Client []any   `json:"client"`
	Method string  `json:"method"`
	URL    string  `json:"url"`
	Status int     `json:"status"` // 0 without a response
	Own    bool    `json:"own"`    // mitmproxy or one of its addons answered, and no server was asked
	Error  string  `json:"error"`  // "", "killed" or "failed"
	Server []any   `json:"server"` // null if none was dialled
}

func mitmLine(line []byte) (Record, bool, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var f mitmFlow
	if err := dec.Decode(&f); err != nil {
		return Record{}, false, fmt.Errorf("not a line of wallproof_log.py: %w", err)
	}
	if !(f.Time > 0 && f.Time < 1<<40) {
		return Record{}, false, fmt.Errorf("time %v is none", f.Time)
	}
	sec, frac := math.Modf(f.Time)
	r := Record{Time: time.Unix(int64(sec), int64(frac*1e9)), Status: f.Status}
	var err error
	if r.Client, err = mitmAddr(f.Client); err != nil {
		return Record{}, false, fmt.Errorf("client: %w", err)
	}
	if f.Server != nil {
		dialled, err := mitmAddr(f.Server)
		if err != nil {
			return Record{}, false, fmt.Errorf("server: %w", err)
		}
		r.Dialled = dialled.String()
	}
	r.setURL(f.Method, f.URL)
	switch {
	case f.Error == "killed":
		r.Verdict, r.Reason = Denied, "mitmproxy:killed"
	case f.Error != "", f.Status >= 502 && f.Status <= 504:
		r.Verdict, r.Reason = Failed, "mitmproxy:failed"
	case f.Own && f.Status >= 400:
		r.Verdict, r.Reason = Denied, "mitmproxy:"+strconv.Itoa(f.Status)
	default:
		r.Verdict, r.Reason = Allowed, "mitmproxy:passed"
	}
	return r, true, nil
}

// mitmAddr reads [address, port, …].
func mitmAddr(v []any) (netip.AddrPort, error) {
	if len(v) < 2 {
		return netip.AddrPort{}, fmt.Errorf("%v is no address and port", v)
	}
	addr, ok := v[0].(string)
	port, isNumber := v[1].(float64)
	if !ok || !isNumber {
		return netip.AddrPort{}, fmt.Errorf("%.100v is no address and port", v)
	}
	ap, err := netip.ParseAddrPort(net.JoinHostPort(addr, strconv.Itoa(int(port))))
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), err
}
