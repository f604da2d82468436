package policy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestPinVerifier(t *testing.T) {
	body := []byte("artefact")
	s256, s384, s512 := sha256.Sum256(body), sha512.Sum384(body), sha512.Sum512(body)
	for _, digest := range []string{
		"sha256:" + hex.EncodeToString(s256[:]), "sha384:" + hex.EncodeToString(s384[:]), "sha512:" + hex.EncodeToString(s512[:]),
	} {
		p := &Pin{Digests: []string{digest}}
		v := p.Verifier()
		for _, b := range body { // in pieces
			if n, err := v.Write([]byte{b}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if !v.Verified() {
			t.Errorf("%s is not verified", digest)
		}
		if _, err := v.Write([]byte("x")); err != nil || v.Verified() {
			t.Errorf("%s and one byte more is verified", digest)
		}
	}
}

func TestPinGoModule(t *testing.T) {
	files := map[string]string{"m@v1.0.0/go.mod": "module m\n", "m@v1.0.0/a.go": "package m\n"}
	var data bytes.Buffer
	z := zip.NewWriter(&data)
	want := sha256.New()
	for _, name := range []string{"m@v1.0.0/a.go", "m@v1.0.0/go.mod"} {
		fmt.Fprintf(want, "%x  %s\n", sha256.Sum256([]byte(files[name])), name)
	}
	for name, text := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	p := &Pin{Digests: []string{"h1:" + base64.StdEncoding.EncodeToString(want.Sum(nil))}}
	check := func(b []byte) bool {
		v := p.Verifier()
		_, _ = v.Write(b)
		return v.Verified()
	}
	if !check(data.Bytes()) {
		t.Error("the module is not verified")
	}
	if check(data.Bytes()[:data.Len()-1]) || check(nil) || check([]byte("not a zip")) {
		t.Error("what is not the module is verified")
	}
}

func TestPinCovers(t *testing.T) {
	p := &Pin{Artefacts: []string{".tgz", "/download"}}
	for path, want := range map[string]bool{
		"/a/-/a-1.tgz": true, "/a/-/a-1.tgz?x": true, "/a/-/a-1.t%67z": true, "/a": false, "/api/v1/crates/a/1/download": true,
		"/a/..;/b": true, // what cannot be read is held to the pin
	} {
		if got := p.Covers(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	if !(&Pin{}).Covers("/") {
		t.Error("a pin without artefacts does not cover everything")
	}
}

func TestLockfiles(t *testing.T) {
	hex64 := strings.Repeat("ab", 32)
	sri := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xab}, 64))
	h1 := "h1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))
	mod := "h1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, 32))
	for _, c := range []struct{ name, data, want string }{
		{"a/package-lock.json", `{"integrity": "sha512-` + sri + `"}`, "sha512:" + strings.Repeat("ab", 64)},
		{"yarn.lock", "left-pad@1:\n  integrity sha512-" + sri + "\n", "sha512:" + strings.Repeat("ab", 64)},
		{"pnpm-lock.yaml", "resolution: {integrity: sha512-" + sri + "}\n", "sha512:" + strings.Repeat("ab", 64)},
		{"requirements.txt", "six==1 --hash=sha256:" + hex64 + " --hash=md5:00\n", "sha256:" + hex64},
		{"poetry.lock", `files = [{file = "a.whl", hash = "sha256:` + hex64 + `"}]`, "sha256:" + hex64},
		{"Cargo.lock", "[[package]]\nname = \"a\"\nchecksum = \"" + hex64 + "\"\n", "sha256:" + hex64},
		{"go.sum", "m v1.0.0 " + h1 + "\nm v1.0.0/go.mod " + mod + "\n", h1},
		{"SHA256SUMS", hex64 + "  a.deb\n" + hex64 + " *a.deb\n", "sha256:" + hex64},
	} {
		got, err := lockfileDigests(c.name, []byte(c.data))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v; want %s", c.name, got, err, c.want)
		}
	}
	for name, data := range map[string]string{
		"package-lock.json": `{"integrity": "sha1-AAAA"}`, "SHA256SUMS": "", "unknown.lock": "x", "yarn.lock": "integrity sha512-AAAA",
	} {
		if got, err := lockfileDigests(name, []byte(data)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	p := mustParse(t, "mode: allowlist\npacks: [{name: npm, pin: {lockfile: gone.json}}]\n")
	if err := p.LoadLockfiles(func(string) ([]byte, error) { return nil, errors.New("no such file") }); err == nil || !strings.Contains(err.Error(), "test.yaml:3:26: pin: the lockfile cannot be read: no such file") {
		t.Errorf("%v", err)
	}
	if _, err := p.Digest(); err == nil {
		t.Error("a policy whose lockfile is not loaded has a hash")
	}
}
