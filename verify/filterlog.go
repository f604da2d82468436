package verify

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

// filterLine is one line of logs/filter.jsonl: the packet filter of one phase
// before the first and after the last byte of untrusted code.
type filterLine struct {
	Phase  string      `json:"phase"`
	Before filterState `json:"before"`
	After  filterState `json:"after"`
	Checks []string    `json:"checks"`
}

type filterState struct {
	Digest     string `json:"digest"`
	Generation int64  `json:"generation"`
}

func (l filterLine) intact() bool { return l.Before == l.After && l.Before.Digest != "" }

// filterLog compares what the entries say of the packet filter with its log.
func (i *inspection) filterLog() {
	if !i.trusted(packet.FilterLogFile) {
		i.fail(CheckObservations, CodeFilterLog, "the packet filter's log is not there, or not the signed one", packet.FilterLogFile)
		return
	}
	data, err := packet.ReadDocument(i.packet, packet.FilterLogFile)
	var logged map[string]filterLine
	if err == nil {
		err = i.changed(packet.FilterLogFile, data)
	}
	if err == nil {
		logged, err = parseFilterLog(data)
	}
	if err != nil {
		i.fail(CheckObservations, CodeFilterLog, err.Error(), packet.FilterLogFile)
		return
	}
	for _, s := range sides {
		line, ok := logged[s.name]
		if !ok {
			i.fail(CheckObservations, CodeFilterLog, "the packet filter's log has no line of the "+s.name, packet.FilterLogFile)
			return
		}
		for n, e := range i.derived.Manifest.Techniques {
			p := s.phase(e)
			if p.FilterIntact != line.intact() {
				i.fail(CheckObservations, CodeFilterLog, fmt.Sprintf("%s: whether the filter of the %s stayed as it was is %t here and %t in its log", nameOf(e), s.name, p.FilterIntact, line.intact()), entryAt(n))
				return
			}
		}
	}
}

// parseFilterLog reads the log strictly, by phase.
func parseFilterLog(data []byte) (map[string]filterLine, error) {
	if len(data) == 0 || data[len(data)-1] != '\n' {
		return nil, errors.New("the packet filter's log is empty or cut short")
	}
	out := map[string]filterLine{}
	for line := range bytes.SplitSeq(data[:len(data)-1], []byte("\n")) {
		if err := canon.Check(line, canon.Limits{Bytes: packet.MaxObservationBytes}); err != nil {
			return nil, fmt.Errorf("the packet filter's log: %w", err)
		}
		var l filterLine
		if err := canon.UnmarshalExact(line, &l); err != nil {
			return nil, fmt.Errorf("the packet filter's log: %w", err)
		}
		if _, twice := out[l.Phase]; twice || !isPhase(l.Phase) {
			return nil, fmt.Errorf("the packet filter's log: phase %.60q is unknown or logged twice", l.Phase)
		}
		for _, s := range []filterState{l.Before, l.After} {
			if err := predicate.CheckDigest(s.Digest); s.Digest != "" && err != nil {
				return nil, fmt.Errorf("the packet filter's log: %w", err)
			}
		}
		out[l.Phase] = l
	}
	return out, nil
}

func isPhase(name string) bool {
	for _, s := range sides {
		if s.name == name {
			return true
		}
	}
	return false
}
