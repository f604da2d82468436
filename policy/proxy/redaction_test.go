package proxy

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// mirror answers with the credential that was injected, in the form that the
// path asks for.
func mirror() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		text := "before " + v + " after"
		switch strings.TrimPrefix(r.URL.Path, "/") {
		case "raw":
			_, _ = io.WriteString(w, text)
		case "base64":
			_, _ = io.WriteString(w, base64.StdEncoding.EncodeToString([]byte("x"+text)))
		case "hex":
			_, _ = io.WriteString(w, hex.EncodeToString([]byte(text)))
		case "percent":
			for _, c := range []byte(v) {
				fmt.Fprintf(w, "%%%02X", c)
			}
		case "chunks":
			for _, c := range []byte(text) {
				_, _ = w.Write([]byte{c})
				w.(http.Flusher).Flush()
			}
		case "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		case "br":
			w.Header().Set("Content-Encoding", "br")
			z := brotli.NewWriter(w)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		case "zstd":
			w.Header().Set("Content-Encoding", "zstd")
			z, _ := zstd.NewWriter(w)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		case "deflate":
			w.Header().Set("Content-Encoding", "deflate")
			z := zlib.NewWriter(w)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		case "twice":
			w.Header().Set("Content-Encoding", "gzip, br")
			b := brotli.NewWriter(w)
			z := gzip.NewWriter(b)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
			_ = b.Close()
		case "unknown":
			w.Header().Set("Content-Encoding", "compress")
			_, _ = io.WriteString(w, text)
		case "header":
			w.Header().Set("X-Echo", v)
			w.Header().Set("X-"+v, "name")
		case "trailer":
			w.Header().Set("Trailer", "X-Echo")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Echo", v)
		case "error":
			http.Error(w, "bad token "+v, http.StatusTeapot)
		case "location":
			http.Redirect(w, r, "https://other.example/?t="+v, http.StatusFound)
		case "range":
			w.Header().Set("Accept-Ranges", "bytes")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		case "partial":
			w.Header().Set("Content-Range", "bytes 0-9/100")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, text[:20])
		case "large":
			_, _ = w.Write(bytes.Repeat([]byte("a"), 4<<20-20))
			_, _ = io.WriteString(w, v)
			_, _ = w.Write(bytes.Repeat([]byte("b"), 1<<20))
		}
	})
}

func TestEchoedCredentialIsMasked(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		w := newWorld(t)
		w.host("token.example", otherIP, mirror())
		p := w.proxy(basicPolicy, withToken)
		c := p.client(h2)
		for _, form := range []string{"raw", "base64", "hex", "percent", "chunks", "gzip", "br", "zstd", "deflate", "twice", "header", "trailer", "error", "location", "range", "large"} {
			t.Run(fmt.Sprintf("%s h2=%v", form, h2), func(t *testing.T) {
				req, _ := http.NewRequest("GET", "https://token.example/"+form, nil)
				req.Header.Set("Accept-Encoding", "gzip, br, zstd, deflate, compress")
				req.Header.Set("Range", "bytes=10-30")
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				var all bytes.Buffer
				_ = resp.Header.Write(&all)
				_ = resp.Trailer.Write(&all)
				all.Write(body)
				for _, leak := range []string{testValue, testValue[:12], hex.EncodeToString([]byte(testValue))[:20], base64.StdEncoding.EncodeToString([]byte("xbefore " + testValue))[16:40]} {
					if strings.Contains(strings.ToLower(all.String()), strings.ToLower(leak)) {
						t.Errorf("%q is left in %.300q", leak, all.String())
					}
				}
				if !strings.Contains(all.String(), "********") {
					t.Errorf("nothing was masked: %d %.300q", resp.StatusCode, all.String())
				}
				if form == "large" && len(body) != 5<<20-20+len(testValue) {
					t.Errorf("%d bytes", len(body))
				}
			})
		}
		for form, reason := range map[string]string{"unknown": ReasonEncoding, "partial": ReasonRangeUnasked} {
			if status, got, body := p.get(c, "https://token.example/"+form); status != 502 || got != reason || strings.Contains(body, "wpcanary") {
				t.Errorf("%s: %d %s %s", form, status, got, body)
			}
		}
	}
}

func TestB14RedirectIsAResponse(t *testing.T) {
	w := newWorld(t)
	s := &seen{}
	w.host("token.example", otherIP, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example/steal", http.StatusFound)
	}))
	w.host("evil.example", evilIP, s.handler(echo()))
	p := w.proxy(basicPolicy, withToken)
	c := p.client(false)
	c.CheckRedirect = nil
	if _, err := c.Get("https://token.example/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("second hop: %v", err)
	}
	if s.count() != 0 || w.wasDialled(evilIP) {
		t.Error("the second hop was reached")
	}
}

func TestRefusalsOfTheProxyCannotBeForged(t *testing.T) {
	w := newWorld(t)
	w.host("token.example", otherIP, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(reasonField, "made-up")
	}))
	p := w.proxy(basicPolicy, withToken)
	if _, reason, _ := p.get(p.client(false), "https://token.example/"); reason != "" {
		t.Errorf("reason %q went through", reason)
	}
}
