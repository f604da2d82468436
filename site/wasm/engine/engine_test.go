package engine

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

func ask(t *testing.T, files packet.Memory, o Options) Answer {
	t.Helper()
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var a Answer
	if err := json.Unmarshal(Verify(files, options), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestVerify(t *testing.T) {
	p := packettest.New(t)
	key, at := string(p.PublicKeyPEM(t)), p.Now.Format(time.RFC3339)
	var archive bytes.Buffer
	if err := packet.WriteArchive(&archive, p.Files); err != nil {
		t.Fatal(err)
	}
	files, err := Unpack(archive.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if a := ask(t, files, Options{Key: key, At: at}); a.Report == nil || a.Report.Verdict != verify.Valid {
		t.Errorf("%+v", a)
	}
	if a := ask(t, files, Options{Key: key, At: at, Policy: packettest.OtherDigest}); a.Report == nil || !a.Report.Has(verify.CodePolicyDrift) {
		t.Errorf("another policy: %+v", a)
	}
	if a := ask(t, files, Options{Key: key, At: at, Image: packettest.OtherDigest}); a.Report == nil || a.Report.Verdict != verify.Invalid {
		t.Errorf("another image: %+v", a)
	}
	if a := ask(t, files, Options{Key: key, At: at, Require: []string{string(verify.RequireIndependent)}}); a.Report == nil || a.Report.Verdict != verify.VerdictHeld {
		t.Errorf("a required independent verifier: %+v", a)
	}
	if a := ask(t, files, Options{Identity: "a@example.org", Issuer: "https://example.org", At: at}); a.Report == nil || a.Report.Verdict != verify.Invalid {
		t.Errorf("an identity for a key: %+v", a)
	}
}

func TestOptionsRefused(t *testing.T) {
	p := packettest.New(t)
	key, at := string(p.PublicKeyPEM(t)), p.Now.Format(time.RFC3339)
	for name, o := range map[string]Options{
		"nobody trusted":    {At: at},
		"key and identity":  {Key: key, Identity: "a", Issuer: "b", At: at},
		"no issuer":         {Identity: "a", At: at},
		"no moment":         {Key: key},
		"not a key":         {Key: "hello", At: at},
		"two keys":          {Key: key + key, At: at},
		"private key":       {Key: strings.ReplaceAll(key, "PUBLIC", "PRIVATE"), At: at},
		"broken key":        {Key: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", At: at},
		"bad key of re-run": {Key: key, Verifier: "x", At: at},
	} {
		if a := ask(t, p.Files, o); a.Error == "" || a.Report != nil {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for _, text := range []string{"", "null x", `{"unknown":1}`, `[]`} {
		var a Answer
		if err := json.Unmarshal(Verify(p.Files, []byte(text)), &a); err != nil || a.Error == "" {
			t.Errorf("options %q: %+v, %v", text, a, err)
		}
	}
	if _, err := Unpack([]byte("not an archive, and long enough to be looked at")); err == nil {
		t.Error("anything is an archive")
	}
}
