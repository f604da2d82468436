package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/site"
	"github.com/wallproof/wallproof/verify"
)

// localAddress is where --serve listens unless told otherwise: this machine
// alone reaches it.
const localAddress = "127.0.0.1:8080"

func siteCommand() *cli.Command {
	return &cli.Command{
		Name:      "site",
		Usage:     "generate the static trust-boundary page from verified packets",
		ArgsUsage: "PACKET…",
		Description: "Runs the verifier itself and renders its verdict. A held claim is not in the HTML. The output folder is replaced as a\n" +
			"whole; its history.json is kept, and drift that was seen once holds for good. The page carries the verifier for the\n" +
			"browser where the program's own folder, or that of --verifier, has it. --serve shows the result on this machine until\n" +
			"it is interrupted; without a packet it shows what lies in DIR already.\n\n" +
			"Exit code: 0 the primary claim is shown, 3 it is held, 2 it is invalid, 1 usage or I/O.\n\n" +
			"Examples:\n   wallproof site evidence/packet --key wallproof.pub --out public\n" +
			"   wallproof site evidence/packet --key wallproof.pub --live live.json --theme theme.yaml --out public --serve\n" +
			"   wallproof site evidence/*/packet --key wallproof.pub --primary ghcr.io/you/agent --cache site.cache --out public\n" +
			"   wallproof site --out public --serve --listen 127.0.0.1:9000",
		Flags: append(append(auditor.TrustFlags(), siteFreshnessFlags()...),
			&cli.StringFlag{Name: "out", Usage: "`DIR` that gets the pages"},
			&cli.StringFlag{Name: "primary", Usage: "image that index.html is about, by `NAME` without tag and digest; of the first packet unless given"},
			&cli.StringFlag{Name: "scorecard", Usage: "scorecard that is published with the primary claim (`FILE`)"},
			&cli.StringFlag{Name: "binding", Usage: "signed binding of the scorecard, as `gate --binding-out` writes it (`FILE`)"},
			&cli.StringFlag{Name: "theme", Usage: "name, logo, colours and texts of the publisher (`FILE`)"},
			&cli.StringFlag{Name: "base-url", Usage: "where the site will live (`URL`)"},
			&cli.StringFlag{Name: "cache", Usage: "remember unchanged packets between builds (`FILE`)"},
			&cli.StringFlag{Name: "verifier", Usage: "`DIR` with the verifier for the browser; the program's own unless given"},
			&cli.BoolFlag{Name: "serve", Usage: "show the site on this machine until interrupted"},
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` for --serve", Value: localAddress},
			command.OutputFlag("text or json")),
		Action: siteAction,
	}
}

// siteFreshnessFlags leaves out the bundle that stands in for a packet's own: a
// site has many packets.
func siteFreshnessFlags() []cli.Flag {
	return slices.DeleteFunc(auditor.FreshnessFlags(), func(f cli.Flag) bool { return f.Names()[0] == "bundle" })
}

func siteAction(c *cli.Context) error {
	out := c.String("out")
	switch {
	case out == "":
		return errors.New("no output folder given; name one with --out DIR")
	case c.String("output") != "text" && c.String("output") != "json":
		return fmt.Errorf("--output %q: there is no such form; there are text and json", c.String("output"))
	case c.IsSet("listen") && !c.Bool("serve"):
		return errors.New("--listen is the address for --serve; add --serve, or leave it out")
	case !c.Args().Present() && c.Bool("serve"):
		return serveSite(c, out)
	}
	in, err := siteInput(c)
	if err != nil {
		return err
	}
	res, err := site.Build(c.Context, in, out)
	if err != nil {
		return err
	}
	if c.String("output") == "json" {
		err = command.PrintJSON(c.App.Writer, res)
	} else {
		printSite(c.App.Writer, out, res)
	}
	if err == nil && c.Bool("serve") {
		err = serveSite(c, out)
	}
	if code := siteExit(res); err == nil && code != 0 {
		return &command.Exit{Code: code}
	}
	return err
}

// serveSite shows a built site until it is interrupted.
func serveSite(c *cli.Context, dir string) error {
	if err := site.Built(dir); err != nil {
		return err
	}
	return site.Serve(c.Context, dir, c.String("listen"), func(a net.Addr) {
		fmt.Fprintf(os.Stderr, "wallproof: %s is at http://%s/ until you press Ctrl-C\n", dir, a)
	})
}

func siteInput(c *cli.Context) (site.Input, error) {
	var in site.Input
	if !c.Args().Present() {
		return in, errors.New("name at least one packet; `wallproof site --help` shows how")
	}
	in.Verify = verify.Input{Image: c.String("image"), MaxAge: c.Duration("max-age")}
	for _, step := range []func(*cli.Context, *verify.Input) error{auditor.ReadTrust, auditor.ReadFreshness, auditor.ReadRequire, auditor.ReadScorecard} {
		if err := step(c, &in.Verify); err != nil {
			return in, err
		}
	}
	if at := in.Verify.At; !at.IsZero() {
		in.Clock = func() time.Time { return at }
	}
	in.Live, in.Verify.Live = in.Verify.Live, nil
	in.Primary, in.BaseURL, in.Cache = c.String("primary"), c.String("base-url"), c.String("cache")
	if err := readPublisher(c, &in); err != nil {
		return in, err
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

// readPublisher reads the publisher's theme and the verifier for the browser.
func readPublisher(c *cli.Context, in *site.Input) (err error) {
	if path := c.String("theme"); path != "" {
		if in.Theme, err = site.LoadTheme(path); err != nil {
			return err
		}
	}
	dir := c.String("verifier")
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this executable: %w", err)
		}
		dir = filepath.Dir(self)
	}
	if in.Wasm, err = site.LoadWasm(dir); err != nil {
		return err
	}
	if len(in.Wasm.Module) > 0 {
		return nil
	}
	if c.IsSet("verifier") {
		return fmt.Errorf("%s has no %s; `site/wasm/build %s` makes it", dir, site.WasmFile, dir)
	}
	fmt.Fprintf(os.Stderr, "wallproof: no verifier for the browser beside this program, so the verify page shows the command line only (make build makes it)\n")
	return nil
}

// maxSiteLines bounds how many attestations besides the primary are told one by
// one. The JSON has them all.
const maxSiteLines = 20

func printSite(w io.Writer, out string, res site.Result) {
	style := term.StyleOf(w)
	told := 0
	count := map[site.State]int{}
	for i, a := range res.Attestations {
		count[a.State]++
		if i > 0 && (a.State == site.StateCurrent && len(res.Attestations) > maxSiteLines || told >= maxSiteLines) {
			continue
		}
		told++
		glyph, colour := siteGlyph(a.State)
		fmt.Fprintf(w, "  %s %-8s %s\n", style.Paint(colour, glyph), a.State, term.Clean(a.Packet))
		for _, code := range a.Codes {
			fmt.Fprintf(w, "    %s\n", code)
		}
	}
	if told < len(res.Attestations) {
		fmt.Fprintf(w, "  of %d attestations %d are current, %d held, %d invalid\n", len(res.Attestations), count[site.StateCurrent], count[site.StateHeld], count[site.StateInvalid])
	}
	if n := len(res.Removed); n > 0 {
		fmt.Fprintf(w, "  no longer published, as the history says: %d of the attestations before\n", n)
	}
	if res.Next != "" {
		fmt.Fprintf(w, "  build it again by %s, when the first claim expires\n", res.Next)
	}
	fmt.Fprintf(w, "  %d files, %d KiB: %s\n", res.Files, res.Bytes>>10, filepath.Join(out, "index.html"))
}

func siteGlyph(s site.State) (glyph string, colour string) {
	switch s {
	case site.StateHeld:
		return "◌", term.Yellow
	case site.StateInvalid:
		return "✗", term.Red
	}
	return "✓", term.Green
}

// siteExit is the exit code that belongs to the primary claim.
func siteExit(res site.Result) int {
	if len(res.Attestations) == 0 {
		return command.Bad
	}
	switch res.Attestations[0].State {
	case site.StateHeld:
		return command.Held
	case site.StateInvalid:
		return command.Bad
	}
	return 0
}
