package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/internal/canon"
)

// proxyEvent is what is read of a line of logs/proxy.jsonl.
type proxyEvent struct {
	Type    string `json:"type,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	Host    string `json:"host,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// eventDecision is the type of a line about a request that was decided.
const eventDecision = "decision"

// denied names denials of one kind.
type denied struct{ host, reason string }

// proxyLog holds the denials that outcomes rest on against the proxy's own log:
// none may have been observed that the proxy did not log.
func (i *inspection) proxyLog() {
	claimed := map[denied]int64{}
	at := map[denied]string{}
	for n, e := range i.derived.Manifest.Techniques {
		for _, o := range e.Attack.Observations {
			if o.Side == manifest.SideProxy && o.Verdict == judge.VerdictDeny {
				k := denied{o.Host, o.Rule}
				claimed[k] += max(o.Count, 1)
				if at[k] == "" {
					at[k] = entryAt(n)
				}
			}
		}
	}
	logged, err := i.loggedDenials()
	if err != nil {
		i.fail(CheckObservations, CodeProxyLog, err.Error(), packet.ProxyLogFile)
		return
	}
	differ := 0
	for k, n := range claimed {
		if logged[k] >= n {
			continue
		}
		if differ++; differ <= maxListed {
			i.fail(CheckObservations, CodeProxyLog, fmt.Sprintf("%d denials of %.100q (%.60s) by the proxy are in the entries, its log has %d", n, k.host, k.reason, logged[k]), at[k])
		}
	}
}

// loggedDenials counts the denials of the proxy's log. A packet without one has
// none.
func (i *inspection) loggedDenials() (map[denied]int64, error) {
	out := map[denied]int64{}
	if !i.trusted(packet.ProxyLogFile) {
		return out, nil
	}
	f, err := packet.Open(i.packet, packet.ProxyLogFile)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the proxy's log: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, packet.MaxLogBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the proxy's log: %w", err)
	}
	if len(data) > packet.MaxLogBytes {
		return nil, fmt.Errorf("the proxy's log has more than %d bytes", packet.MaxLogBytes)
	}
	if err := i.changed(packet.ProxyLogFile, data); err != nil {
		return nil, err
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return nil, errors.New("the proxy's log is cut short")
	}
	for line := range bytes.Lines(data) {
		var e proxyEvent
		line = bytes.TrimSuffix(line, []byte("\n"))
		if err := canon.Check(line, canon.Limits{Bytes: packet.MaxObservationBytes}); err != nil {
			return nil, fmt.Errorf("the proxy's log: %w", err)
		}
		if !bytes.Contains(line, []byte(`"verdict":"`+judge.VerdictDeny+`"`)) {
			continue
		}
		if _, err := canon.UnmarshalOpen(line, canon.Limits{Bytes: packet.MaxObservationBytes}, &e); err != nil {
			return nil, fmt.Errorf("the proxy's log: %w", err)
		}
		if e.Type == eventDecision && e.Verdict == judge.VerdictDeny {
			out[denied{e.Host, e.Reason}]++
		}
	}
	return out, nil
}
