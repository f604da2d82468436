//go:build breaks

// Command wallproof-breaks tests the battery itself: it opens one hole in the
// boundary, as a file describes, runs the techniques that must notice, and fails
// when none did. Only this binary has the hooks for it.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/battery/breaks"
	"github.com/wallproof/wallproof/internal/reexec"
	"github.com/wallproof/wallproof/internal/term"
)

func main() {
	if code, ok := reexec.Main(os.Args); ok {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app := cli.NewApp()
	app.Name = "wallproof-breaks"
	app.Usage = "open one hole in the boundary and see whether the battery notices"
	app.HideVersion = true
	app.Commands = []*cli.Command{{
		Name: "run", Usage: "run seeded breaks, each from its file", ArgsUsage: "FILE…",
		Description: "Ends with a line a vector and `total: N/N`; exit code 2 when a break was missed.\n\nExample:\n   wallproof-breaks run testdata/breaks/*.yaml",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "parallel", Value: 0, Usage: "tries at once; 0 chooses by processors and memory"},
			&cli.BoolFlag{Name: "all", Usage: "run the whole battery for each break, not only the techniques that must catch it"},
		},
		Action: func(c *cli.Context) error { return runFiles(c) },
	}, {
		Name: "sample", Usage: "write breaks of all kinds with parameters drawn from a seed", ArgsUsage: "DIR",
		Description: "The same seed writes the same files. They are tried with `wallproof-breaks run DIR/*.yaml`.",
		Flags: []cli.Flag{
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "what the parameters are drawn from"},
			&cli.IntFlag{Name: "count", Value: 64, Usage: "how many, at most 1000"},
		},
		Action: func(c *cli.Context) error { return writeSample(c) },
	}}
	app.ExitErrHandler = func(*cli.Context, error) {}
	if err := app.RunContext(ctx, os.Args); err != nil {
		term.Error(os.Stderr, err)
		if errors.Is(err, errMissed) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

var errMissed = errors.New("a seeded break was not noticed")

func runFiles(c *cli.Context) error {
	files := c.Args().Slice()
	if len(files) == 0 {
		return errors.New("name at least one file; `wallproof-breaks run --help` shows how")
	}
	list, refused := readAll(files)
	if len(list) == 0 {
		return errors.Join(refused...)
	}
	for _, err := range refused {
		fmt.Fprintf(c.App.Writer, "REFUSED %v\n", err)
	}
	s, err := newStand(c.Context, c.App.Writer, list, c.Bool("all"))
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.runAll(c.Context, list, c.Int("parallel")); err != nil {
		return err
	}
	switch caught, total := s.summary(len(refused)); {
	case caught < total-len(refused):
		return errMissed
	case len(refused) > 0:
		return fmt.Errorf("%d of %d files were refused, each for the reason above, and not tried", len(refused), len(files))
	}
	return nil
}

// maxSample bounds how many breaks are written at once.
const maxSample = 1000

func writeSample(c *cli.Context) error {
	dir, n := c.Args().First(), c.Int("count")
	if dir == "" || c.NArg() != 1 {
		return errors.New("name one folder; `wallproof-breaks sample --help` shows how")
	}
	if n < 1 || n > maxSample {
		return fmt.Errorf("--count %d: 1 to %d", n, maxSample)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	list := breaks.Sample(c.Uint64("seed"), n)
	for _, name := range slices.Sorted(maps.Keys(list)) {
		path := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(path, []byte(list[name]), 0o644); err != nil {
			return fmt.Errorf("write a break: %w", err)
		}
		fmt.Fprintln(c.App.Writer, path)
	}
	return nil
}

// readAll reads every file before anything is started, and says what is wrong with
// those that are no break. The others can be tried all the same.
func readAll(files []string) (list []*breaks.Break, refused []error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			refused = append(refused, fmt.Errorf("read a break: %w", err))
			continue
		}
		b, err := breaks.Parse(file, data)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		list = append(list, b)
	}
	return list, refused
}
