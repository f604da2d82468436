//go:build bench && linux

package benchverify

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

// megabytes of the manifest that is hashed and read.
const megabytes = 1024

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

// bulk writes a manifest of about a gigabyte to a file.
func bulk(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), manifest.FileName)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := &counting{w: f}
	w := manifest.NewWriter(out)
	if err := w.WriteRun(manifest.Run{}); err != nil {
		t.Fatal(err)
	}
	p := packettest.New(t)
	m, err := manifest.Read(bytes.NewReader(p.Files[packet.ManifestFile]))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; out.n < megabytes<<20; i++ {
		if err := w.WriteTechnique(m.Techniques[i%len(m.Techniques)]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close("", ""); err != nil {
		t.Fatal(err)
	}
	return path
}

type counting struct {
	w io.Writer
	n int
}

func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.w.Write(p)
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
	path := bulk(t)
	sha := rate(t, path, func(r io.Reader) error { _, err := io.Copy(sha256.New(), r); return err })
	chain := rate(t, path, func(r io.Reader) error { _, _, err := manifest.Chain(r); return err })
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

// usage is the median of several runs of a command.
func usage(t *testing.T, name string, args ...string) (time.Duration, float64) {
	t.Helper()
	var wall []time.Duration
	var memory []int64
	for range 15 {
		cmd := exec.Command(name, args...)
		start := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		wall = append(wall, time.Since(start))
		memory = append(memory, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	}
	slices.Sort(wall)
	slices.Sort(memory)
	return wall[len(wall)/2], float64(memory[len(memory)/2]) / 1024
}

func processRows(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "wallproof")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", bin, "github.com/wallproof/wallproof/cmd/wallproof").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	p := packettest.New(t)
	root := p.WriteDir(t, dir)
	key := filepath.Join(dir, "key.pub")
	if err := os.WriteFile(key, p.PublicKeyPEM(t), 0o600); err != nil {
		t.Fatal(err)
	}
	show := func(wall time.Duration, memory float64) string {
		return fmt.Sprintf("%.0f ms, %.0f MB", wall.Seconds()*1e3, memory)
	}
	at := packettest.Now.Format(time.RFC3339)
	bareWall, bareMemory := usage(t, bin, "version")
	wall, memory := usage(t, bin, "verify", root, "--key", key, "--at", at)
	row("wallproof verify, whole process, packet", show(wall, memory), "bare start "+show(bareWall, bareMemory), wall.Seconds()/bareWall.Seconds())
	cosign := cosignBinary(t)
	if cosign == "" {
		fmt.Println("| cosign | not run: build it with internal/tools/stack -all | | |")
		return
	}
	cosignWall, cosignMemory := usage(t, cosign, "verify-blob-attestation", "--bundle", filepath.Join(root, packet.AttestationFile), "--key", key,
		"--insecure-ignore-tlog", "--type", predicate.TypeBoundary, "--digest", packettest.ImageDigest[len("sha256:"):], "--digestAlg", "sha256")
	row("the same beside cosign", show(wall, memory), show(cosignWall, cosignMemory), wall.Seconds()/cosignWall.Seconds())
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
