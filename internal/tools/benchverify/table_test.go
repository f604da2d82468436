//go:build bench && linux

package benchverify

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/front"
	"github.com/wallproof/wallproof/verify"
)

// megabytes of the manifest that is hashed and read.
const megabytes = 1024

// rounds are how often the chain and SHA-256 read the manifest.
const rounds = 3

// TestTable prints the table.
func TestTable(t *testing.T) {
	fmt.Println("\n| what | measured | beside | ratio |\n| --- | --- | --- | --- |")
	manifestRows(t)
	inProcessRows(t)
	processRows(t)
}

func row(what, measured, beside string, ratio float64) {
	fmt.Printf("| %s | %s | %s | %.2f |\n", what, measured, beside, ratio)
}

// bulk writes a manifest of about so many megabytes to a file: the lines of a packet's,
// over and over, each with its own number and hash.
func bulk(t *testing.T, megabytes int) string {
	t.Helper()
	lines := bytes.Split(bytes.TrimSuffix(packettest.New(t).Files[packet.ManifestFile], []byte("\n")), []byte("\n"))
	path := filepath.Join(t.TempDir(), manifest.FileName)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	prev, written := manifest.Genesis, 0
	put := func(line []byte, seq int) {
		line = set(t, line, "prev", strconv.Quote(prev))
		line = set(t, line, "seq", strconv.Itoa(seq))
		sum := sha256.Sum256(line)
		prev = hex.EncodeToString(sum[:])
		written += len(line) + 1
		if _, err := out.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	put(lines[0], 0)
	seq := 1
	for entries := lines[1 : len(lines)-1]; written < megabytes<<20; seq++ {
		put(entries[seq%len(entries)], seq)
	}
	last := set(t, lines[len(lines)-1], "head", strconv.Quote(prev))
	put(set(t, last, "count", strconv.Itoa(seq+1)), seq)
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return path
}

// set is a line with another value of a member of its outermost object, whose
// name stands nowhere else behind it.
func set(t *testing.T, line []byte, name, value string) []byte {
	t.Helper()
	at := bytes.LastIndex(line, []byte(`"`+name+`":`))
	if at < 0 {
		t.Fatalf("no member %s in %.80s", name, line)
	}
	at += len(name) + 3
	end := at + bytes.IndexAny(line[at:], ",}")
	return slices.Concat(line[:at], []byte(value), line[end:])
}

// rate is MB/s of CPU time, which other programs on the machine disturb less
// than wall time.
func rate(t *testing.T, path string, fn func(io.Reader) error) float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start := cpu(t)
	if err := fn(f); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return float64(info.Size()) / 1e6 / (cpu(t) - start).Seconds()
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func manifestRows(t *testing.T) {
	t.Helper()
	path := bulk(t, megabytes)
	// In turns, and the best of each: the first to read a file finds it colder, and a
	// busy machine slows one and not the other.
	var sha, chain float64
	for range rounds {
		sha = max(sha, rate(t, path, func(r io.Reader) error { _, err := io.Copy(sha256.New(), r); return err }))
		chain = max(chain, rate(t, path, func(r io.Reader) error { _, _, err := manifest.Chain(r); return err }))
	}
	strict := rate(t, path, func(r io.Reader) error {
		for rd := manifest.NewReader(r); ; {
			if _, err := rd.Next(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	beside := fmt.Sprintf("SHA-256 %.0f MB/s", sha)
	row(fmt.Sprintf("manifest chain, %d MB", megabytes), fmt.Sprintf("%.0f MB/s", chain), beside, chain/sha)
	row("strict reader, chain and Merkle root", fmt.Sprintf("%.0f MB/s", strict), beside, strict/sha)
	memoryRows(t, path)
}

// memoryRows shows that a reader's memory does not grow with what it reads: its
// peak for the whole manifest beside that for a sixteenth of it. The Merkle root
// needs one hash a level of the tree, no more.
func memoryRows(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	reader, measure := tool(t, dir, "internal/tools/benchverify/readmanifest"), tool(t, dir, "internal/tools/benchverify/measure")
	short := bulk(t, megabytes/16)
	for _, how := range []string{"chain", "strict"} {
		long := usage(t, measure, 1, reader, how, path)
		less := usage(t, measure, 1, reader, how, short)
		row(fmt.Sprintf("memory of the %s reader, %d MB", how, megabytes), fmt.Sprintf("%.1f MB at its peak", float64(long.memory)/1024),
			fmt.Sprintf("%.1f MB for %d MB", float64(less.memory)/1024, megabytes/16), float64(long.memory)/float64(less.memory))
	}
}

func inProcessRows(t *testing.T) {
	t.Helper()
	p := packettest.New(t)
	whole, alone := p.Input(), p.Input()
	alone.Packet, alone.Bundle, alone.Verification = nil, p.Files[packet.AttestationFile], p.Files[packet.VerificationFile]
	for _, c := range []struct {
		name string
		in   verify.Input
	}{{"bundle and re-run, in process", alone}, {"whole packet, in process", whole}} {
		const n = 20
		start := cpu(t)
		for range n {
			if r := verify.Verify(c.in); r.Verdict != verify.Valid {
				t.Fatal(r.Failed())
			}
		}
		each := (cpu(t) - start) / n
		row(c.name, fmt.Sprintf("%.2f ms", each.Seconds()*1e3), fmt.Sprintf("%.0f a minute a core", time.Minute.Seconds()/each.Seconds()), each.Seconds()*1e3/3)
	}
}

// cost is what a process takes: medians of several runs.
type cost struct {
	wall, cpu float64 // milliseconds
	memory    int64   // kilobytes at its peak
}

func (c cost) String() string {
	return fmt.Sprintf("%.0f ms (%.0f ms of CPU), %.0f MB", c.wall, c.cpu, float64(c.memory)/1024)
}

// tool builds a program of this module.
func tool(t *testing.T, dir, pkg string) string {
	t.Helper()
	bin := filepath.Join(dir, filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", bin, "github.com/wallproof/wallproof/"+pkg).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// quick builds a program that verifies as `make build` does.
func quick(t *testing.T, dir, pkg, name string) string {
	t.Helper()
	bin := filepath.Join(dir, name)
	cmd := exec.Command("go", "run", "./internal/tools/slim", "go", "build", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w", "-o", bin, "./"+pkg)
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

const runs = 31

// usage measures a command, several times.
func usage(t *testing.T, measure string, times int, args ...string) (c cost) {
	t.Helper()
	out, err := exec.Command(measure, append([]string{strconv.Itoa(times)}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := fmt.Sscan(string(out), &c.wall, &c.cpu, &c.memory); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return c
}

// processRows compares whole processes. What cosign does is to verify the bundle;
// the same of ours is a bundle alone, and the whole packet stands below it. All
// programs that verify are measured: the one that users start, the auditor's, and the
// one with all commands.
func processRows(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	measure := tool(t, dir, "internal/tools/benchverify/measure")
	p := packettest.New(t)
	root := p.WriteDir(t, dir)
	key := filepath.Join(dir, "key.pub")
	if err := os.WriteFile(key, p.PublicKeyPEM(t), 0o600); err != nil {
		t.Fatal(err)
	}
	at := packettest.Now.Format(time.RFC3339)
	attestation, rerun := filepath.Join(root, packet.AttestationFile), filepath.Join(root, packet.VerificationFile)
	whole := filepath.Join(dir, front.Boundary)
	if err := os.Rename(tool(t, dir, "cmd/wallproof"), whole); err != nil {
		t.Fatal(err)
	}
	cosign := cosignBinary(t)
	var theirs cost
	if cosign == "" {
		fmt.Println("| cosign | not run: build it with internal/tools/stack -all | | |")
	} else {
		theirs = usage(t, measure, runs, cosign, "verify-blob-attestation", "--bundle", attestation, "--key", key, "--insecure-ignore-tlog", "--type", predicate.TypeBoundary,
			"--digest", packettest.ImageDigest[len("sha256:"):], "--digestAlg", "sha256")
	}
	for _, bin := range []string{quick(t, dir, "cmd/wallproof-front", front.Program), quick(t, dir, "cmd/wallproof-verify", "wallproof-verify"), whole} {
		name := filepath.Base(bin)
		bare := usage(t, measure, runs, bin, "version")
		bundle := usage(t, measure, runs, bin, "verify", attestation, "--verification", rerun, "--key", key, "--at", at)
		whole := usage(t, measure, runs, bin, "verify", root, "--key", key, "--at", at)
		row(name+": bundle and re-run, whole process", bundle.String(), "bare start "+bare.String(), bundle.cpu/bare.cpu)
		row(name+": packet, whole process", whole.String(), "bare start "+bare.String(), whole.cpu/bare.cpu)
		if cosign == "" {
			continue
		}
		row(name+" beside cosign, wall", bundle.String(), "cosign, the bundle: "+theirs.String(), bundle.wall/theirs.wall)
		row("the same, CPU", bundle.String(), theirs.String(), bundle.cpu/theirs.cpu)
		row("the same, memory", bundle.String(), theirs.String(), float64(bundle.memory)/float64(theirs.memory))
		row("packet beside cosign's bundle, CPU", whole.String(), theirs.String(), whole.cpu/theirs.cpu)
	}
}

func cosignBinary(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "wallproof", "stack", "cosign-v*"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}
