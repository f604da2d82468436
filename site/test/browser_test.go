//go:build browser

package sitetest

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/site"
)

// config is what check.mjs reads.
type config struct {
	Browser     string            `json:"browser"`
	Sites       map[string]string `json:"sites"`
	Folders     map[string]string `json:"folders"`
	Packet      string            `json:"packet"`
	Unpacked    string            `json:"unpacked"`
	OtherKey    string            `json:"otherKey"`
	Fingerprint string            `json:"fingerprint"`
	Checks      []string          `json:"checks"`
	Screenshots string            `json:"screenshots"`
	Crash       int               `json:"crash"`
}

// outcome is one line of its output.
type outcome struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Done   *int   `json:"done"`
}

func chromium() string {
	if b := os.Getenv("WALLPROOF_BROWSER"); b != "" {
		return b
	}
	return "/usr/bin/chromium"
}

// drive runs check.mjs. Its error says that not every check was made, whatever
// those that were say: a browser that crashes has checked nothing.
func drive(t *testing.T, c config) (map[string]outcome, error) {
	t.Helper()
	in, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "check.mjs")
	cmd.Dir = "browser"
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	results := map[string]outcome{}
	finished := false
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		var o outcome
		if e := json.Unmarshal(s.Bytes(), &o); e != nil {
			return results, fmt.Errorf("line %q: %w", s.Text(), e)
		}
		if o.Done != nil {
			finished = *o.Done == len(c.Checks)
			continue
		}
		results[o.Check] = o
	}
	if err != nil {
		return results, fmt.Errorf("the checks ended early: %w\n%s", err, stderr.String())
	}
	if !finished || len(results) != len(c.Checks) {
		return results, fmt.Errorf("%d of %d checks have a result", len(results), len(c.Checks))
	}
	return results, nil
}

var pageNames = []string{"index", "procurement", "attestation", "fleet", "verify", "history", "missing"}

func tamperIDs(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile("../assets/tampers.js")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range regexp.MustCompile(`\{ id: "([a-z-]+)"`).FindAllSubmatch(b, -1) {
		ids = append(ids, string(m[1]))
	}
	if len(ids) < 20 {
		t.Fatalf("only %d tampers", len(ids))
	}
	return ids
}

// plan lists every check.
func plan(t *testing.T) []string {
	var c []string
	for _, s := range []string{"current", "held", "escaped", "partial", "invalid"} {
		for _, p := range pageNames {
			if s != "current" && !slices.Contains([]string{"index", "procurement", "attestation"}, p) {
				continue
			}
			if s == "invalid" && p == "attestation" {
				continue
			}
			c = append(c, "axe/"+s+"/"+p, "visit/"+s+"/"+p)
		}
	}
	c = append(c, "keyboard/index", "keyboard/procurement", "keyboard/fleet", "keyboard/verify", "keyboard/history", "scheme", "deep", "lazy", "wide", "paint", "size/60000",
		"noscript/current/index", "noscript/current/attestation", "noscript/current/procurement", "noscript/held/index", "noscript/held/attestation", "noscript/held/procurement", "noscript/escaped/index",
		"print/current", "print/held", "filter/fleet", "filter/attestation", "fresh/index", "fresh/attestation", "fresh/procurement", "stale/rows")
	for _, p := range []string{"index", "attestation", "procurement"} {
		for _, what := range []string{"expiry", "already", "image-drift", "policy-drift", "fabric-drift", "critical-escape", "page-outdated"} {
			c = append(c, "stale/"+what+"/"+p)
		}
	}
	for _, what := range []string{"unchanged", "held", "torn", "missing", "old"} {
		c = append(c, "stale/list/"+what)
	}
	for _, p := range []string{"index", "attestation", "procurement"} {
		for _, what := range []string{"clock-behind", "asleep", "kept", "printed", "focused"} {
			c = append(c, "stale/"+what+"/"+p)
		}
	}
	c = append(c, "stale/list-live", "stale/found", "stale/no-script-file")
	for _, what := range []string{"status-forbidden", "status-garbage", "status-bare", "status-missing", "live-missing", "status-other", "live-other", "unreachable", "host-clock", "partial", "lag", "old-status", "old-live", "isolation",
		"status-huge", "status-odd", "status-elsewhere", "live-fabric", "live-image", "live-odd", "set-back"} {
		c = append(c, "stale/"+what+"/index")
	}
	c = append(c, "signer/current/index", "signer/current/attestation", "signer/held/index")
	for _, p := range pageNames {
		c = append(c, "axe/demo/"+p, "visit/demo/"+p)
	}
	c = append(c, "wasm/demo", "wasm/own", "wasm/exchanged", "wasm/folder-page", "wasm/archive", "wasm/folder", "wasm/dropped", "wasm/stranger", "wasm/nothing", "wasm/bundle", "wasm/bundle-other", "wasm/bundle-alone")
	for _, id := range tamperIDs(t) {
		c = append(c, "wasm/tamper/"+id)
	}
	return c
}

// pictures lists the screenshots.
func pictures() []string {
	var c []string
	for _, scheme := range []string{"light", "dark"} {
		for _, w := range []string{"320", "1280", "3840"} {
			for _, p := range pageNames {
				c = append(c, "picture/current/"+p+"/"+w+"/"+scheme)
			}
			c = append(c, "picture/held/index/"+w+"/"+scheme, "picture/escaped/index/"+w+"/"+scheme, "picture/partial/index/"+w+"/"+scheme)
		}
	}
	return c
}

func TestBrowser(t *testing.T) {
	c := config{Browser: chromium(), Sites: map[string]string{}, Folders: map[string]string{}, Checks: plan(t), Screenshots: os.Getenv("WALLPROOF_SCREENSHOTS")}
	if c.Screenshots != "" {
		c.Checks = append(c.Checks, pictures()...)
	}
	if only := os.Getenv("WALLPROOF_CHECKS"); only != "" {
		wanted, err := regexp.Compile(only)
		if err != nil {
			t.Fatal(err)
		}
		c.Checks = slices.DeleteFunc(c.Checks, func(name string) bool { return !wanted.MatchString(name) })
		if len(c.Checks) == 0 {
			t.Fatalf("WALLPROOF_CHECKS=%s leaves no check", only)
		}
	}
	f := newFixtures(t, t.TempDir())
	current := f.current("current")
	all := map[string]fixture{
		"current": current, "held": f.held("held"), "escaped": f.escaped("escaped"), "partial": f.partial("partial"), "invalid": f.invalid("invalid"), "live": f.live("live"), "fleet": f.fleet("fleet"),
	}
	for name, x := range all {
		c.Sites[name], c.Folders[name] = serve(t, x.dir)
	}
	c.Sites["demo"], c.Folders["demo"] = serve(t, demo(t))
	c.Packet = archiveOf(current)
	c.Fingerprint = fingerprint(t, f.key.Public())
	c.Unpacked = current.packet.WriteDir(t, t.TempDir())
	c.OtherKey = otherKey(t)
	results, err := drive(t, c)
	if err != nil {
		t.Error(err)
	}
	for _, name := range c.Checks {
		t.Run(name, func(t *testing.T) {
			r, ok := results[name]
			switch {
			case !ok:
				t.Error("was not checked")
			case !r.OK:
				t.Error(r.Detail)
			case r.Detail != "":
				t.Log(r.Detail)
			}
		})
	}
}

// serve serves a folder as `wallproof site --serve` does.
func serve(t *testing.T, dir string) (url, folder string) {
	s := httptest.NewServer(site.Handler(dir))
	t.Cleanup(s.Close)
	return s.URL + "/", dir
}

// demo is the site of a real run, which `wallproof demo` made before.
func demo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(os.Getenv("WALLPROOF_DEMO"), "site")
	if err := site.Built(dir); err != nil || os.Getenv("WALLPROOF_DEMO") == "" {
		t.Fatalf("WALLPROOF_DEMO must name the folder that `wallproof demo --out` made (make test-site does that): %v", err)
	}
	return dir
}

// fingerprint is how a page names a key.
func fingerprint(t *testing.T, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(der))
}

// TestCrash is case E24: a browser that does not start, or that crashes on the
// way, fails the gate; it never passes as skipped.
func TestCrash(t *testing.T) {
	f := newFixtures(t, t.TempDir())
	x := f.held("held")
	s := httptest.NewServer(site.Handler(x.dir))
	defer s.Close()
	c := config{Browser: chromium(), Sites: map[string]string{"held": s.URL + "/"}, Folders: map[string]string{"held": x.dir}, Checks: []string{"axe/held/index", "visit/held/index", "noscript/held/index"}}
	results, err := drive(t, c)
	if err != nil || len(results) != 3 || !results["axe/held/index"].OK {
		t.Fatalf("intact: %v, %v", results, err)
	}
	c.Crash = 1
	results, err = drive(t, c)
	if err == nil && allOK(results, c.Checks) {
		t.Error("a browser that crashed passes")
	}
	c.Crash, c.Browser = 0, "/bin/false"
	if results, err := drive(t, c); err == nil || len(results) != 0 {
		t.Errorf("a browser that does not start passes: %v, %v", results, err)
	}
	c.Browser, c.Checks = chromium(), []string{"noscript/held/index", "unknown/check"}
	if results, err := drive(t, c); err == nil && allOK(results, c.Checks) {
		t.Error("a check that does not exist passes")
	}
}

func allOK(results map[string]outcome, checks []string) bool {
	for _, c := range checks {
		if !results[c].OK {
			return false
		}
	}
	return true
}

// archiveOf is the packet that a site offers of its primary attestation.
func archiveOf(x fixture) string {
	return filepath.Join(x.dir, strings.TrimSuffix(x.result.Primary.Page, ".html")+".tar")
}

func otherKey(t *testing.T) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := keyfile.MarshalPublicKey(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestArchive: the packet that the site offers is the packet.
func TestArchive(t *testing.T) {
	f := newFixtures(t, t.TempDir())
	x := f.held("held")
	b, err := os.Open(archiveOf(x))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	files, err := packet.ReadArchive(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(x.packet.Files) {
		t.Errorf("%d files, want %d", len(files), len(x.packet.Files))
	}
	for name, content := range x.packet.Files {
		if !bytes.Equal(files[name], content) {
			t.Errorf("%s differs", name)
		}
	}
}
