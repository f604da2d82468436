package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/demo"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy"
)

// demoMarker stands in a folder that an earlier demo made and that a new one may
// replace.
const demoMarker = ".wallproof-demo"

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "the whole thing once: attack, sign, verify, publish, then break something and see it withdrawn",
		Description: "Builds a small image, attacks it in the boundary under a demo policy, signs and verifies the packet, writes the\n" +
			"page, then adds a host to the policy and shows that the gate holds the claim. Everything goes into DIR. Needs root.\n\n" +
			"Exit code: 0 only when every step went as it should.\n\n" +
			"Examples:\n   sudo wallproof demo --out wallproof-demo\n   sudo wallproof demo --out d --image registry.example/app@sha256:…",
		Flags: append(imageFlags(), driverFlag(), command.PolicyFlag(),
			&cli.StringFlag{Name: "out", Value: "wallproof-demo", Usage: "`DIR` for everything; one of an earlier demo is replaced"}),
		Action: func(c *cli.Context) error {
			if err := needRoot("demo"); err != nil {
				return err
			}
			d := &demonstration{c: c, out: c.String("out"), style: term.StyleOf(c.App.Writer), started: time.Now()}
			return d.run(c.Context)
		},
	}
}

// demonstration is one demo, step by step.
type demonstration struct {
	c       *cli.Context
	out     string
	style   term.Style
	started time.Time
	stop    []func() error
	step    int
}

// run goes through the steps; the first that does not go as it should ends it.
func (d *demonstration) run(ctx context.Context) (err error) {
	defer func() {
		for _, stop := range d.stop {
			err = errors.Join(err, stop())
		}
	}()
	if err := d.prepare(); err != nil {
		return err
	}
	var opt battery.Options
	steps := []struct {
		title string
		do    func() error
	}{
		{"take an image, pinned by digest", func() (err error) { opt, err = d.takeImage(ctx); return err }},
		{"attack it, with and without the boundary", func() error { return d.attack(ctx, opt) }},
		{"sign the packet", func() error { return d.sign(ctx) }},
		{"verify it, with the network taken away", func() error { return d.verifyOffline(ctx) }},
		{"sign a verifier's re-run", func() error { return d.rerun(ctx) }},
		{"write the trust-boundary page", func() error { return d.publish(ctx) }},
		{"break one thing: an extra allowed host in the policy", func() error { return d.breakPolicy(ctx) }},
	}
	for _, s := range steps {
		d.heading(s.title)
		if err := s.do(); err != nil {
			return err
		}
	}
	d.printf("\n  %s in %.0f s. The page is %s; a browser opens it from there, or from\n  %s\n", d.style.Paint(term.Green, "✓ everything went as it should"),
		time.Since(d.started).Seconds(), d.path("site", "index.html"), d.style.Paint(term.Dim, "wallproof site --serve --out "+d.path("site")))
	return nil
}

func (d *demonstration) heading(title string) {
	d.step++
	heading(d.c.App.Writer, d.style, d.step, title)
}

func (d *demonstration) printf(format string, args ...any) {
	fmt.Fprintf(d.c.App.Writer, format, args...)
}

func (d *demonstration) path(elem ...string) string {
	return filepath.Join(append([]string{d.out}, elem...)...)
}

// prepare makes the output folder. It replaces one of an earlier demo, and
// nothing else.
func (d *demonstration) prepare() error {
	entries, err := os.ReadDir(d.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prepare the output folder: %w", err)
	}
	if len(entries) > 0 {
		if _, err := os.Stat(d.path(demoMarker)); err != nil {
			return fmt.Errorf("%s is not empty and is not of an earlier demo; choose another --out", d.out)
		}
		if err := os.RemoveAll(d.out); err != nil {
			return fmt.Errorf("replace the earlier demo: %w", err)
		}
	}
	if err := os.MkdirAll(d.out, 0o755); err != nil {
		return fmt.Errorf("prepare the output folder: %w", err)
	}
	text := demo.Policy
	if path := d.c.String("policy"); path != "" {
		if text, err = files.Read(path, policy.MaxBytes); err != nil {
			return fmt.Errorf("read the policy: %w", err)
		}
	}
	for name, data := range map[string][]byte{demoMarker: nil, "policy.yaml": text, "threat-model.md": demo.ThreatModel} {
		if err := os.WriteFile(d.path(name), data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// takeImage resolves the image of --image, or builds the demo's own and pulls it
// from a registry of ours.
func (d *demonstration) takeImage(ctx context.Context) (battery.Options, error) {
	ref := d.c.String("image")
	if ref == "" {
		var err error
		if ref, err = d.serveImage(ctx); err != nil {
			return battery.Options{}, err
		}
	}
	img, err := resolveImage(ctx, ref, image.Options{ResolveTag: d.c.Bool("resolve"), Platform: d.c.String("platform")})
	if err != nil {
		return battery.Options{}, err
	}
	d.printf("  %s\n  platform %s, manifest %s\n", term.Clean(img.Reference), img.Platform, img.Digest)
	p, err := command.ReadPolicy(d.path("policy.yaml"))
	if err != nil {
		return battery.Options{}, err
	}
	digest, err := p.Digest()
	if err != nil {
		return battery.Options{}, err
	}
	d.printf("  policy %s, %s\n", d.path("policy.yaml"), digest)
	return batteryOptions(d.c.String("driver"), p, img, d.out)
}

// serveImage builds the demo image and serves it.
func (d *demonstration) serveImage(ctx context.Context) (string, error) {
	agent, err := sibling("wallproof-agent")
	if err != nil {
		return "", err
	}
	ref, stop, err := demo.ServeImage(ctx, agent)
	if err != nil {
		return "", err
	}
	d.stop = append(d.stop, stop)
	return ref, nil
}

// attack runs the battery. Nothing may escape, and everything must be conclusive.
func (d *demonstration) attack(ctx context.Context, opt battery.Options) error {
	res, err := runBattery(ctx, opt, d.path("policy.yaml"))
	if err != nil {
		return err
	}
	printVectors(d.c.App.Writer, d.style, res.Vectors, res.Critical)
	d.printf("  packet: %s, %d entries, head %s\n", res.Packet, res.Summary.Count, res.Summary.Head)
	if !res.Conclusive() {
		return &command.Exit{Code: command.Held, Err: errors.New("the boundary did not hold, or not everything was conclusive; the evidence is in " + res.Packet)}
	}
	return nil
}
