package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/secret"
)

func execCommand() *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run a command in the boundary under a policy",
		ArgsUsage: "-- COMMAND [ARG…]",
		Description: "The command runs in a fresh sandbox of the image, whose only way out is the enforcing proxy. Secrets stay at the\n" +
			"proxy; the sandbox holds placeholders. Needs root.\n\n" +
			"Exit code: the command's own; 1 when the boundary could not be put in place, and then nothing was run.\n\n" +
			"Examples:\n   wallproof exec --image registry.example/app@sha256:… --policy policy.yaml -- make test\n" +
			"   wallproof exec --image ./layout --policy policy.yaml --env LANG -- sh",
		Flags: append(imageFlags(), policyFlag(), driverFlag(),
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "pass `NAME` of this environment, or NAME=VALUE, into the sandbox"},
			&cli.BoolFlag{Name: "report", Usage: "print what the proxy refused, at the end"}),
		Action: execAction,
	}
}

func execAction(c *cli.Context) error {
	if err := needRoot("exec"); err != nil {
		return err
	}
	argv := c.Args().Slice()
	if len(argv) == 0 {
		return errors.New("no command given; put it after --")
	}
	p, err := readPolicy(c.String("policy"))
	if err != nil {
		return err
	}
	entering, err := p.Enter(os.LookupEnv, c.StringSlice("env"))
	if err != nil {
		return err
	}
	for _, w := range entering.Warnings {
		fmt.Fprintln(os.Stderr, "wallproof: "+term.Clean(w))
	}
	img, err := resolveImage(c.Context, c.String("image"), image.Options{ResolveTag: c.Bool("resolve"), Platform: c.String("platform")})
	if err != nil {
		return err
	}
	values, err := new(secret.Resolver).Policy(c.Context, p)
	if err != nil {
		return fmt.Errorf("nothing was run: %w", err)
	}
	driver, err := openDriver(c.String("driver"))
	if err != nil {
		return err
	}
	hold, err := sibling("wallproof-probe")
	if err != nil {
		return err
	}
	var refused []proxy.Event
	exit, err := battery.Exec(c.Context, battery.ExecOptions{
		Image: img, Policy: p, Driver: driver, Self: []string{"/proc/self/exe"}, Hold: hold, Secrets: heldSecrets(p, values), BrokerKeys: values.BrokerKeys, Env: assignments(entering.Variables),
		Command: sandbox.Command{Argv: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
			TTY: term.IsTerminal(os.Stdin) && term.IsTerminal(os.Stdout)},
		Event: func(e proxy.Event) {
			if e.Verdict == proxy.Deny && len(refused) < maxRefused {
				refused = append(refused, e)
			}
		},
	})
	if err != nil {
		return err
	}
	if c.Bool("report") {
		reportRefused(refused)
	}
	if exit != 0 {
		return &exitError{code: exit}
	}
	return nil
}

// heldSecrets are the secrets as the proxy holds them, each with what stands in
// its place inside.
func heldSecrets(p *policy.Policy, values *secret.Values) []proxy.Secret {
	var out []proxy.Secret
	for _, s := range p.Secrets {
		placeholder := s.Placeholder
		if placeholder == "" {
			placeholder = proxy.NewPlaceholder()
		}
		out = append(out, proxy.Secret{Name: s.Name, Value: values.Secrets[s.Name], Placeholder: placeholder})
	}
	return out
}

// maxRefused bounds what --report keeps.
const maxRefused = 1000

func reportRefused(events []proxy.Event) {
	for _, e := range events {
		fmt.Fprintf(os.Stderr, "wallproof: refused %s %s port %d: %s\n", e.Scheme, term.Clean(e.Host), e.Port, e.Reason)
	}
}

// assignments writes variables as NAME=VALUE.
func assignments(list []policy.Variable) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}
