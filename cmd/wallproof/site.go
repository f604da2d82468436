package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/site"
	"github.com/wallproof/wallproof/verify"
)

func siteCommand() *cli.Command {
	return &cli.Command{
		Name:      "site",
		Usage:     "generate the static trust-boundary page from verified packets",
		ArgsUsage: "PACKET…",
		Description: "Runs the verifier itself and renders its verdict. A held claim is not in the HTML. The output folder is replaced as a\n" +
			"whole; its history.json is kept, and drift that was seen once holds for good.\n\n" +
			"Exit code: 0 the primary claim is shown, 3 it is held, 2 it is invalid, 1 usage or I/O.\n\n" +
			"Examples:\n   wallproof site evidence/packet --key wallproof.pub --out public\n" +
			"   wallproof site evidence/packet --key wallproof.pub --live live.json --out public",
		Flags: append(append(trustFlags(), freshnessFlags()...),
			&cli.StringFlag{Name: "out", Usage: "`DIR` that gets the pages"},
			&cli.StringFlag{Name: "theme", Usage: "name, colours and texts of the publisher (`FILE`)"},
			&cli.StringFlag{Name: "base-url", Usage: "where the site will live (`URL`)"},
			&cli.StringFlag{Name: "cache", Usage: "remember unchanged packets between builds (`FILE`)"},
			outputFlag("text or json")),
		Action: siteAction,
	}
}

func siteAction(c *cli.Context) error {
	in, err := siteInput(c)
	if err != nil {
		return err
	}
	res, err := site.Build(c.Context, in, c.String("out"))
	if err != nil {
		return err
	}
	if c.String("output") == "json" {
		err = printJSON(c.App.Writer, res)
	} else {
		printSite(c.App.Writer, c.String("out"), res)
	}
	if code := siteExit(res); err == nil && code != 0 {
		return &exitError{code: code}
	}
	return err
}

func siteInput(c *cli.Context) (site.Input, error) {
	var in site.Input
	if !c.Args().Present() {
		return in, errors.New("name at least one packet; `wallproof site --help` shows how")
	}
	if c.String("out") == "" {
		return in, errors.New("no output folder given; name one with --out DIR")
	}
	in.Verify = verify.Input{Image: c.String("image"), MaxAge: c.Duration("max-age")}
	for _, step := range []func(*cli.Context, *verify.Input) error{readTrust, readFreshness, readRequire} {
		if err := step(c, &in.Verify); err != nil {
			return in, err
		}
	}
	if at := in.Verify.At; !at.IsZero() {
		in.Clock = func() time.Time { return at }
	}
	in.Live, in.Verify.Live = in.Verify.Live, nil
	in.BaseURL, in.Cache = c.String("base-url"), c.String("cache")
	if path := c.String("theme"); path != "" {
		data, err := readBounded(path, maxDocument)
		if err != nil {
			return in, fmt.Errorf("read the theme: %w", err)
		}
		if in.Theme, err = site.ParseTheme(data); err != nil {
			return in, fmt.Errorf("read the theme %s: %w", path, err)
		}
	}
	for _, path := range c.Args().Slice() {
		p, err := site.OpenPacket(path)
		if err != nil {
			return in, err
		}
		in.Packets = append(in.Packets, p)
	}
	return in, nil
}

func printSite(w io.Writer, out string, res site.Result) {
	style := term.StyleOf(w)
	for _, a := range res.Attestations {
		glyph, colour := "✓", term.Green
		switch a.State {
		case site.StateHeld:
			glyph, colour = "◌", term.Yellow
		case site.StateInvalid:
			glyph, colour = "✗", term.Red
		}
		fmt.Fprintf(w, "  %s %-8s %s\n", style.Paint(colour, glyph), a.State, term.Clean(a.Packet))
		for _, code := range a.Codes {
			fmt.Fprintf(w, "    %s\n", code)
		}
	}
	fmt.Fprintf(w, "  %d files, %d KiB: %s/index.html\n", res.Files, res.Bytes>>10, out)
}

// siteExit is the exit code that belongs to the primary claim.
func siteExit(res site.Result) int {
	if len(res.Attestations) == 0 {
		return exitInvalid
	}
	switch res.Attestations[0].State {
	case site.StateHeld:
		return exitHeld
	case site.StateInvalid:
		return exitInvalid
	}
	return 0
}
