package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/record"
	"github.com/wallproof/wallproof/policy/proxy/secret"
	"github.com/wallproof/wallproof/policy/proxy/standalone"
)

// Exit codes of exec that are not the command's own, as shells and timeout(1)
// have them.
const (
	exitTimeout     = 124
	exitNotRunnable = 126
	exitNoProgram   = 127
)

func execCommand() *cli.Command {
	return &cli.Command{
		Name:      "exec",
		Usage:     "run an agent in the boundary under a policy",
		ArgsUsage: "-- COMMAND [ARG…]",
		Description: "The command runs as an unprivileged user in a fresh sandbox of the image, whose only way out is the enforcing\n" +
			"proxy. Secrets stay at the proxy; the sandbox holds placeholders. Set-up runs before it and the verifier after it, as\n" +
			"root, each under its own phase of the policy. Services of the policy start with it. Edits of the policy file take\n" +
			"effect as they are saved. Needs root.\n\n" +
			"Exit code: the command's own, or the verifier's where there is one (128 + n for a signal, 124 for limits.duration,\n" +
			"126 and 127 for a program that the image cannot run or has not); 1 when the boundary could not be put in place, and\n" +
			"then nothing was run.\n\n" +
			"Examples:\n   wallproof exec --image registry.example/app@sha256:… --policy policy.yaml -- make test\n" +
			"   wallproof exec --image ./layout --policy task.yaml --setup 'pip install -r requirements.txt' --verifier 'sh /tests/run.sh' -- agent\n" +
			"   wallproof exec --image ./layout --policy policy.yaml --task 'one=agent --part 1' --task 'two=agent --part 2' -- agent --plan\n" +
			"   wallproof exec --image ./layout --policy policy.yaml --reach https://github.com/ --reach https://example.org/",
		Flags: append(imageFlags(), command.PolicyFlag(), driverFlag(),
			&cli.StringSliceFlag{Name: "env", Aliases: []string{"e"}, Usage: "pass `NAME` of this environment, or NAME=VALUE, into the sandbox"},
			&cli.StringFlag{Name: "user", Usage: "who the agent is: `UID[:GID]` (default: the image's user if it is not root, else 1000:1000)"},
			&cli.StringFlag{Name: "setup", Usage: "`COMMAND` to run before it, as root, under the policy's set-up phase"},
			&cli.StringFlag{Name: "verifier", Usage: "`COMMAND` to run after it, as root, under the policy's verifier phase"},
			&cli.StringSliceFlag{Name: "task", Usage: "`NAME=COMMAND` to run beside it, in a sandbox of its own"},
			&cli.StringFlag{Name: "orchestrator", Usage: "`COMMAND` to run beside it in a sandbox without anything of the vault's; reads what becomes of the tasks"},
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent: the policy's login enters for the agent that it names, and for no other"},
			&cli.StringFlag{Name: "model", Usage: "`ID` of the model that the agent will use: decided before anything starts"},
			&cli.StringSliceFlag{Name: "allow-self-search", Usage: "let this `MODEL` (or vendor/*) in although it may search by itself; recorded"},
			&cli.StringSliceFlag{Name: "reach", Usage: "instead of a command: tell, as the agent, whether `URL` answers"},
			&cli.StringFlag{Name: "resolver", Usage: "name server in place of the system's (`ADDR`)"},
			&cli.StringSliceFlag{Name: "resolve-host", Usage: "answer for a name in advance: `NAME:PORT:ADDR`"},
			&cli.StringFlag{Name: "upstream-ca", Usage: "further authorities to trust upstream, PEM (`FILE`)"},
			&cli.StringFlag{Name: "log", Usage: "append every decision here (`FILE`, JSON lines)"},
			&cli.StringFlag{Name: "record", Usage: "write the record of the run here (`FILE`, JSON)"},
			&cli.BoolFlag{Name: "report", Usage: "print what the proxy refused, at the end"}),
		Action: execAction,
	}
}

func execAction(c *cli.Context) error {
	if err := needRoot("exec"); err != nil {
		return err
	}
	o, err := execOptions(c)
	if err != nil {
		return err
	}
	rec, err := openRecord(c)
	if err != nil {
		return err
	}
	defer rec.Close()
	o.Event = rec.Add
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	ops, err := newOperations(ctx, o.RunID, rec)
	if err != nil {
		return err
	}
	defer ops.close()
	o.Halt = ops.halt
	o.Edits = watchPolicy(ctx, c.String("policy"), o)
	restore, err := terminal(ctx, &o.Agent)
	if err != nil {
		return err
	}
	exit, result, err := battery.Exec(ctx, *o)
	restore()
	flushLines()
	if result != nil {
		rec.SetEnforcement(record.Enforcement{State: result.Enforcement.State, Reason: result.Enforcement.Reason})
		if werr := writeRecord(c.String("record"), result); err == nil {
			err = werr
		}
	}
	if c.Bool("report") {
		reportRefused(rec.Blocked(""))
	}
	if err == nil {
		err = rec.Err()
	}
	return execExit(exit, err)
}

// execExit gives the failures that shells have exit codes for theirs.
func execExit(exit int, err error) error {
	var timeout *battery.TimeoutError
	var program *battery.NoProgramError
	switch {
	case errors.As(err, &timeout):
		return &command.Exit{Code: exitTimeout, Err: err}
	case errors.As(err, &program) && program.NotRunnable:
		return &command.Exit{Code: exitNotRunnable, Err: err}
	case errors.As(err, &program):
		return &command.Exit{Code: exitNoProgram, Err: err}
	case err != nil:
		return err
	case exit != 0:
		return &command.Exit{Code: exit}
	}
	return nil
}

// execOptions reads what the command line asks for, cheapest checks first, and
// everything that can be refused before anything starts.
func execOptions(c *cli.Context) (*battery.ExecOptions, error) {
	o := &battery.ExecOptions{RunID: proxy.NewRunID(), Self: []string{"/proc/self/exe"}, Services: map[string]*image.Resolved{}, Note: execNote}
	if err := execCommands(c, o); err != nil {
		return nil, err
	}
	var err error
	if o.Policy, err = command.ReadPolicy(c.String("policy")); err != nil {
		return nil, err
	}
	if err := decideModel(c, o.Policy); err != nil {
		return nil, err
	}
	entering, err := o.Policy.Enter(os.LookupEnv, c.StringSlice("env"))
	if err != nil {
		return nil, err
	}
	for _, w := range entering.Warnings {
		execNote(w)
	}
	o.Env = assignments(entering.Variables)
	if o.Upstream, err = upstream(c); err != nil {
		return nil, err
	}
	if o.Driver, err = openDriver(c.String("driver")); err != nil {
		return nil, err
	}
	if o.Hold, err = sibling("wallproof-probe"); err != nil {
		return nil, err
	}
	if o.Image, err = resolveImage(c.Context, c.String("image"), image.Options{ResolveTag: c.Bool("resolve"), Platform: c.String("platform")}); err != nil {
		return nil, err
	}
	for _, s := range o.Policy.Services {
		if o.Services[s.Name], err = resolveImage(c.Context, s.Image, image.Options{Platform: c.String("platform")}); err != nil {
			return nil, fmt.Errorf("the service %s: %w", s.Name, err)
		}
	}
	return o, execSecrets(c, o)
}

// execSecrets fetches what the policy keeps elsewhere. What cannot be read stops
// the run before anything is started.
func execSecrets(c *cli.Context, o *battery.ExecOptions) error {
	values, err := new(secret.Resolver).Policy(c.Context, o.Policy)
	if err != nil {
		return fmt.Errorf("nothing was run: %w", err)
	}
	o.Secrets, o.BrokerKeys = heldSecrets(o.Policy, values.Secrets, nil), values.BrokerKeys
	if e := values.Egress; e != nil {
		o.Egress = &proxy.Egress{Address: o.Policy.Egress.Address, ServerCAPEM: e.ServerCA, CertPEM: e.Cert, KeyPEM: e.Key}
	}
	l := o.Policy.Environment.Login
	switch {
	case l == nil:
		return nil
	case c.String("agent") != l.Agent:
		execNote(fmt.Sprintf("the policy's login is for the agent %s alone, and does not enter; name the agent with --agent", l.Agent))
		return nil
	}
	login, err := new(secret.Resolver).Resolve(c.Context, l.From)
	if err != nil {
		return fmt.Errorf("nothing was run: the login of %s: %w", l.Agent, err)
	}
	o.Login = []byte(login)
	return nil
}

// execCommands reads what to run.
func execCommands(c *cli.Context, o *battery.ExecOptions) error {
	argv := c.Args().Slice()
	if reach := c.StringSlice("reach"); len(reach) > 0 {
		if len(argv) > 0 {
			return errors.New("--reach takes the place of a command; leave one of them out")
		}
		argv = append([]string{sandbox.ReservedDir + "/wallproof-probe", "reach"}, reach...)
	}
	if len(argv) == 0 {
		return errors.New("no command given; put it after --")
	}
	o.Agent = sandbox.Command{Argv: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	for _, p := range []struct {
		flag string
		into **sandbox.Command
	}{{"setup", &o.Setup}, {"verifier", &o.Verifier}, {"orchestrator", &o.Orchestrator}} {
		text := c.String(p.flag)
		if !c.IsSet(p.flag) {
			continue
		}
		words, err := splitWords(text)
		if err != nil {
			return fmt.Errorf("--%s: %w", p.flag, err)
		}
		*p.into = &sandbox.Command{Argv: words, Stdout: prefixed(os.Stdout, p.flag), Stderr: prefixed(os.Stderr, p.flag)}
	}
	for _, t := range c.StringSlice("task") {
		name, text, ok := strings.Cut(t, "=")
		words, err := splitWords(text)
		if !ok || err != nil {
			return fmt.Errorf("--task %q is not NAME=COMMAND: %w", t, errors.Join(err))
		}
		o.Tasks = append(o.Tasks, battery.ExecTask{Name: name, Command: sandbox.Command{Argv: words, Stdout: prefixed(os.Stdout, name), Stderr: prefixed(os.Stderr, name)}})
	}
	var err error
	o.User, err = parseUser(c.String("user"))
	if err == nil && o.User != nil && o.User.UID == 0 {
		execNote("the agent runs as root of its sandbox: the policy holds all the same, but what it leaves there is root's")
	}
	return err
}

// parseUser reads UID[:GID].
func parseUser(s string) (*sandbox.User, error) {
	if s == "" {
		return nil, nil
	}
	u, g, both := strings.Cut(s, ":")
	if !both {
		g = u
	}
	uid, err1 := strconv.ParseUint(u, 10, 16)
	gid, err2 := strconv.ParseUint(g, 10, 16)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("--user %q is not UID or UID:GID, each 0 to 65535", s)
	}
	return &sandbox.User{UID: uint32(uid), GID: uint32(gid)}, nil
}

// decideModel decides on the model before anything starts. An override is the
// operator's alone; it is part of the policy that is enforced and recorded.
func decideModel(c *cli.Context, p *policy.Policy) error {
	if over := c.StringSlice("allow-self-search"); len(over) > 0 {
		if p.Model == nil {
			return errors.New("--allow-self-search: the policy has no model")
		}
		p.Model.SelfSearch = append(slices.Clone(p.Model.SelfSearch), over...)
		slices.Sort(p.Model.SelfSearch)
		p.Model.SelfSearch = slices.Compact(p.Model.SelfSearch)
	}
	id := c.String("model")
	if id == "" {
		return nil
	}
	if v := proxy.DecideModel(p, id); !v.Allowed {
		return fmt.Errorf("nothing was run: the model %s, by the route %s, is refused (%s): %s", id, v.Route, v.Reason, v.Remedy)
	}
	return nil
}

func upstream(c *cli.Context) (proxy.Upstream, error) {
	up := proxy.Upstream{Resolver: c.String("resolver")}
	var err error
	if up.Resolve, err = standalone.Pins(c.StringSlice("resolve-host")); err != nil {
		return up, err
	}
	if path := c.String("upstream-ca"); path != "" {
		pem, err := files.Read(path, policy.MaxBytes)
		if err != nil {
			return up, fmt.Errorf("read the upstream authorities: %w", err)
		}
		up.RootsPEM, up.SystemRoots = string(pem), true
	}
	return up, nil
}

// heldSecrets are the secrets as the proxy holds them, each with what stands in
// its place inside: the policy's placeholder, the one it had, or a new one.
func heldSecrets(p *policy.Policy, values map[string]string, old []proxy.Secret) []proxy.Secret {
	out := []proxy.Secret{}
	for _, s := range p.Secrets {
		placeholder := s.Placeholder
		for _, o := range old {
			if placeholder == "" && o.Name == s.Name {
				placeholder = o.Placeholder
			}
		}
		if placeholder == "" {
			placeholder = proxy.NewPlaceholder()
		}
		out = append(out, proxy.Secret{Name: s.Name, Value: values[s.Name], Placeholder: placeholder})
	}
	return out
}

// assignments writes variables as NAME=VALUE.
func assignments(list []policy.Variable) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// execNote says something to the operator.
func execNote(text string) { fmt.Fprintln(os.Stderr, "wallproof: "+term.Clean(text)) }

func openRecord(c *cli.Context) (*record.Recorder, error) {
	if path := c.String("log"); path != "" {
		return record.Open(path, os.Getenv("USER"))
	}
	return record.New(os.Getenv("USER")), nil
}

func reportRefused(blocked []record.BlockedHost) {
	for _, b := range blocked {
		fmt.Fprintf(os.Stderr, "wallproof: refused %s, %d times, last at %s: %s\n", term.Clean(b.Host), b.Count, b.LastSeen, b.Reason)
	}
}

// writeRecord writes the record whole or not at all.
func writeRecord(path string, r *battery.ExecRecord) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	tmp := path + ".new"
	err = os.WriteFile(tmp, append(b, '\n'), 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}
