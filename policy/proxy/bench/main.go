//go:build linux

// Bench measures the enforcing proxy beside what a user would pick instead, on
// one machine, in one run, with one client: elazarl/goproxy and stripe/smokescreen as
// Go modules, and squid and mitmproxy where they are installed. Ours runs with redaction, a
// record of every decision, and a policy of 1,000 entries. It is a module of its
// own, so that nothing of it is in the product.
//
//	go run . [-seconds 5] [-conns 50] [-rounds 3] [-kinds splice,intercept,plain,download]
//
// Each contender is a process of its own; client, origin and contender share the
// machine, so read the figures as ratios.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
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
	rounds := flag.Int("rounds", 3, "how often each contender is measured, in turn")
	only := flag.String("kinds", strings.Join(kinds, ","), "what is measured, separated by commas")
	flag.Parse()
	if err := run(strings.Split(*only, ","), time.Duration(*seconds)*time.Second, *conns, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// roles are what the program is when it starts itself; each reads its settings
// from the JSON file that it is given.
var roles = map[string]func(settings string) error{
	"role-origin": serveOrigin, "role-ours": serveOurs, "role-goproxy": serveGoproxy, "role-smokescreen": serveSmokescreen,
}

// row is what was measured of one contender at one kind of work: the median of the
// rounds. ratio is ours ÷ it, the median of the ratios within each round.
type row struct {
	kind, who          string
	rate, ratio        float64
	p50, p99, p99Ratio float64 // milliseconds; p99Ratio is ours ÷ it
	memory             float64 // MiB, resident
	cpu, cpuRatio      float64 // processor time of the contender a request, microseconds; cpuRatio is ours ÷ its
}

// run measures every contender in each of several rounds, one after another, so
// that what else happens on the machine meets all of them alike.
func run(kinds []string, length time.Duration, conns, rounds int) error {
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.close()
	if err := printHead(); err != nil {
		return err
	}
	for _, kind := range kinds {
		all := map[string][]sample{}
		who := b.contenders(kind)
		failed := map[string]bool{}
		for range rounds {
			for _, name := range who {
				if failed[name] {
					continue
				}
				r, mem, err := b.measure(kind, name, length, conns)
				if err != nil && name == "ours" {
					return fmt.Errorf("%s, %s: %w", kind, name, err)
				}
				if err != nil { // it says so, and the others are measured all the same
					fmt.Fprintf(os.Stderr, "bench: no row for %s, %s: %v\n", kind, name, err)
					failed[name] = true
					continue
				}
				all[name] = append(all[name], sample{r.rate, ms(r.p50), ms(r.p99), float64(mem) / 1024, 1000 * ms(r.cpu)})
			}
		}
		for _, name := range who {
			if failed[name] {
				continue
			}
			if err := summary(kind, name, all["ours"], all[name]).print(); err != nil {
				return err
			}
		}
	}
	return nil
}

type sample struct{ rate, p50, p99, memory, cpu float64 }

func summary(kind, who string, ours, its []sample) row {
	pick := func(f func(int) float64) float64 {
		var v []float64
		for i := range its {
			v = append(v, f(i))
		}
		sort.Float64s(v)
		return v[len(v)/2]
	}
	return row{
		kind: kind, who: who,
		rate: pick(func(i int) float64 { return its[i].rate }), ratio: pick(func(i int) float64 { return ours[i].rate / its[i].rate }),
		p50: pick(func(i int) float64 { return its[i].p50 }), p99: pick(func(i int) float64 { return its[i].p99 }),
		p99Ratio: pick(func(i int) float64 { return ours[i].p99 / its[i].p99 }), memory: pick(func(i int) float64 { return its[i].memory }),
		cpu: pick(func(i int) float64 { return its[i].cpu }), cpuRatio: pick(func(i int) float64 { return ours[i].cpu / max(its[i].cpu, 1) }),
	}
}

// printHead and print write a table in Markdown, as far as it is known.
func printHead() error {
	_, err := fmt.Println("| work | who | rate | p50 ms | p99 ms | MiB | CPU µs/req | ours ÷ it, rate | ours ÷ it, p99 | ours ÷ it, CPU |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	return err
}

func (r row) print() error {
	rate := fmt.Sprintf("%.0f req/s", r.rate)
	if r.kind == "download" {
		rate = fmt.Sprintf("%.0f MB/s", r.rate)
	}
	cpu := "– |"
	if r.cpu > 0 {
		cpu = fmt.Sprintf("%.2f |", r.cpuRatio)
	}
	_, err := fmt.Printf("| %s | %s | %s | %.2f | %.2f | %.0f | %.0f | %.2f | %.2f | %s\n", r.kind, r.who, rate, r.p50, r.p99, r.memory, r.cpu, r.ratio, r.p99Ratio, cpu)
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
