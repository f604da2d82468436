package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/demo"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/verify"
)

// sign makes a key pair and signs the packet with it.
func (d *demonstration) sign(ctx context.Context) error {
	if err := generateKey(d.c.App.Writer, d.path("demo")); err != nil {
		return err
	}
	signer, err := openSigner(ctx, d.path("demo.key"))
	if err != nil {
		return err
	}
	res, err := attest.Attest(ctx, d.path("packet"), attest.Options{Signer: signer, ThreatModel: demo.ThreatModel})
	if err != nil {
		return err
	}
	return printSigned(d.c, res)
}

// self runs one of our own commands, the one that a reader would type, and
// returns its exit code. Without network it gets an empty network namespace.
func (d *demonstration) self(ctx context.Context, network bool, args ...string) (code int, err error) {
	path, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this executable: %w", err)
	}
	d.printf("  %s wallproof %s\n\n", d.style.Paint(term.Dim, "$"), d.style.Paint(term.Dim, strings.Join(args, " ")))
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = d.c.App.Writer, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if !network {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// expect runs a command that must end with a given exit code.
func (d *demonstration) expect(ctx context.Context, network bool, want int, args ...string) error {
	code, err := d.self(ctx, network, args...)
	if err != nil {
		return err
	}
	if code != want {
		return fmt.Errorf("`wallproof %s` ended with exit code %d, and not with %d", strings.Join(args, " "), code, want)
	}
	return nil
}

// verifyOffline verifies from packet and public key alone. All that may be
// missing is the re-run, which comes next.
func (d *demonstration) verifyOffline(ctx context.Context) error {
	if err := d.expect(ctx, false, command.Held, d.verifyArgs()...); err != nil {
		return err
	}
	report, err := d.report()
	if err != nil {
		return err
	}
	for _, c := range report.Failed() {
		if c.Code != verify.CodeRerunMissing {
			return fmt.Errorf("verification: %s: %s", c.Code, c.Message)
		}
	}
	return nil
}

func (d *demonstration) verifyArgs() []string {
	return []string{"verify", d.path("packet"), "--key", d.path("demo.pub"), "--policy", d.path("policy.yaml")}
}

// report is what this process itself finds.
func (d *demonstration) report() (verify.Report, error) {
	root, err := os.OpenRoot(d.path("packet"))
	if err != nil {
		return verify.Report{}, fmt.Errorf("open the packet: %w", err)
	}
	defer root.Close()
	key, err := auditor.ReadKey(d.path("demo.pub"))
	if err != nil {
		return verify.Report{}, err
	}
	return verify.Verify(verify.Input{Packet: root.FS(), Trust: verify.Trust{Key: key}, At: time.Now().UTC()}), nil
}

// rerun signs a verifier's re-run and verifies once more: now nothing is missing.
func (d *demonstration) rerun(ctx context.Context) error {
	if err := d.quietly(ctx, 0, append(d.verifyArgs(), "--sign", d.path("demo.key"))...); err != nil {
		return err
	}
	d.printf("  signed by the attester itself, so it is labelled \"self\": %s\n", d.path("packet", "verification.sigstore.json"))
	if err := d.quietly(ctx, 0, d.verifyArgs()...); err != nil {
		return err
	}
	d.printf("  %s valid and current\n", d.style.Paint(term.Green, "✓"))
	return nil
}

// quietly runs one of our commands without a network and shows its output only
// when it did not end as it should.
func (d *demonstration) quietly(ctx context.Context, want int, args ...string) error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return err
	}
	if code := cmd.ProcessState.ExitCode(); code != want {
		return fmt.Errorf("`wallproof %s` ended with exit code %d, and not with %d:\n%s", strings.Join(args, " "), code, want, out.String())
	}
	return nil
}

// publish writes the page, and passes the gate with a scorecard.
func (d *demonstration) publish(ctx context.Context) error {
	if err := d.scorecard(); err != nil {
		return err
	}
	if err := d.writeLive(d.path("policy.yaml"), d.path("live.json")); err != nil {
		return err
	}
	if err := d.expect(ctx, false, 0, d.siteArgs("site", "--live", d.path("live.json"), "--scorecard", d.path("scorecard.json"))...); err != nil {
		return err
	}
	if err := d.quietly(ctx, 0, d.gateArgs(d.path("policy.yaml"))...); err != nil {
		return err
	}
	d.printf("\n  %s the gate lets the scorecard pass: exit code 0\n", d.style.Paint(term.Green, "✓"))
	return nil
}

func (d *demonstration) siteArgs(out string, more ...string) []string {
	return append([]string{"site", d.path("packet"), "--key", d.path("demo.pub"), "--out", d.path(out)}, more...)
}

func (d *demonstration) gateArgs(policy string) []string {
	return []string{"gate", d.path("packet"), "--key", d.path("demo.pub"), "--scorecard", d.path("scorecard.json"), "--policy", policy}
}

// scorecard writes a scorecard that was produced under the attested image and
// policy.
func (d *demonstration) scorecard() error {
	report, err := d.report()
	if err != nil {
		return err
	}
	if report.Evidence == nil {
		return errors.New("the attestation could not be read back")
	}
	b := report.Evidence.Boundary
	f, err := os.Create(d.path("scorecard.json"))
	if err != nil {
		return fmt.Errorf("write the scorecard: %w", err)
	}
	err = command.PrintJSON(f, map[string]any{
		"schema": predicate.ScorecardSchema, "kind": "create", "id": "demo-1", "produced": manifest.FormatTime(time.Now()),
		"image": b.Image.Digest, "policy": b.Policy.Digest, "score": 97,
	})
	return errors.Join(err, f.Close())
}

// breakPolicy allows one more host and shows that the claim is withdrawn: by the
// gate, and on the page.
func (d *demonstration) breakPolicy(ctx context.Context) error {
	if err := os.MkdirAll(d.path("drift"), 0o755); err != nil {
		return fmt.Errorf("make the folder of the drift: %w", err)
	}
	drifted, err := d.driftedPolicy()
	if err != nil {
		return err
	}
	if err := d.expect(ctx, false, command.Held, d.gateArgs(drifted)...); err != nil {
		return err
	}
	if err := d.writeLive(drifted, d.path("drift", "live.json")); err != nil {
		return err
	}
	d.printf("\n")
	if err := d.expect(ctx, false, command.Held, d.siteArgs(filepath.Join("drift", "site"), "--live", d.path("drift", "live.json"))...); err != nil {
		return err
	}
	page, err := os.ReadFile(d.path("drift", "site", "index.html"))
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	if !bytes.Contains(page, []byte(verify.CodePolicyDrift)) {
		return fmt.Errorf("the page does not say %s", verify.CodePolicyDrift)
	}
	d.printf("\n  %s the gate holds the claim (exit code 3, %s), and the page does not show it: %s\n", d.style.Paint(term.Green, "✓"),
		verify.CodePolicyDrift, d.path("drift", "site", "index.html"))
	return nil
}

// driftedPolicy writes the policy with one more allowed host.
func (d *demonstration) driftedPolicy() (string, error) {
	p, err := command.ReadPolicy(d.path("policy.yaml"))
	if err != nil {
		return "", err
	}
	extra, err := policy.Parse("extra", []byte("version: 1\nmode: allowlist\nallow:\n  - host: extra.wallproof-demo.example\n"))
	if err != nil {
		return "", err
	}
	p.Allow = append(p.Allow, extra.Allow...)
	path := d.path("drift", "policy.yaml")
	if err := os.WriteFile(path, p.Format(), 0o644); err != nil {
		return "", fmt.Errorf("write the drifted policy: %w", err)
	}
	return path, nil
}

// writeLive writes what is deployed now: the attested image, under a policy.
func (d *demonstration) writeLive(policyFile, out string) error {
	p, err := command.ReadPolicy(policyFile)
	if err != nil {
		return err
	}
	digest, err := p.Digest()
	if err != nil {
		return err
	}
	report, err := d.report()
	if err != nil {
		return err
	}
	live, err := canon.Marshal(predicate.Live{Schema: predicate.LiveSchema, Generated: manifest.FormatTime(time.Now()), Image: report.Subject, Policy: digest})
	if err != nil {
		return err
	}
	return files.Write(out, live, 0o644)
}
