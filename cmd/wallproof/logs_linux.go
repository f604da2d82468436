package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy/proxy/record"
)

// operatorTimeout bounds a question to a running proxy, maxAnswer its answer.
const (
	operatorTimeout = 10 * time.Second
	maxAnswer       = 64 << 20
)

func logsCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "run", Usage: "`ID` of the run"},
		&cli.StringFlag{Name: "log", Usage: "read a proxy's log in place of asking a running one (`FILE`)"},
		operatorFlag(), command.OutputFlag("text or json"),
	}
	return &cli.Command{
		Name: "logs", Usage: "blocked hosts and egress routes: names and counts only",
		Subcommands: []*cli.Command{
			{Name: "blocked", Usage: "hosts that were refused", Flags: flags,
				Description: "Examples:\n   wallproof logs blocked --run 1f2e3d4c\n   wallproof logs blocked --log events.jsonl --output json",
				Action:      func(c *cli.Context) error { return showLog(c, true, false) }},
			{Name: "routes", Usage: "hosts that were reached, or not, and how", Flags: flags,
				Description: "Example:\n   wallproof logs routes --log events.jsonl",
				Action:      func(c *cli.Context) error { return showLog(c, false, true) }},
			{Name: "report", Usage: "both, for one run", Flags: flags,
				Description: "Example:\n   wallproof logs report --log events.jsonl --run 1f2e3d4c",
				Action:      func(c *cli.Context) error { return showLog(c, true, true) }},
		},
	}
}

// runLog is what a log says of a run, or of all.
type runLog struct {
	Run     string               `json:"run"`
	Blocked []record.BlockedHost `json:"blockedHosts,omitzero"`
	Routes  []record.Route       `json:"egressRoutes,omitzero"`
}

func showLog(c *cli.Context, blocked, routes bool) error {
	l, err := readLog(c, blocked, routes)
	if err != nil {
		return err
	}
	if c.String("output") == "json" {
		return command.PrintJSON(c.App.Writer, l)
	}
	return l.print(c.App.Writer)
}

// readLog reads a file, or asks a running proxy.
func readLog(c *cli.Context, blocked, routes bool) (*runLog, error) {
	l := &runLog{Run: c.String("run")}
	if path := c.String("log"); path != "" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		defer f.Close()
		r, err := record.Read(f, os.Getenv("USER"))
		if err != nil {
			return nil, fmt.Errorf("read the log %s: %w", path, err)
		}
		if blocked {
			l.Blocked = r.Blocked(l.Run)
		}
		if routes {
			l.Routes = r.Routes(l.Run)
		}
		return l, nil
	}
	if l.Run == "" {
		return nil, errors.New("name the run with --run ID, or a log with --log FILE")
	}
	base := "/v1/runs/" + url.PathEscape(l.Run)
	if blocked {
		if err := askOperator(c.Context, c.String("operator"), base+"/blocked-hosts", l); err != nil {
			return nil, err
		}
	}
	if routes {
		return l, askOperator(c.Context, c.String("operator"), base+"/egress-routes", l)
	}
	return l, nil
}

func (l *runLog) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if l.Blocked != nil {
		fmt.Fprintln(t, "BLOCKED HOST\tSEEN\tFIRST\tLAST\tREFUSED BY\tREASON\tRUN\tUSER")
		for _, b := range l.Blocked {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", term.Clean(b.Host), b.Count, b.FirstSeen, b.LastSeen, term.Clean(b.Point), term.Clean(b.Reason), term.Clean(b.Run), term.Clean(b.User))
		}
	}
	if l.Blocked != nil && l.Routes != nil {
		fmt.Fprintln(t)
	}
	if l.Routes != nil {
		fmt.Fprintln(t, "EGRESS ROUTE\tROUTE\tSEEN\tSENT\tRECEIVED\tFIRST\tLAST\tRUN")
		for _, r := range l.Routes {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", term.Clean(r.Host), term.Clean(r.Route), r.Count, strconv.FormatInt(r.Up, 10), strconv.FormatInt(r.Down, 10), r.FirstSeen, r.LastSeen, term.Clean(r.Run))
		}
	}
	return t.Flush()
}

// proxyStatus asks a running proxy what it enforces.
func proxyStatus(c *cli.Context) error {
	var s record.Status
	if err := askOperator(c.Context, c.String("operator"), "/v1/status", &s); err != nil {
		return err
	}
	if c.String("output") == "json" {
		return command.PrintJSON(c.App.Writer, s)
	}
	state := s.Enforcement.State
	if s.Enforcement.Reason != "" {
		state += " (" + term.Clean(s.Enforcement.Reason) + ")"
	}
	fmt.Fprintf(c.App.Writer, "enforcement  %s\nblocked      %d hosts\nroutes       %d\n", state, s.Blocked, s.Routes)
	if l := s.Lingering; l != nil {
		fmt.Fprintf(c.App.Writer, "lingering    %s, until %s\n", l.State, l.Until.UTC().Format(time.RFC3339))
	}
	return nil
}

// askOperator asks a running proxy over its operator's socket.
func askOperator(ctx context.Context, socket, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
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
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("ask the proxy at %s: read its answer: %w", socket, err)
	}
	return nil
}
