package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/compare"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
)

// maxRepeat bounds --repeat.
const maxRepeat = 1000

// seriesFile is the result of repeated runs, in the output folder.
const seriesFile = "series.json"

// series is the result of repeated runs. Each run has a packet of its own in
// run-N/packet, and says in its manifest that it is one of several.
type series struct {
	ID         string          `json:"id"`
	Conclusive bool            `json:"conclusive"` // every run by itself: one escape is an escape
	Runs       []report        `json:"runs"`
	Flaky      []compare.Flake `json:"flaky"` // variants that did not come out the same each time
}

// runSeries runs the battery several times over. An error in one run ends the
// series; the packets so far stay.
func runSeries(c *cli.Context, opt battery.Options, times int) error {
	if times > maxRepeat {
		return fmt.Errorf("--repeat %d: at most %d", times, maxRepeat)
	}
	out := opt.Out
	if err := newFolder(out); err != nil {
		return err
	}
	id := make([]byte, 8)
	if _, err := rand.Read(id); err != nil {
		return fmt.Errorf("draw the id of the series: %w", err)
	}
	s := series{ID: hex.EncodeToString(id), Conclusive: true, Flaky: []compare.Flake{}}
	var entries [][]manifest.Technique
	for i := 1; i <= times; i++ {
		opt.Out = filepath.Join(out, fmt.Sprintf("run-%d", i))
		opt.Series = &manifest.Series{ID: s.ID, Index: int64(i), Of: int64(times)}
		res, err := runBattery(c.Context, opt, c.String("policy"))
		if err != nil {
			return fmt.Errorf("run %d of %d: %w", i, times, err)
		}
		s.Conclusive = s.Conclusive && res.Conclusive()
		s.Runs = append(s.Runs, runReport(res))
		entries = append(entries, res.Entries)
	}
	s.Flaky = append(s.Flaky, compare.Flakes(entries)...)
	return s.finish(c, out)
}

// newFolder refuses a folder that holds anything: runs of two series are not to
// be mixed.
func newFolder(out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("create the output folder: %w", err)
	}
	d, err := os.Open(out)
	if err != nil {
		return fmt.Errorf("open the output folder: %w", err)
	}
	defer d.Close()
	switch _, err := d.ReadDir(1); {
	case err == nil:
		return fmt.Errorf("%s is not empty; --repeat writes a folder a run: choose another --out: %w", out, fs.ErrExist)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read the output folder: %w", err)
	}
	return nil
}

// finish writes and prints the result.
func (s series) finish(c *cli.Context, out string) error {
	f, err := os.OpenFile(filepath.Join(out, seriesFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the result of the series: %w", err)
	}
	if err := errors.Join(command.PrintJSON(f, s), f.Close()); err != nil {
		return fmt.Errorf("write the result of the series: %w", err)
	}
	if c.String("output") == "json" {
		err = command.PrintJSON(c.App.Writer, s)
	} else {
		s.print(c.App.Writer)
	}
	if err == nil && !s.Conclusive {
		return &command.Exit{Code: command.Held}
	}
	return err
}

func (s series) print(w io.Writer) {
	style := term.StyleOf(w)
	for i, r := range s.Runs {
		fmt.Fprintf(w, "  run %-3d %s\n", i+1, r.line(style))
		for _, v := range r.Vectors {
			for _, reason := range v.Reasons {
				if colours[v.Outcome] != term.Green {
					fmt.Fprintf(w, "          %s\n", reason)
				}
			}
		}
	}
	fmt.Fprintf(w, "\n  %d runs, %d variants that did not come out the same each time\n", len(s.Runs), len(s.Flaky))
	for _, f := range s.Flaky {
		fmt.Fprintf(w, "    %s/%s: %s\n", f.Technique, f.Variant, paintOutcome(style, f.Verdict, ""))
		for _, reason := range f.Reasons {
			fmt.Fprintf(w, "      %s\n", reason)
		}
	}
}

// line is a run in one line: each vector's outcome by its glyph.
func (r report) line(style term.Style) string {
	var text string
	for _, v := range r.Vectors {
		text += v.Vector + " " + style.Paint(colours[v.Outcome], glyphs[v.Outcome]) + "  "
	}
	return text + criticalEscapes(r.Critical)
}
