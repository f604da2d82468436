package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/record"
	"github.com/wallproof/wallproof/policy/proxy/standalone"
)

// operatorTimeout bounds a question to a running proxy, maxAnswer its answer.
const (
	operatorTimeout = 10 * time.Second
	maxAnswer       = 64 << 20
)

// defaultOperator is where a proxy answers its operator: a socket that no
// sandbox mounts.
func defaultOperator() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "wallproof-proxy.sock")
	}
	return "/run/wallproof-proxy.sock"
}

func operatorFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "operator", Usage: "Unix socket for status, logs and metrics (`FILE`)", Value: defaultOperator()}
}

func proxyCommand() *cli.Command {
	return &cli.Command{
		Name:  "proxy",
		Usage: "run the enforcing proxy as an ordinary HTTP(S) proxy in front of any sandbox",
		Description: "Resolves the policy's secrets, writes the run's certificate, and serves until it is interrupted; then it stops\n" +
			"gracefully, after lingering if the policy says so. Edits of the policy file take effect as they are saved.\n\n" +
			"Examples:\n   wallproof proxy --policy policy.yaml --listen 127.0.0.1:3128 --ca-out ca.pem\n" +
			"   wallproof proxy --policy policy.yaml --listen 127.0.0.1:3128 --socks 127.0.0.1:1080 --ca-out ca.pem --log events.jsonl\n" +
			"   wallproof proxy status",
		Flags: []cli.Flag{policyFlag(),
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
			operatorFlag(),
		},
		Action: proxyAction,
		Subcommands: []*cli.Command{{
			Name: "status", Usage: "ask a running proxy what it enforces",
			Description: "Example:\n   wallproof proxy status",
			Flags:       []cli.Flag{operatorFlag()},
			Action: func(c *cli.Context) error {
				return askOperator(c.Context, c.String("operator"), "/v1/status", c.App.Writer)
			},
		}},
	}
}

func proxyAction(c *cli.Context) error {
	if c.String("policy") == "" || len(c.StringSlice("listen"))+len(c.StringSlice("socks")) == 0 {
		return errors.New("the proxy needs --policy FILE and --listen ADDR")
	}
	o := standalone.Options{PolicyFile: c.String("policy"), CAOut: c.String("ca-out"), EnvOut: c.String("env-out"), UpstreamCA: c.String("upstream-ca"),
		Resolver: c.String("resolver"), Resolve: c.StringSlice("resolve"), LogFile: c.String("log"), RunID: c.String("run"), User: os.Getenv("USER"),
		Operator: c.String("operator"), Messages: os.Stderr,
		Ready: func(i *standalone.Instance) {
			for _, a := range i.Addrs {
				fmt.Fprintln(os.Stderr, "wallproof: listening on "+a.String())
			}
		}}
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

// askOperator asks a running proxy over its operator's socket.
func askOperator(ctx context.Context, socket, path string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://operator"+path, nil)
	if err != nil {
		return fmt.Errorf("ask the proxy: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the proxy at %s: %w; is it running, and with this --operator?", socket, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the proxy at %s: it answers %s", socket, resp.Status)
	}
	_, err = io.Copy(w, io.LimitReader(resp.Body, maxAnswer))
	return err
}

func logsCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "run", Usage: "`ID` of the run"},
		&cli.StringFlag{Name: "log", Usage: "read a proxy's log in place of asking a running one (`FILE`)"},
		operatorFlag(),
	}
	return &cli.Command{
		Name: "logs", Usage: "blocked hosts and egress routes: names and counts only",
		Subcommands: []*cli.Command{
			{Name: "blocked", Usage: "hosts that were refused", Flags: flags,
				Description: "Examples:\n   wallproof logs blocked --run 1f2e3d4c\n   wallproof logs blocked --log events.jsonl",
				Action:      func(c *cli.Context) error { return showLog(c, "blocked-hosts") }},
			{Name: "routes", Usage: "hosts that were reached, or not, and how", Flags: flags,
				Description: "Example:\n   wallproof logs routes --log events.jsonl",
				Action:      func(c *cli.Context) error { return showLog(c, "egress-routes") }},
		},
	}
}

func showLog(c *cli.Context, what string) error {
	if path := c.String("log"); path != "" {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		defer f.Close()
		r, err := record.Read(f, os.Getenv("USER"))
		if err != nil {
			return fmt.Errorf("read the log %s: %w", path, err)
		}
		if what == "blocked-hosts" {
			return printJSON(c.App.Writer, r.Blocked(c.String("run")))
		}
		return printJSON(c.App.Writer, r.Routes(c.String("run")))
	}
	if c.String("run") == "" {
		return errors.New("name the run with --run ID, or a log with --log FILE")
	}
	return askOperator(c.Context, c.String("operator"), "/v1/runs/"+url.PathEscape(c.String("run"))+"/"+what, c.App.Writer)
}
