package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/bugreport"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/version"
	"github.com/wallproof/wallproof/verify"
)

// searchDepth is how many folders deep a run's packet is looked for.
const searchDepth = 4

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:      "report",
		Usage:     "put what a bug report about a run needs into one archive, with secrets masked",
		ArgsUsage: "[PACKET…]",
		Description: "Takes the run's packet, complete or not, what reading it strictly finds, the logs that are named, and facts about this\n" +
			"machine. Values of variables whose names look like keys, tokens, private keys and passwords are masked; host names\n" +
			"stay: read it before you send it. Without PACKET the run is looked for below the current folder.\n\n" +
			"Exit code: 0 written, 1 usage or I/O, and then nothing is written.\n\n" +
			"Examples:\n   wallproof report --run 1f2e3d4c\n   wallproof report --run 1f2e3d4c evidence/packet --log proxy.jsonl --out report.tar",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "run", Usage: "`ID` of the run"},
			&cli.StringSliceFlag{Name: "log", Usage: "a log to put in, masked (`FILE`, repeatable)"},
			&cli.StringFlag{Name: "out", Usage: "the archive (`FILE`, default: wallproof-report-ID.tar); never over an old one"},
		},
		Action: reportAction,
	}
}

func reportAction(c *cli.Context) error {
	id := c.String("run")
	if id == "" || strings.ContainsAny(id, "/\\") {
		return errors.New("name the run with --run ID; the first line of a packet's manifest.jsonl has it")
	}
	dir, err := findRun(id, c.Args().Slice())
	if err != nil {
		return err
	}
	s, err := reportSources(c, id, dir)
	if err != nil {
		return err
	}
	out := command.FirstOf(c.String("out"), "wallproof-report-"+id+".tar")
	f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	contents, err := bugreport.Write(f, s)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the report: %w", errors.Join(err, os.Remove(out)))
	}
	masked := 0
	for _, file := range contents.Files {
		masked += file.Masked
	}
	_, err = fmt.Fprintf(c.App.Writer, "  %s: %d files, %d values masked; contents.json lists them\n  read it before you send it: host names and paths are in clear\n", out, len(contents.Files), masked)
	return err
}

func reportSources(c *cli.Context, id, dir string) (bugreport.Sources, error) {
	p := os.DirFS(dir)
	_, checks := verify.Inspect(p, nil)
	s := bugreport.Sources{
		About: bugreport.About{RunID: id, Version: version.String(), Commit: version.Commit, Go: runtime.Version(),
			System: runtime.GOOS + "/" + runtime.GOARCH, Kernel: kernelRelease(), Variables: []string{}},
		Checks: checks, Packet: p, Logs: map[string][]byte{}, Env: os.Environ(),
	}
	for _, kv := range s.Env {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "WALLPROOF_") {
			s.About.Variables = append(s.About.Variables, name)
		}
	}
	slices.Sort(s.About.Variables)
	for _, path := range c.StringSlice("log") {
		data, err := files.Read(path, bugreport.MaxFileBytes)
		if err != nil {
			return s, fmt.Errorf("read the log: %w", err)
		}
		name := filepath.Base(path)
		if _, twice := s.Logs[name]; twice {
			return s, fmt.Errorf("two logs are called %s; rename one", name)
		}
		s.Logs[name] = data
	}
	return s, nil
}

// findRun finds the packet of a run among the folders named, or below the current
// one. An incomplete packet has its first line, too.
func findRun(id string, named []string) (string, error) {
	candidates := named
	if len(named) == 0 {
		candidates = packetsBelow(".")
	}
	for _, dir := range candidates {
		run, err := readRun(os.DirFS(dir))
		if err == nil && run.RunID == id {
			return dir, nil
		}
		if err != nil && len(named) > 0 {
			return "", fmt.Errorf("%s: %w", dir, err)
		}
	}
	if len(named) > 0 {
		return "", fmt.Errorf("run %s is not in %s", id, strings.Join(named, ", "))
	}
	return "", fmt.Errorf("no packet of run %s below the current folder (%d packets, %d folders deep); name it: wallproof report --run %[1]s PACKET", id, len(candidates), searchDepth)
}

// packetsBelow lists folders that hold a manifest.
func packetsBelow(root string) []string {
	var out []string
	// What cannot be read is not where the run is.
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		if d.IsDir() && strings.Count(filepath.ToSlash(path), "/") >= searchDepth {
			return fs.SkipDir
		}
		if !d.IsDir() && d.Name() == packet.ManifestFile {
			out = append(out, filepath.Dir(path))
		}
		return nil
	})
	return out
}
