package attest_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/testing/ca"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

const signingConfig = `{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json",
 "caUrls":[{"url":"https://fulcio.example.org","majorApiVersion":1,"operator":"o","validFor":{"start":"2026-01-01T00:00:00Z"}}],
 "rekorTlogUrls":[
  {"url":"https://old.example.org","majorApiVersion":1,"operator":"o","validFor":{"start":"2020-01-01T00:00:00Z"}},
  {"url":"https://log.example.org","majorApiVersion":2,"operator":"o","validFor":{"start":"2026-01-01T00:00:00Z"}}],
 "tsaUrls":[{"url":"https://tsa.example.org/api/v1/timestamp","majorApiVersion":1,"operator":"o","validFor":{"start":"2026-01-01T00:00:00Z"}}],
 "rekorTlogConfig":{"selector":"ANY"},"tsaConfig":{"selector":"ANY"}}`

func TestParseSigningConfig(t *testing.T) {
	at := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	s, err := attest.ParseSigningConfig([]byte(signingConfig), at, true)
	if err != nil {
		t.Fatal(err)
	}
	if s.Fulcio != "https://fulcio.example.org" || len(s.Rekor) != 1 || s.Rekor[0] != (attest.RekorLog{URL: "https://log.example.org", Version: 2}) || len(s.Timestamps) != 1 {
		t.Errorf("services %+v", s)
	}
	if s, err = attest.ParseSigningConfig([]byte(signingConfig), at, false); err != nil || len(s.Rekor) != 0 {
		t.Errorf("without log: %+v, %v", s, err)
	}
	for _, in := range []string{"", "{}", "null", `{"mediaType":"x"}`, strings.Replace(signingConfig, "https://fulcio", "ftp://fulcio", 1),
		strings.Replace(signingConfig, `"caUrls":[`, `"caUrls":[],"caUrls":[`, 1), strings.Replace(signingConfig, "2026-01-01", "2027-01-01", 1)} {
		if _, err := attest.ParseSigningConfig([]byte(in), at, true); !errors.Is(err, attest.ErrSigningConfig) {
			t.Errorf("%.60s: %v", in, err)
		}
	}
}

// tsa answers timestamp requests as a test says: a number of failures first.
func tsaServer(t *testing.T, failures int32, status int, answer func(request []byte) []byte) *httptest.Server {
	t.Helper()
	var n atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) == 0 {
			http.Error(w, "empty request", http.StatusBadRequest)
			return
		}
		if n.Add(1) <= failures {
			if status == 0 {
				panic(http.ErrAbortHandler) // drops the connection
			}
			w.WriteHeader(status)
			return
		}
		w.Header().Set("Content-Type", "application/timestamp-reply")
		w.Write(answer(body))
	}))
	t.Cleanup(srv.Close)
	return srv
}

// A service that fails leaves the packet as it was; one that recovers in time
// does not.
func TestServicesThatFail(t *testing.T) {
	good := func([]byte) []byte { return nil }
	for _, c := range []struct {
		name     string
		failures int32
		status   int
	}{
		{"connections dropped", 100, 0},
		{"busy", 100, http.StatusTooManyRequests},
		{"broken", 100, http.StatusInternalServerError},
		{"refused", 100, http.StatusForbidden},
		{"answers junk after a retry", 1, http.StatusServiceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := tsaServer(t, c.failures, c.status, good)
			p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
			dir := p.WriteDir(t, t.TempDir())
			before := tree(t, dir)
			o := attest.Options{Signer: signer(t, p.Key), Catalogue: few(), Clock: func() time.Time { return packettest.Now },
				Services: attest.Services{Timestamps: []string{srv.URL}}}
			_, err := attest.Attest(context.Background(), dir, o)
			if !errors.Is(err, attest.ErrService) {
				t.Errorf("got %v, want %v", err, attest.ErrService)
			}
			after := tree(t, dir)
			if len(after) != len(before) {
				t.Error("the packet was changed")
			}
		})
	}
}

func TestServicesThatDoNotFit(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keyless, err := attest.NewKeylessSigner(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attest.NewKeylessSigner(""); !errors.Is(err, attest.ErrNoToken) {
		t.Errorf("keyless without token: %v", err)
	}
	for name, c := range map[string]struct {
		s    attest.Signer
		v    attest.Services
		want error
	}{
		"Ed25519 in a Rekor v2 log":          {signer(t, ed), attest.Services{Rekor: []attest.RekorLog{{URL: "https://log.example.org", Version: 2}}}, attest.ErrLogAlgorithm},
		"keyless without authority":          {keyless, attest.Services{}, attest.ErrSigningConfig},
		"keyless in a Rekor v2 log, no time": {keyless, attest.Services{Fulcio: "https://ca.example.org", Rekor: []attest.RekorLog{{URL: "https://log.example.org", Version: 2}}}, attest.ErrLogNeedsTime},
		"a log of an unknown version":        {signer(t, ed), attest.Services{Rekor: []attest.RekorLog{{URL: "https://log.example.org", Version: 3}}}, attest.ErrSigningConfig},
		"an address that is none":            {signer(t, ed), attest.Services{Timestamps: []string{"tsa"}}, attest.ErrSigningConfig},
		"a trusted root that does not parse": {signer(t, ed), attest.Services{TrustedRoot: []byte("{}")}, nil},
		"nobody":                             {nil, attest.Services{}, attest.ErrNoSigner},
	} {
		_, err := attest.SignStatementWith(context.Background(), []byte("{}"), c.s, c.v)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// A timestamp that was asked for is in the bundle and verifies; the authority
// recovers after a failure.
func TestTimestampedKeySignature(t *testing.T) {
	deployment, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	var stamped atomic.Pointer[[]byte]
	srv := tsaServer(t, 1, http.StatusBadGateway, func([]byte) []byte { return *stamped.Load() })
	p := packettest.New(t, packettest.Catalogue(few()), packettest.StartedAt(time.Now().Add(-2*time.Hour)))
	s := recording{Signer: signer(t, p.Key), signed: func(sig []byte) {
		answer, err := deployment.TimestampResponse(sig)
		if err != nil {
			t.Error(err)
		}
		stamped.Store(&answer)
	}}
	bundle, err := attest.SignStatementWith(context.Background(), p.Statement, s, attest.Services{Timestamps: []string{srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	p.Files[packet.AttestationFile] = bundle
	in := p.Input()
	in.TrustedRoot, in.At = trustedRootOf(t, deployment), time.Now().Add(time.Minute)
	in.Require = []verify.Requirement{verify.RequireTimestamp}
	if r := verify.Verify(in); r.Verdict != verify.Valid || !r.Has(verify.CodeTimeTimestamp) {
		t.Errorf("%s: %v", r.Verdict, r.Failed())
	}
}

// A Rekor v2 log that is busy or drops connections is asked again, a bounded
// number of times; one that refuses is not.
func TestRekorV2LogIsAskedAgain(t *testing.T) {
	const drop = 0
	p := packettest.New(t, packettest.Catalogue(few()))
	for _, c := range []struct {
		name    string
		answers []int // the last one is repeated
		calls   int32
		errs    []string // what the error says; none: it is no error of the log's
	}{
		{"busy for long", []int{429}, 4, []string{"429"}},
		{"broken for long", []int{503}, 4, []string{"503"}},
		{"recovers", []int{503, drop, 201}, 3, nil},
		{"refuses", []int{400}, 1, []string{"400"}},
		{"no such log", []int{404}, 1, []string{"404"}},
		{"its answer was lost", []int{drop, 409}, 2, []string{"409", "EOF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				status := c.answers[min(int(calls.Add(1)), len(c.answers))-1]
				if status == drop {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(status)
				_, _ = w.Write([]byte("{}"))
			}))
			defer srv.Close()
			_, err := attest.SignStatementWith(t.Context(), p.Statement, signer(t, p.Key), attest.Services{Rekor: []attest.RekorLog{{URL: srv.URL, Version: 2}}})
			if calls.Load() != c.calls {
				t.Errorf("asked %d times, want %d: %v", calls.Load(), c.calls, err)
			}
			for _, text := range c.errs {
				if err == nil || !errors.Is(err, attest.ErrService) || !strings.Contains(err.Error(), text) {
					t.Errorf("error %v, want one with %s", err, text)
				}
			}
			if len(c.errs) == 0 && err != nil {
				t.Errorf("error %v", err)
			}
		})
	}
}
