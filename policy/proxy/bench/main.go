//go:build linux

// Bench measures the enforcing proxy beside what a user would pick instead, on
// one machine, in one run, with one client: elazarl/goproxy as a Go module, and
// squid and mitmproxy where they are installed. Ours runs with redaction, a
// record of every decision, and a policy of 1,000 entries. It is a module of its
// own, so that nothing of it is in the product.
//
//	go run . [-seconds 5] [-conns 50] [-kinds splice,intercept,plain,download]
//
// Each contender is a process of its own; client, origin and contender share the
// machine, so read the figures as ratios.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		if err := roles[os.Args[1]](os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	seconds := flag.Int("seconds", 5, "how long each row is measured")
	conns := flag.Int("conns", 50, "keep-alive connections of the client")
	only := flag.String("kinds", strings.Join(kinds, ","), "what is measured, separated by commas")
	flag.Parse()
	if err := run(strings.Split(*only, ","), time.Duration(*seconds)*time.Second, *conns); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// roles are what the program is when it starts itself; each reads its settings
// from the JSON file that it is given.
var roles = map[string]func(settings string) error{
	"role-origin": serveOrigin, "role-ours": serveOurs, "role-goproxy": serveGoproxy,
}

// row is one line of the table.
type row struct {
	kind, who string
	result    result
	memory    int64 // KiB, resident
	ratio     float64
}

func run(kinds []string, length time.Duration, conns int) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.close()
	var rows []row
	for _, kind := range kinds {
		var first float64
		for _, who := range b.contenders(kind) {
			r, mem, err := b.measure(kind, who, length, conns)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", kind, who, err)
			}
			if who == "ours" {
				first = r.rate
			}
			rows = append(rows, row{kind, who, r, mem, first / r.rate})
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kind\twho\trate\tp50 ms\tp99 ms\tMiB\tours ÷ it\t")
	for _, r := range rows {
		rate := fmt.Sprintf("%.0f req/s", r.result.rate)
		if r.kind == "download" {
			rate = fmt.Sprintf("%.0f MB/s", r.result.rate)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%.2f\t%d\t%.2f\t\n", r.kind, r.who, rate, ms(r.result.p50), ms(r.result.p99), r.memory/1024, r.ratio)
	}
	return w.Flush()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
