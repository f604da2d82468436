package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/standalone"
)

// defaultOperator is where a proxy answers its operator: a socket that no
// sandbox mounts.
func defaultOperator() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "wallproof-proxy.sock")
	}
	return "/run/wallproof-proxy.sock"
}

// proxyUserFlag is who a proxy is once it serves.
func proxyUserFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "user", Usage: "become `UID[:GID]` once it serves (root only); the policy must be readable for it"}
}

func proxyUser(c *cli.Context) (*standalone.User, error) {
	u, err := parseUser(c.String("user"))
	if u == nil || err != nil {
		return &standalone.User{}, err
	}
	return &standalone.User{UID: int(u.UID), GID: int(u.GID)}, nil
}

func operatorFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "operator", Usage: "Unix socket for status, logs and metrics (`FILE`)", Value: defaultOperator()}
}

func proxyCommand() *cli.Command {
	return &cli.Command{
		Name:  "proxy",
		Usage: "run the enforcing proxy as an ordinary HTTP(S) proxy in front of any sandbox",
		Description: "Resolves the policy's secrets, writes the run's certificate, and serves until it is interrupted; then it stops\n" +
			"gracefully, after lingering if the policy says so. Edits of the policy file take effect as they are saved. Once it serves\n" +
			"it gives up capabilities, new programs and most of the kernel's interfaces; --user makes root somebody else.\n\n" +
			"Examples:\n   wallproof proxy --policy policy.yaml --listen 127.0.0.1:3128 --ca-out ca.pem\n" +
			"   wallproof proxy --policy policy.yaml --listen 127.0.0.1:3128 --socks 127.0.0.1:1080 --ca-out ca.pem --log events.jsonl\n" +
			"   wallproof proxy status",
		Flags: []cli.Flag{command.PolicyFlag(),
			&cli.StringSliceFlag{Name: "listen", Usage: "`ADDR` of the HTTP proxy, host:port (repeatable)"},
			&cli.StringSliceFlag{Name: "socks", Usage: "`ADDR` of the SOCKS5 proxy"},
			&cli.StringSliceFlag{Name: "dns", Usage: "`ADDR` of the resolver, over UDP and TCP"},
			&cli.StringFlag{Name: "ca-out", Usage: "write the certificate that sandboxes must trust here (`FILE`)"},
			&cli.StringFlag{Name: "env-out", Usage: "write the variables for the sandbox here (`FILE`)"},
			&cli.StringFlag{Name: "upstream-ca", Usage: "further authorities to trust upstream, PEM (`FILE`)"},
			&cli.StringFlag{Name: "resolver", Usage: "name server in place of the system's (`ADDR`)"},
			&cli.StringSliceFlag{Name: "resolve", Usage: "answer for a name in advance: `NAME:PORT:ADDR`"},
			&cli.StringFlag{Name: "log", Usage: "append every decision here (`FILE`, JSON lines)"},
			&cli.StringFlag{Name: "run", Usage: "`ID` of the run in logs"},
			proxyUserFlag(),
			operatorFlag(),
		},
		Action: proxyAction,
		Subcommands: []*cli.Command{{
			Name: "status", Usage: "ask a running proxy what it enforces",
			Description: "Example:\n   wallproof proxy status",
			Flags:       []cli.Flag{operatorFlag(), command.OutputFlag("text or json")},
			Action:      proxyStatus,
		}, egressAgentCommand()},
	}
}

// egressAgentCommand is the far end of the policy's egress tunnel.
func egressAgentCommand() *cli.Command {
	return &cli.Command{
		Name: "agent", Usage: "run the egress agent, through which the traffic of proxies elsewhere leaves",
		Description: "A proxy whose policy has `egress` sends all its traffic here, over TLS with certificates on both sides. The agent enforces\n" +
			"the same policy a second time, holds no secret, and records what it refuses.\n\n" +
			"Example:\n   wallproof proxy agent --policy policy.yaml --listen 10.0.0.5:8443 --cert agent.pem --key agent.key --client-ca proxies.pem",
		Flags: []cli.Flag{command.PolicyFlag(),
			&cli.StringFlag{Name: "listen", Usage: "`ADDR` for proxies, host:port"},
			&cli.StringFlag{Name: "cert", Usage: "the agent's certificate, PEM (`FILE`)"},
			&cli.StringFlag{Name: "key", Usage: "its private key, PEM (`FILE`)"},
			&cli.StringFlag{Name: "client-ca", Usage: "authority of the proxies that may use it, PEM (`FILE`)"},
			&cli.StringFlag{Name: "resolver", Usage: "name server in place of the system's (`ADDR`)"},
			&cli.StringSliceFlag{Name: "resolve", Usage: "answer for a name in advance: `NAME:PORT:ADDR`"},
			&cli.StringFlag{Name: "log", Usage: "append every decision here (`FILE`, JSON lines)"},
			&cli.StringFlag{Name: "run", Usage: "`ID` of the run in logs"},
			proxyUserFlag(),
			&cli.StringFlag{Name: "operator", Usage: "Unix socket for status, logs and metrics (`FILE`); none by default"},
		},
		Action: func(c *cli.Context) error {
			for _, name := range []string{"policy", "listen", "cert", "key", "client-ca"} {
				if c.String(name) == "" {
					return fmt.Errorf("the egress agent needs --%s", name)
				}
			}
			user, err := proxyUser(c)
			if err != nil {
				return err
			}
			second, stop := secondSignal(c.Context)
			defer stop()
			return standalone.Run(c.Context, second, standalone.Options{
				Confine:    user,
				PolicyFile: c.String("policy"), Resolver: c.String("resolver"), Resolve: c.StringSlice("resolve"), LogFile: c.String("log"),
				RunID: c.String("run"), User: os.Getenv("USER"), Operator: c.String("operator"), Messages: os.Stderr,
				Listen: []standalone.Listen{{Kind: proxy.KindAgent, Addr: c.String("listen")}},
				Agent:  &standalone.AgentFiles{Cert: c.String("cert"), Key: c.String("key"), ClientCA: c.String("client-ca")},
				Ready:  sayListening,
			})
		},
	}
}

func sayListening(i *standalone.Instance) {
	for _, a := range i.Addrs {
		fmt.Fprintln(os.Stderr, "wallproof: listening on "+a.String())
	}
}

func proxyAction(c *cli.Context) error {
	if c.String("policy") == "" || len(c.StringSlice("listen"))+len(c.StringSlice("socks")) == 0 {
		return errors.New("the proxy needs --policy FILE and --listen ADDR")
	}
	o := standalone.Options{PolicyFile: c.String("policy"), CAOut: c.String("ca-out"), EnvOut: c.String("env-out"), UpstreamCA: c.String("upstream-ca"),
		Resolver: c.String("resolver"), Resolve: c.StringSlice("resolve"), LogFile: c.String("log"), RunID: c.String("run"), User: os.Getenv("USER"),
		Operator: c.String("operator"), Messages: os.Stderr,
		Ready: sayListening}
	for _, l := range []struct {
		flag  string
		kinds []proxy.Kind
	}{{"listen", []proxy.Kind{proxy.KindExplicit}}, {"socks", []proxy.Kind{proxy.KindSOCKS}}, {"dns", []proxy.Kind{proxy.KindDNSUDP, proxy.KindDNSTCP}}} {
		for _, addr := range c.StringSlice(l.flag) {
			for _, kind := range l.kinds {
				o.Listen = append(o.Listen, standalone.Listen{Kind: kind, Addr: addr})
			}
		}
	}
	var err error
	if o.Confine, err = proxyUser(c); err != nil {
		return err
	}
	second, stop := secondSignal(c.Context)
	defer stop()
	return standalone.Run(c.Context, second, o)
}

// secondSignal ends with the second interrupt: the first asks the proxy to stop
// gracefully, the second ends its lingering.
func secondSignal(first context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case <-first.Done():
		case <-ctx.Done():
			return
		}
		select { // what ended the first context arrives here, too
		case <-signals:
		case <-time.After(time.Second):
		}
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
