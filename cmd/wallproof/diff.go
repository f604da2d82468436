package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/compare"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
)

func diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare the outcomes of two runs",
		ArgsUsage: "A B",
		Description: "A and B are packets (folders or archives) or the output folders of `wallproof run`. Two runs can be compared when both\n" +
			"are of one image, policy, driver (name, version and configuration) and catalogue; otherwise it says what differs. It compares\n" +
			"what is recorded and checks no signature: `wallproof verify` does.\n\n" +
			"Exit code: 0 every outcome is the same, 3 some differ, 2 the two cannot be compared, 1 one could not be read.\n\n" +
			"Examples:\n   wallproof diff before/packet after/packet\n   wallproof diff runs/run-1 runs/run-2 --output json",
		Flags: []cli.Flag{command.OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 2 {
				return errors.New("diff takes two packets; `wallproof diff --help` shows how")
			}
			a, err := readRecord(c.Args().Get(0))
			if err != nil {
				return err
			}
			b, err := readRecord(c.Args().Get(1))
			if err != nil {
				return err
			}
			return printDifference(c, difference(a, b))
		},
	}
}

// readRecord reads the manifest of a packet, or of the packet in a run's folder.
func readRecord(path string) (*manifest.Manifest, error) {
	if inner := filepath.Join(path, "packet"); isDir(inner) {
		path = inner
	}
	evidence, err := auditor.OpenPacket(path)
	if err != nil {
		return nil, err
	}
	if evidence == nil {
		return nil, fmt.Errorf("%s is a bundle alone; diff needs the packet, whose manifest lists the outcomes", path)
	}
	f, err := packet.Open(evidence, packet.ManifestFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no %s; name a packet or the output folder of one run", path, packet.ManifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("open the manifest of %s: %w", path, err)
	}
	defer f.Close()
	m, err := manifest.Read(f)
	if err != nil {
		return nil, fmt.Errorf("read the manifest of %s: %w", path, err)
	}
	return m, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// runDifference is what `wallproof diff` says of two runs, as JSON.
type runDifference struct {
	A          string           `json:"a"` // run ids
	B          string           `json:"b"`
	Comparable bool             `json:"comparable"`
	Reasons    []compare.Reason `json:"reasons"` // why not
	Same       int              `json:"same"`    // variants with the same outcome
	Changes    []compare.Change `json:"changes"`
}

func difference(a, b *manifest.Manifest) runDifference {
	d := runDifference{A: a.Run.RunID, B: b.Run.RunID, Reasons: compare.Incomparable(a.Run, b.Run), Changes: []compare.Change{}}
	if len(d.Reasons) > 0 {
		return d
	}
	d.Comparable, d.Reasons = true, []compare.Reason{}
	d.Changes = append(d.Changes, compare.Changes(a.Techniques, b.Techniques)...)
	d.Same = len(a.Techniques)
	for _, c := range d.Changes {
		if c.A != compare.Missing {
			d.Same--
		}
	}
	return d
}

func printDifference(c *cli.Context, d runDifference) error {
	w := c.App.Writer
	switch form := c.String("output"); form {
	case "json":
		if err := command.PrintJSON(w, d); err != nil {
			return err
		}
	case "text":
		printDifferenceText(w, d)
	default:
		return fmt.Errorf("--output %q: there is no such form; there are: text, json", form)
	}
	switch {
	case !d.Comparable:
		return &command.Exit{Code: command.Bad}
	case len(d.Changes) > 0:
		return &command.Exit{Code: command.Held}
	}
	return nil
}

func printDifferenceText(w io.Writer, d runDifference) {
	style := term.StyleOf(w)
	if !d.Comparable {
		fmt.Fprintf(w, "runs %s and %s cannot be compared: what decides the outcomes is not the same\n", term.Clean(d.A), term.Clean(d.B))
		for _, r := range d.Reasons {
			fmt.Fprintf(w, "  %s\n    A %s\n    B %s\n", r.What, term.Clean(r.A), term.Clean(r.B))
		}
		return
	}
	for _, x := range d.Changes {
		fmt.Fprintf(w, "%s/%s  %s → %s\n", term.Clean(x.Technique), term.Clean(x.Variant), paintOutcome(style, x.A, x.AReason), paintOutcome(style, x.B, x.BReason))
	}
	fmt.Fprintf(w, "%d outcomes the same, %d different, between runs %s and %s\n", d.Same, len(d.Changes), term.Clean(d.A), term.Clean(d.B))
}

func paintOutcome(style term.Style, o judge.Outcome, reason string) string {
	text := string(o)
	if reason != "" {
		text += " (" + reason + ")"
	}
	return style.Paint(colours[o], term.Clean(text))
}
