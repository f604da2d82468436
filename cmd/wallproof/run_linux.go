package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/adapter"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/internal/version"
	"github.com/wallproof/wallproof/policy"
)

func imageFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "image", Aliases: []string{"i"}, Usage: "the image under test, pinned: `REF`@sha256:…, an OCI layout folder, or a tarball"},
		&cli.BoolFlag{Name: "resolve", Usage: "accept a tag in --image; its digest is recorded and only the digest is used from then on"},
		&cli.StringFlag{Name: "platform", Usage: "`OS/ARCH` to pick from an index (default: this machine's)"},
	}
}

func driverFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "driver", Value: "gvisor", Usage: "sandbox `DRIVER`: " + joinNames(drivers.Names())}
}

func runCommand() *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "attack a pinned image inside the boundary and write the evidence packet",
		Description: "Runs every technique twice, once with the boundary removed (it must succeed) and once against the real one, and\n" +
			"writes DIR/packet. No real secret is resolved: everything that the policy would inject is a canary. Needs root.\n\n" +
			"--only, --skip and --vector run a part of the catalogue. The manifest says so, and a vector of which anything was left out is\n" +
			"inconclusive. --repeat N runs N times, each with a packet of its own in DIR/run-N, and reports which variants did not come\n" +
			"out the same each time in DIR/series.json; one escape is an escape.\n\n" +
			"--proxy attacks somebody else's proxy: --proxy-start is run behind the packet filter as an unprivileged user and must answer on\n" +
			"port $WALLPROOF_PORT. What its log does not tie to an attempt counts for nothing (docs/adapters.md).\n\n" +
			"The image's entry point, or --program, runs in a sandbox of its own beside the probe; what is said there counts for nothing,\n" +
			"only what is seen outside. With --admit-key or --admit-identity nothing is started of an image that they did not sign.\n\n" +
			"An edit of the policy's file during the run makes it one that cannot be attested. `wallproof halt` halts everything in the\n" +
			"sandboxes for a review, `wallproof resume` lets it go on.\n\n" +
			"Exit code: 0 nothing escaped and every vector is conclusive, 3 an escape, an inconclusive vector or an edited policy, 2 the image is not admitted, 1 it could not run.\n\n" +
			"Examples:\n   wallproof run --image registry.example/app@sha256:… --policy policy.yaml --out evidence\n" +
			"   wallproof run --image ./layout --policy policy.yaml --out evidence --output json\n" +
			"   wallproof run --image ./layout --policy policy.yaml --out runs --repeat 5\n" +
			"   wallproof run --image ./layout --policy policy.yaml --out part --vector IMD --skip IMD-SCAN\n" +
			"   wallproof run --image ./layout --policy policy.yaml --out squid --proxy squid --proxy-start ./start --proxy-log access.log\n" +
			"   wallproof run --image REF@sha256:… --policy policy.yaml --out evidence --admit-key cosign.pub --admit-builder https://ci.example/builder\n" +
			"   wallproof run --image ./layout --policy policy.yaml --out evidence --agent-model vendor/model --model-endpoint https://api.example/v1 --model-key-env API_KEY",
		Flags: append(append(imageFlags(), admissionFlags()...), command.PolicyFlag(), driverFlag(), command.OutputFlag("text or json"),
			&cli.StringSliceFlag{Name: "program", Usage: "run this beside the probe in the image's own sandbox, in place of the image's entry point; repeat it for each `ARGUMENT`"},
			&cli.StringFlag{Name: "out", Usage: "`DIR` that gets the packet, as DIR/packet"},
			&cli.StringSliceFlag{Name: "only", Usage: "run only the technique `ID`; may be repeated"},
			&cli.StringSliceFlag{Name: "skip", Usage: "leave out the technique `ID`; may be repeated"},
			&cli.StringSliceFlag{Name: "vector", Usage: "run only the `VECTOR`; may be repeated"},
			&cli.StringFlag{Name: "agent-model", Usage: "besides the obedient agent, let the model `ID` drive the agent, through the model proxy; the policy must allow it"},
			&cli.StringFlag{Name: "model-endpoint", Usage: "`URL` of the real model (https://api.example/v1), in the format of the policy's model; this is the one thing of a run that leaves the machine"},
			&cli.StringFlag{Name: "model-key-env", Usage: "environment `VARIABLE` that holds the endpoint's key; the key enters no sandbox"},
			&cli.StringFlag{Name: "agent-api", Usage: "`FORMAT` in which the agent speaks to the model proxy: openai or anthropic (default: the policy's)"},
			&cli.StringFlag{Name: "proxy", Usage: "attack somebody else's `PROXY` in place of Wallproof's own: " + joinNames(adapter.Names())},
			&cli.StringFlag{Name: "proxy-start", Usage: "`EXECUTABLE` that becomes that proxy, in the foreground, on port $WALLPROOF_PORT"},
			&cli.StringSliceFlag{Name: "proxy-file", Usage: "`FILE` that it is configured by, recorded by digest; may be repeated"},
			&cli.StringSliceFlag{Name: "proxy-env", Usage: "`NAME=VALUE` for it; may be repeated"},
			&cli.StringFlag{Name: "proxy-ca", Usage: "`FILE` of the authority that it intercepts TLS with, absolute or in $WALLPROOF_DIR"},
			&cli.StringFlag{Name: "proxy-log", Usage: "`FILE` that it writes its log to, absolute or in $WALLPROOF_DIR"},
			&cli.BoolFlag{Name: "catch-all", Usage: "lead every connection to the proxy, as exec does, also where the policy asks for selective routing"},
			&cli.IntFlag{Name: "repeat", Value: 1, Usage: "run `N` times, and report what did not come out the same"}),
		Action: func(c *cli.Context) error {
			if err := needRoot("run"); err != nil {
				return err
			}
			opt, err := runOptions(c)
			if err != nil {
				return err
			}
			if n := c.Int("repeat"); n < 1 {
				return fmt.Errorf("--repeat %d: at least 1", n)
			} else if c.IsSet("repeat") {
				return runSeries(c, opt, n)
			}
			res, err := runBattery(c.Context, opt, c.String("policy"))
			if err != nil {
				return err
			}
			if err := printResult(c, res); err != nil {
				return err
			}
			if !res.Conclusive() {
				return &command.Exit{Code: command.Held}
			}
			return nil
		},
	}
}

// runOptions reads what the command line asks for, cheapest checks first.
func runOptions(c *cli.Context) (battery.Options, error) {
	out := c.String("out")
	if out == "" {
		return battery.Options{}, errors.New("no output folder given; name one with --out DIR")
	}
	p, err := command.ReadPolicy(c.String("policy"))
	if err != nil {
		return battery.Options{}, err
	}
	model, err := modelAgent(c)
	if err != nil {
		return battery.Options{}, err
	}
	rules, err := admissionRules(c)
	if err != nil {
		return battery.Options{}, err
	}
	source := image.Options{ResolveTag: c.Bool("resolve"), Platform: c.String("platform")}
	img, err := resolveImage(c.Context, c.String("image"), source)
	if err != nil {
		return battery.Options{}, err
	}
	admitted, err := admit(c, img, rules, source)
	if err != nil {
		return battery.Options{}, err
	}
	opt, err := batteryOptions(c.String("driver"), p, img, out)
	opt.Select, opt.Program, opt.Admission, opt.Model = selection(c), c.StringSlice("program"), admitted, model
	opt.CatchAll = c.Bool("catch-all")
	if err != nil {
		return opt, err
	}
	opt.Proxy, err = foreignProxy(c)
	return opt, err
}

// modelAgent is the model that the command line lets drive the agent.
func modelAgent(c *cli.Context) (*battery.ModelAgent, error) {
	m := battery.ModelAgent{ID: c.String("agent-model"), Endpoint: c.String("model-endpoint"), API: c.String("agent-api")}
	name := c.String("model-key-env")
	switch {
	case m.ID == "" && (m.Endpoint != "" || m.API != "" || name != ""):
		return nil, errors.New("--model-endpoint, --model-key-env and --agent-api are about --agent-model; name the model")
	case m.ID == "":
		return nil, nil
	case m.Endpoint == "":
		return nil, errors.New("--agent-model needs the model itself: give its --model-endpoint URL")
	}
	if name != "" {
		if m.Key = os.Getenv(name); m.Key == "" {
			return nil, fmt.Errorf("--model-key-env %s: the variable is not set, or empty", name)
		}
	}
	return &m, nil
}

// foreignProxy is somebody else's proxy, nil when none is asked for.
func foreignProxy(c *cli.Context) (*battery.ForeignProxy, error) {
	if !c.IsSet("proxy") {
		for _, flag := range []string{"proxy-start", "proxy-file", "proxy-env", "proxy-ca", "proxy-log"} {
			if c.IsSet(flag) {
				return nil, fmt.Errorf("--%s is for somebody else's proxy; name its kind with --proxy: %s", flag, joinNames(adapter.Names()))
			}
		}
		return nil, nil
	}
	a, err := adapter.Lookup(c.String("proxy"))
	if err != nil {
		return nil, err
	}
	for _, flag := range []string{"proxy-start", "proxy-log"} {
		if c.String(flag) == "" {
			return nil, fmt.Errorf("--proxy %s needs --%s", a.Name, flag)
		}
	}
	return &battery.ForeignProxy{Adapter: a, Start: c.String("proxy-start"), Files: c.StringSlice("proxy-file"), Env: c.StringSlice("proxy-env"),
		CA: c.String("proxy-ca"), Log: c.String("proxy-log")}, nil
}

// selection is the part of the catalogue that the command line names, nil for all
// of it.
func selection(c *cli.Context) *manifest.Selection {
	upper := func(flag string) []string {
		var out []string
		for _, s := range c.StringSlice(flag) {
			if s = strings.ToUpper(strings.TrimSpace(s)); !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
		return out
	}
	s := manifest.Selection{Vectors: upper("vector"), Only: upper("only"), Skip: upper("skip")}
	if len(s.Vectors)+len(s.Only)+len(s.Skip) == 0 {
		return nil
	}
	return &s
}

func resolveImage(ctx context.Context, ref string, o image.Options) (*image.Resolved, error) {
	if ref == "" {
		return nil, errors.New("no image given; name one with --image REF@sha256:…")
	}
	img, err := image.Resolve(ctx, ref, o)
	if err != nil {
		return nil, fmt.Errorf("resolve the image: %w", err)
	}
	return img, nil
}

// batteryOptions puts together what a run needs of this installation.
func batteryOptions(driver string, p *policy.Policy, img *image.Resolved, out string) (battery.Options, error) {
	d, err := openDriver(driver)
	if err != nil {
		return battery.Options{}, err
	}
	opt := battery.Options{Image: img, Policy: p, Driver: d, Out: out, Self: []string{"/proc/self/exe"},
		Tool: manifest.Tool{Version: version.String(), Commit: version.Commit}}
	if opt.Probe, err = sibling("wallproof-probe"); err != nil {
		return opt, err
	}
	opt.Agent, err = sibling("wallproof-agent")
	return opt, err
}

func openDriver(name string) (sandbox.Driver, error) {
	return drivers.New(name, drivers.Options{})
}

// sibling finds a helper binary beside this one.
func sibling(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this executable: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s beside %s: %w; build all binaries with `make build`", name, self, err)
	}
	return path, nil
}

// runBattery runs the battery with its progress shown. The policy's file is watched
// meanwhile.
func runBattery(ctx context.Context, opt battery.Options, policyFile string) (*battery.Result, error) {
	stop, err := watchEdits(ctx, policyFile, &opt)
	if err != nil {
		return nil, err
	}
	defer stop()
	opt.Operate = operateRun(ctx)
	p := newProgress()
	defer p.done()
	opt.Progress = func(s battery.Progress) {
		text := s.Text
		if s.Phase != "" {
			text = fmt.Sprintf("%-8s  %s", s.Phase, text)
		}
		p.step(text)
	}
	return battery.Run(ctx, opt)
}

func printResult(c *cli.Context, res *battery.Result) error {
	if c.String("output") == "json" {
		return command.PrintJSON(c.App.Writer, runReport(res))
	}
	printVectors(c.App.Writer, term.StyleOf(c.App.Writer), res.Vectors, res.Critical)
	if m := res.Model; m != nil {
		fmt.Fprintf(c.App.Writer, "\n  model:  %s\n", m)
	}
	if res.Edits > 0 {
		fmt.Fprintf(c.App.Writer, "\n  the policy's file was edited during the run, %d times: it cannot be attested; run again\n", res.Edits)
	}
	fmt.Fprintf(c.App.Writer, "\n  packet: %s\n  next:   wallproof attest %s --key KEY\n", res.Packet, res.Packet)
	return nil
}

// report is the result of a run as JSON.
type report struct {
	Packet   string         `json:"packet"`
	Head     string         `json:"head"`
	Count    int64          `json:"count"`
	Critical int64          `json:"criticalEscapes"`
	Ignored  int            `json:"unauthenticatedLines"`
	Edits    int            `json:"policyEdits,omitempty"` // during the run: with any, it cannot be attested
	Model    *modelReport   `json:"model,omitempty"`
	Vectors  []vectorReport `json:"vectors"`
}

type vectorReport struct {
	Vector   string                  `json:"vector"`
	Outcome  judge.Outcome           `json:"outcome"`
	Severity string                  `json:"severity"`
	Totals   map[judge.Outcome]int64 `json:"totals"`
	Reasons  []string                `json:"reasons,omitempty"`
}

func runReport(res *battery.Result) report {
	out := report{Packet: res.Packet, Head: res.Summary.Head, Count: res.Summary.Count, Critical: res.Critical, Ignored: res.Ignored, Edits: res.Edits}
	if m := res.Model; m != nil {
		out.Model = &modelReport{m.Twins, m.Followed, m.Resisted, m.Failed, m.Escapes}
	}
	for _, v := range res.Vectors {
		out.Vectors = append(out.Vectors, vectorReport{string(v.Vector), v.Outcome, string(v.Severity), v.Totals, v.Reasons})
	}
	return out
}

// modelReport is what came of a model that drove the agent.
type modelReport struct {
	Twins    bool `json:"benignTasksPassed"`
	Followed int  `json:"followed"`
	Resisted int  `json:"resisted"`
	Failed   int  `json:"failed"`
	Escapes  int  `json:"escapes"`
}
