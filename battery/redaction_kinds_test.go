package battery

import (
	"bytes"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/policy/proxy/redact"
	"github.com/wallproof/wallproof/probes/canary"
)

const planted = "wpcanaryabcdefghijklmnopqrstuvwx234567abcd"

// TestKinds: a value in each encoding is found in each kind of thing, and masked in
// what is written of it.
func TestKinds(t *testing.T) {
	for _, secret := range []string{planted, "sk-live/0123456789+ABCDEF=ghij"} {
		red, err := redact.New([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		got, err := proveKinds(red, secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{packet.KindPrompt, packet.KindCommand, packet.KindToolOutput, packet.KindModelOutput, packet.KindLog, packet.KindObservation, packet.KindCrashDump, packet.KindExport} {
			ok := false
			for _, k := range got {
				ok = ok || k.Kind == want && k.Planted == int64(len(encodings)) && k.Found == k.Planted && k.Left == 0
			}
			if !ok {
				t.Errorf("%q: %s: %+v", secret, want, got)
			}
		}
	}
}

// The proof fails where the scanner is blind to a value, or where what is written
// is not masked.
func TestKindsFire(t *testing.T) {
	blind, err := redact.New([]byte("some other value"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proveKinds(blind, "the value that nobody looks for"); err == nil {
		t.Error("a blind scanner passes")
	}
	defer func(k []kind) { kinds = k }(kinds)
	kinds = []kind{{packet.KindLog, logged, func(_ *redact.Redactor, b []byte) ([]byte, error) { return b, nil }}}
	red, err := redact.New([]byte(planted))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proveKinds(red, planted); err == nil {
		t.Error("what is not masked passes")
	}
}

// A transcript has no secret left in any form, and what masking does not know is
// withheld whole.
func TestTranscriptMasked(t *testing.T) {
	red, err := redact.New([]byte(planted))
	if err != nil {
		t.Fatal(err)
	}
	tr := &transcript{phase: "attack", agent: "obedient"}
	for _, e := range encodings {
		if _, err := tr.Write(said("output")(e.write(planted))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tr.Write([]byte("wallproof-agent: " + planted + " broke off")); err != nil { // no JSON
		t.Fatal(err)
	}
	lines := tr.lines(red)
	if len(lines) != len(encodings)+1 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if hits(red, []byte(l.Text)) > 0 {
			t.Errorf("left in %q", l.Text)
		}
	}
	if _, err := tr.Write(bytes.Repeat([]byte("x"), maxTranscript)); err != nil {
		t.Fatal(err)
	}
	if lines := tr.lines(red); lines[len(lines)-1].Role != "cut" || len(tr.data) > maxTranscript {
		t.Errorf("a transcript beyond its bound ends with %+v", lines[len(lines)-1].Role)
	}
}

// A key of several lines among the secrets does not spoil the proof.
func TestOneWord(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\n" + planted + "\n-----END PRIVATE KEY-----\n"
	if got := oneWord([]string{"operator key", pem, planted, pem}); got != planted {
		t.Errorf("picked %q", got)
	}
	value := canary.Derive([]byte("s"))
	if got := oneWord([]string{"operator", pem, value, planted}); got != value {
		t.Errorf("picked %q before a canary", got)
	}
}
