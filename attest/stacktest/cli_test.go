//go:build stack

package stacktest

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packettest"
)

// cli is the command line, built for the test, in a folder of its own.
type cli struct {
	t        *testing.T
	bin, dir string
	env      []string
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	dir := t.TempDir()
	c := &cli{t: t, bin: filepath.Join(dir, "wallproof"), dir: dir}
	if out, err := exec.Command("go", "build", "-o", c.bin, "github.com/wallproof/wallproof/cmd/wallproof").CombinedOutput(); err != nil {
		t.Fatalf("build the command line: %v\n%s", err, out)
	}
	return c
}

func (c *cli) file(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// exits runs a command line that must end with an exit code and print each text.
func (c *cli) exits(code int, args []string, texts ...string) {
	c.t.Helper()
	cmd := exec.Command(c.bin, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), c.env...)
	out, err := cmd.CombinedOutput()
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		c.t.Fatal(err)
	}
	if got != code {
		c.t.Fatalf("wallproof %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			c.t.Errorf("wallproof %s: %q is not in\n%s", strings.Join(args, " "), text, out)
		}
	}
}

// refuses demands that a packet cannot be signed with the deployment as it is,
// that this is said, and that nothing changes.
func (c *cli) refuses(t *testing.T, how string) {
	t.Helper()
	before := tree(t, filepath.Join(c.dir, "packet"))
	c.exits(1, words("attest packet --trusted-root root.json --signing-config signing.json "+how), "a signing service failed; nothing was written")
	if !maps.Equal(before, tree(t, filepath.Join(c.dir, "packet"))) {
		t.Error("the packet was changed")
	}
}

func words(s string) []string { return strings.Fields(s) }

// wholePacket is an unsigned packet of the whole catalogue, as a folder.
func (c *cli) wholePacket(name string) {
	c.t.Helper()
	p := packettest.New(c.t, packettest.Unsigned(), packettest.StartedAt(time.Now().Add(-time.Minute)), packettest.WithoutRedTeam())
	if err := os.Rename(p.WriteDir(c.t, c.t.TempDir()), filepath.Join(c.dir, name)); err != nil {
		c.t.Fatal(err)
	}
}

// testCLI signs keyless and with a key, with all services and without a log, by
// the command line, and verifies the result; what a service refuses leaves the
// packet as it was.
func testCLI(t *testing.T) {
	s := sharedStack(t)
	c := newCLI(t)
	c.file("root.json", string(s.Root))
	c.file("signing.json", string(s.SigningConfig()))
	c.file("token", s.Token(t, who, nil))
	c.file("verifier-token", s.Token(t, "auditor@example.org", nil))
	c.file("expired", s.Token(t, who, func(m map[string]any) { m["exp"] = time.Now().Add(-time.Hour).Unix() }))
	deployment := words("--trusted-root root.json --signing-config signing.json")
	identity := append(words("--trusted-root root.json --certificate-oidc-issuer "+s.URL+" --certificate-identity"), who)

	c.wholePacket("packet")
	before := tree(t, filepath.Join(c.dir, "packet"))
	c.exits(1, append(words("attest packet --keyless --identity-token expired"), deployment...), "a signing service failed; nothing was written")
	if !maps.Equal(before, tree(t, filepath.Join(c.dir, "packet"))) {
		t.Error("a refused token changed the packet")
	}
	c.exits(0, append(words("attest packet --keyless --identity-token token"), deployment...), "signer       "+who, "issuer       "+s.URL, "log          ", " index ", "timestamp    20")
	c.exits(3, append(words("verify packet"), identity...), "rerun-missing", "by a timestamp authority")
	c.exits(0, append(append(words("verify packet --sign keyless --identity-token verifier-token --signing-config signing.json"), identity...), words("--verifier-identity auditor@example.org --verifier-oidc-issuer "+s.URL)...), "signed re-run written")
	c.exits(0, append(append(words("verify packet --require transparency,timestamp,independent-verifier"), identity...), words("--verifier-identity auditor@example.org --verifier-oidc-issuer "+s.URL)...), "VALID")
	c.exits(2, append(words("verify packet --trusted-root root.json --certificate-identity .*@example.org --certificate-oidc-issuer"), s.URL), "identity-mismatch")
	c.exits(2, append(words("verify packet --certificate-identity ci@example.org --certificate-oidc-issuer"), s.URL))

	// The ambient token of a CI system.
	c.wholePacket("ambient")
	c.env = []string{"SIGSTORE_ID_TOKEN=" + s.Token(t, who, nil)}
	c.exits(0, append(words("attest ambient --keyless"), deployment...), "signer       "+who)
	c.env = nil

	// Without a log, which a verifier must accept by name.
	c.wholePacket("quiet")
	c.exits(0, append(words("attest quiet --keyless --no-tlog --identity-token token"), deployment...), "timestamp    20")
	c.exits(2, append(words("verify quiet"), identity...), "transparency")
	c.exits(3, append(words("verify quiet --without-log"), identity...), "rerun-missing")

	// A key, timestamped and logged; and neither.
	c.exits(0, words("attest --generate-key k"))
	c.wholePacket("key")
	c.exits(0, append(words("attest key --key k.key"), deployment...), "key          sha256:", "log          ", "timestamp    20")
	c.exits(3, words("verify key --key k.pub --trusted-root root.json --require transparency,timestamp"), "rerun-missing")
	c.wholePacket("bare")
	c.exits(0, words("attest bare --key k.key"))
	c.exits(3, words("verify bare --key k.pub"), "rerun-missing")
}
