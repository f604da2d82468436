package bugreport

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/wallproof/wallproof/probes/canary"
)

func read(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(data)
	}
}

// What is told by its value or by its form does not leave, wherever it stands;
// what is no secret does.
func TestSecretsDoNotLeave(t *testing.T) {
	const value = "correct horse battery staple"
	jwt := "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiJ4In0xxxx.c2lnbmF0dXJl"
	secrets := map[string]string{
		"value":                value,
		"value in base64":      base64.StdEncoding.EncodeToString([]byte(value)),
		"private key":          "MHcCAQEEIBase64OfAPrivateKey",
		"JSON web token":       jwt,
		"GitHub token":         "ghp_" + strings.Repeat("a1B2", 9),
		"GitLab token":         "glpat-" + strings.Repeat("x9", 10),
		"AWS key":              "AKIA" + strings.Repeat("Q7", 8),
		"password in URL":      "hunter2hunter2",
		"authorization header": "abcdefghijklmnop",
	}
	log := strings.Join([]string{
		"value " + secrets["value"], "b64 " + secrets["value in base64"],
		"-----BEGIN EC PRIVATE KEY-----\n" + secrets["private key"] + "\n-----END EC PRIVATE KEY-----",
		"token=" + jwt, secrets["GitHub token"], secrets["GitLab token"], "id " + secrets["AWS key"],
		"https://user:" + secrets["password in URL"] + "@registry.example/path", `{"authorization":"Bearer ` + secrets["authorization header"] + `"}`,
		"kept: registry.example answered 403",
	}, "\n")
	s := Sources{
		About:  About{RunID: "r1"},
		Packet: fstest.MapFS{"manifest.jsonl": {Data: []byte(log)}, "logs/events.jsonl": {Data: []byte(canary.Derive([]byte("seed")))}},
		Logs:   map[string][]byte{"proxy.jsonl": []byte(log)},
		Env:    []string{"MY_API_TOKEN=" + value, "HOME=/root", "SHORT_TOKEN=abc"},
	}
	var b, again bytes.Buffer
	contents, err := Write(&b, s)
	if err != nil {
		t.Fatal(err)
	}
	files := read(t, b.Bytes())
	for name, text := range files {
		for kind, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s: the %s is in clear", name, kind)
			}
		}
	}
	for _, name := range []string{"packet/manifest.jsonl", "logs/proxy.jsonl"} {
		if !strings.Contains(files[name], "kept: registry.example answered 403") || len(files[name]) != len(log) {
			t.Errorf("%s: %q", name, files[name])
		}
	}
	if text, ok := files["packet/logs/events.jsonl"]; !ok || text != "" {
		t.Errorf("a file with a canary: %q", text)
	}
	masked := map[string]int{}
	for _, f := range contents.Files {
		masked[f.Path] = f.Masked
	}
	if masked["packet/manifest.jsonl"] != len(secrets) || masked["about.json"] != 0 {
		t.Errorf("masked %v, want %d in the manifest", masked, len(secrets))
	}
	if _, err := Write(&again, s); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Errorf("another archive of the same input, or %v", err)
	}
}

// A file that is not to be had is an error, and so is one that is too many.
func TestUnreadable(t *testing.T) {
	many := fstest.MapFS{}
	for i := range maxFiles + 1 {
		many[strings.Repeat("d", 1+i%7)+"/"+strings.Repeat("f", 1+i/7)] = &fstest.MapFile{}
	}
	if _, err := Write(io.Discard, Sources{Packet: many}); err == nil {
		t.Error("too many files were taken")
	}
}
