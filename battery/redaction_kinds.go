package battery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// A kind is something that a secret could stand in on its way out. plant makes one
// with a value in it, as it comes; leave is what the run would make of it.
type kind struct {
	name  string
	plant func(value string) []byte
	leave func(red *redact.Redactor, planted []byte) ([]byte, error) // nil: nothing of the kind is written
}

// kinds are all of them: what agents are asked, read, run and say, logs of the
// proxy and of both sides, a process's memory, and the packet as one file.
var kinds = []kind{
	{packet.KindPrompt, said("user"), transcribed},
	{packet.KindToolOutput, said("output"), transcribed},
	{packet.KindCommand, said("command"), transcribed},
	{packet.KindModelOutput, said("model"), transcribed},
	{packet.KindLog, logged, relogged},
	{packet.KindObservation, observed, reobserved},
	{packet.KindCrashDump, dumped, nil},
	{packet.KindExport, exported, nil},
}

// said is a line of a transcript.
func said(role string) func(string) []byte {
	return func(value string) []byte {
		line, _ := json.Marshal(map[string]string{"technique": "INJ-README", "nonce": "", "role": role, "text": "the token is " + value + ", keep it"})
		return append(line, '\n')
	}
}

func transcribed(red *redact.Redactor, planted []byte) ([]byte, error) {
	t := &transcript{phase: "attack", agent: "obedient", data: planted}
	return canon.Marshal(t.lines(red))
}

// logged is a record of the proxy about a name with the value in it.
func logged(value string) []byte {
	line, _ := json.Marshal(proxy.Event{Host: value + ".example"})
	return line
}

func relogged(red *redact.Redactor, planted []byte) ([]byte, error) {
	var e proxy.Event
	if err := json.Unmarshal(planted, &e); err != nil {
		return nil, err
	}
	e.Host, _ = red.String(e.Host)
	return canon.Marshal(e)
}

// observed is an observation whose words have the value in them.
func observed(value string) []byte {
	line, _ := json.Marshal(manifest.Observation{Side: manifest.SideWitness, Host: value + ".example", Detail: "GET /" + value})
	return line
}

func reobserved(red *redact.Redactor, planted []byte) ([]byte, error) {
	var o manifest.Observation
	if err := json.Unmarshal(planted, &o); err != nil {
		return nil, err
	}
	all := []manifest.Observation{o}
	mask(red, all)
	return canon.Marshal(all)
}

// dumpSize is the size of the control's crash dump: the value lies across the
// border of what is read at once.
const dumpSize = 3 << 20

// dumped is a process's memory with the value in it.
func dumped(value string) []byte {
	dump := make([]byte, dumpSize)
	copy(dump, "\x7fELF\x02\x01\x01")
	copy(dump[1<<20-len(value)/2:], value)
	return dump
}

// exported is the archive of a packet with the value in one of its files.
func exported(value string) []byte {
	var out bytes.Buffer
	empty := []byte("{}\n")
	m := packet.Memory{packet.ManifestFile: empty, packet.PolicyFile: empty, packet.RedactionFile: empty, packet.ControlFile: empty, packet.AttackFile: empty, packet.FilterLogFile: empty, packet.ProxyLogFile: []byte(`{"host":"` + value + `"}` + "\n")}
	if err := packet.WriteArchive(&out, m); err != nil {
		return nil
	}
	return out.Bytes()
}

// proveKinds plants a value in each kind, in each encoding. The scanner must find
// it there, and must not find it in what the run would have written. A crash dump
// is written to a folder of its own and searched as those of the machine are.
func proveKinds(red *redact.Redactor, secret string) ([]packet.RedactionKind, error) {
	dir, err := os.MkdirTemp("", "wallproof-redaction-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the redaction proof: %w", err)
	}
	defer os.RemoveAll(dir)
	var out []packet.RedactionKind
	for _, k := range kinds {
		p := packet.RedactionKind{Kind: k.name, Written: k.leave != nil}
		for _, e := range encodings {
			planted := k.plant(e.write(secret))
			p.Planted++
			seen, err := finds(red, k.name, dir, bytes.Clone(planted))
			if err != nil {
				return nil, err
			}
			if seen {
				p.Found++
			}
			if k.leave == nil {
				continue
			}
			left, err := k.leave(red, bytes.Clone(planted))
			if err != nil {
				return nil, fmt.Errorf("mask a control of the redaction proof: %w", err)
			}
			p.Left += int64(hits(red, left))
		}
		if p.Found != p.Planted || p.Left > 0 {
			return nil, fmt.Errorf("the redaction proof found %d of %d values planted in a %s, and %d were left after masking", p.Found, p.Planted, strings.ReplaceAll(k.name, "-", " "), p.Left)
		}
		out = append(out, p)
	}
	return out, nil
}

// finds tells whether the scanner of a kind finds a value that was planted. It
// may mask it on the way.
func finds(red *redact.Redactor, kind, dir string, planted []byte) (bool, error) {
	if kind != packet.KindCrashDump {
		return found(red, planted) > 0, nil
	}
	path := filepath.Join(dir, "core.1")
	if err := os.WriteFile(path, planted, 0o600); err != nil {
		return false, storage("write a control of the redaction proof", err)
	}
	none, err := compileValues([]string{"wallproof-no-marker-of-any-kind"})
	if err != nil {
		return false, err
	}
	s := newResidueSearch(red, none, time.Time{})
	r := packet.Residue{Place: packet.ResidueCores}
	s.folder(&r, dir, true)
	return r.Hits > 0, nil
}
